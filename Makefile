# Needs make and Python 3.11 or newer. Works from any directory: `make -C PATH demo`.

HERE := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
VENV ?= $(HERE)/.venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
DISTILL = $(VENV)/bin/wmo-distill
PIP = $(VENV)/bin/python -m pip --quiet --disable-pip-version-check

# Where `make shards` reads and writes; further options of the command go into BUILD.
TRIALS ?=
OUT ?= shards
BUILD ?=
DEMO ?= demo

.PHONY: help demo test shards clean
.DEFAULT_GOAL := help

help:
	@echo "make demo                    shards and statistics from the trials in fixtures/"
	@echo "make test                    the checks that a change must pass"
	@echo "make shards TRIALS=DIR OUT=DIR  your trials to shards; only new and changed trials are read"
	@echo "make clean                   remove .venv and demo/"

demo: $(VENV)/run
	@cd $(HERE) && $(DISTILL) build fixtures/trials -o $(DEMO)
	@echo
	@cd $(HERE) && $(DISTILL) stats $(DEMO)

test: $(VENV)/dev
	@cd $(HERE) && $(VENV)/bin/ruff check --quiet .
	@cd $(HERE) && $(VENV)/bin/ruff format --check --quiet .
	@cd $(HERE) && $(VENV)/bin/mypy --no-error-summary
	@cd $(HERE) && $(VENV)/bin/python -m pytest -q

shards: $(VENV)/run
	@test -n "$(TRIALS)" || { echo "make shards: TRIALS is empty; expected a directory of trials:" \
		"make shards TRIALS=jobs OUT=shards" >&2; exit 2; }
	@$(DISTILL) build $(TRIALS) -o $(OUT) $(BUILD)

clean:
	rm -rf $(VENV) $(HERE)/demo

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "expected Python 3.11 or newer on PATH, found none;" \
		"install it or say make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual" \
		"environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }

$(VENV)/run: $(HERE)/pyproject.toml | $(VENV)/bin/python
	@echo "installing into $(VENV)" >&2
	@$(PIP) install -e $(HERE)
	@touch $@

$(VENV)/dev: $(HERE)/pyproject.toml | $(VENV)/bin/python
	@echo "installing into $(VENV)" >&2
	@$(PIP) install -e "$(HERE)[dev]"
	@touch $@ $(VENV)/run
