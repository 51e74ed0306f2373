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

HAS_CHROMIUM = (for one in chromium chromium-browser google-chrome google-chrome-stable chrome; do \
	command -v $$one >/dev/null && exit 0; done; exit 1)

# `make test TESTS="-n 4 tests/shards"`: arguments of pytest, which win over those given here. Each
# process runs neighbouring tests, so that what a file's tests share is made once; one that has run
# out of tests takes half of another's.
TESTS ?=
PARALLEL = -n auto --maxprocesses 8 --dist worksteal
# `make bench BENCH="--scale 0.1"` is short. The reference needs Python 3.12 or newer; both run on
# one Python, and one that pysimdjson has wheels for if there is one.
BENCH ?=
# `make fuzz FUZZ="sink rllm" FUZZ_SECONDS=600`: targets, and an end by time (0: none). The corpus
# is kept between runs, which begin from it.
FUZZ ?=
FUZZ_RUNS ?= 1000000
FUZZ_SECONDS ?= 0
FUZZ_JOBS ?= 2
FUZZ_CORPUS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/wmo-distill/fuzz
FUZZ_EXAMPLES ?= 20000
# Minutes that `make torture` takes, about, on two cores; ATTACKS names some of them, such as kills.
TORTURE ?= 60
ATTACKS ?=
BENCH_VENV ?= $(HERE)/.venv-bench
REFERENCE ?= $(HERE)/.venv-reference
REFERENCE_PYTHON ?= $(shell for p in python3.13 python3.12 python3 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$p && break; done)
DEMO ?= demo
# A file of pinned requirements with hashes that is installed in place of the ranges of
# pyproject.toml. `.ci/run` uses the one that `make lock` writes.
LOCK ?=
LOCKED = $(HERE)/.ci/requirements.txt
LOCK_VENV ?= $(HERE)/.venv-lock
# What pip is given for PyTorch, in words of its own. PyPI's build for Linux brings CUDA, several GB;
# PyTorch's own index has a CPU build: TORCH="torch --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0

# verl and AReaL need a Python below 3.13, SkyRL 3.12.
TRAINERS ?= $(HERE)/.venv-trainers
TRAINERS_PYTHON ?= $(shell for p in python3.12 python3.11; do \
	$$p -c '' 2>/dev/null && echo $$p && break; done)
TRAINERS_PIP = $(TRAINERS)/bin/python -m pip --quiet --disable-pip-version-check
# AReaL pins a PyTorch and a transformers that exclude verl's: it goes in without its requirements.
AREAL = areal==1.0.4
AREAL_IMPORTS = aiofiles colorlog einops flask lark numba openai pybase64 swanlab tabulate tenacity \
	tensorboardX trackio uvloop

# The packages of recorders whose files are read, for their own loaders. PyTorch stays out: what
# would bring it goes in without its requirements, next to those that its loader imports.
SOURCES ?= $(HERE)/.venv-sources
SOURCES_PIP = $(SOURCES)/bin/python -m pip --quiet --disable-pip-version-check
OWNERS = verifiers==0.4.0 rllm-model-gateway==0.1.0
OWNERS_ALONE = tinker-cookbook==0.6.1 openenv==0.10.0
OWNERS_IMPORTS = "fastmcp>=3,<4"

.PHONY: help demo test test-view test-trainers test-sources shards report train-demo bench fuzz \
	fuzz-properties torture docs lock audit clean
.DEFAULT_GOAL := help

help:
	@echo "make demo                    shards and statistics from the trials in fixtures/"
	@echo "make test                    the checks that a change must pass"
	@echo "make test-view               the web application alone, in the system's Chromium"
	@echo "make test-trainers           the exporters against the trainers' own packages (3 GB)"
	@echo "make test-sources            the sources against the loaders of the recorders' own packages"
	@echo "make shards TRIALS=DIR OUT=DIR  your trials to shards; only new and changed trials are read"
	@echo "make report TRIALS=DIR OUT=DIR  the same, and OUT.html: one page of charts and tables"
	@echo "make train-demo              a small model trained on-policy through trials, shards and datums"
	@echo "make bench                   speed, memory and size, against the reference and other parsers"
	@echo "make fuzz                    a million changed files at every reader, guided by coverage (FUZZ_RUNS, FUZZ_SECONDS)"
	@echo "make fuzz-properties         every property test with random examples, for hours (FUZZ_EXAMPLES=20000)"
	@echo "make torture                 kills, faults, hostile files and servers, for an hour (TORTURE=60)"
	@echo "make docs                    the parts of docs/ that are made from the code"
	@echo "make lock                    the pinned requirements of .ci/run, renewed"
	@echo "make audit                   their known vulnerabilities, by pip-audit"
	@echo "make clean                   remove the virtual environments and demo/"

docs: $(VENV)/dev
	@cd $(HERE) && $(VENV)/bin/python -m tests.project.generated

demo: $(VENV)/run
	@cd $(HERE) && $(DISTILL) build fixtures/trials -o $(DEMO)
	@echo
	@cd $(HERE) && $(DISTILL) stats $(DEMO)
	@echo
	@echo "Next, your own trials as shards and as a page of charts: make report TRIALS=DIR OUT=DIR"

test: $(VENV)/dev
	@cd $(HERE) && $(VENV)/bin/ruff check --quiet .
	@cd $(HERE) && $(VENV)/bin/ruff format --check --quiet .
	@cd $(HERE) && $(VENV)/bin/mypy --no-error-summary
	@$(HAS_CHROMIUM) || echo "no Chromium on PATH: the tests in tests/browser are skipped" >&2
	@cd $(HERE) && $(VENV)/bin/python -m pytest -q $(PARALLEL) $(TESTS)

# `make test` runs these too, where there is a Chromium.
test-view: $(VENV)/dev
	@$(HAS_CHROMIUM) || { echo "make test-view: expected Chromium on PATH, found none;" \
		"on Debian: apt-get install chromium" >&2; exit 2; }
	@cd $(HERE) && $(VENV)/bin/python -m pytest -q $(PARALLEL) tests/view tests/browser

test-trainers: $(TRAINERS)/done
	@cd $(HERE) && CLEAN_RUNS=200 $(TRAINERS)/bin/python -m pytest -q -rs tests/exporters tests/train \
		tests/proof/test_generate.py

test-sources: $(SOURCES)/done
	@cd $(HERE) && $(SOURCES)/bin/python -m pytest -q -rs tests/owners

shards: $(VENV)/run
	@test -n "$(TRIALS)" || { echo "make shards: TRIALS is empty; expected a directory of trials:" \
		"make shards TRIALS=jobs OUT=shards" >&2; exit 2; }
	@$(DISTILL) build $(TRIALS) -o $(OUT) $(BUILD)

report: shards $(VENV)/report
	@$(DISTILL) report $(OUT) -o $(patsubst %/,%,$(OUT)).html

train-demo: $(VENV)/train
	@cd $(HERE) && $(VENV)/bin/python -m tests.train.demo

bench: $(BENCH_VENV)/done $(REFERENCE)/done
	@cd $(HERE) && $(BENCH_VENV)/bin/python -m tests.bench.kept
	@cd $(HERE) && $(BENCH_VENV)/bin/python -m tests.bench.lists
	@cd $(HERE) && $(BENCH_VENV)/bin/python -m tests.bench.growth
	@cd $(HERE) && $(BENCH_VENV)/bin/python -m tests.bench.look
	@cd $(HERE) && $(BENCH_VENV)/bin/python -m tests.bench.view
	@cd $(HERE) && $(BENCH_VENV)/bin/python -m tests.bench.run $(BENCH) \
		$$(test -x $(REFERENCE)/bin/wmo && echo --reference $(REFERENCE)/bin/python)
	@cd $(HERE) && $(BENCH_VENV)/bin/python -m tests.bench.sources \
		$$(test -e $(SOURCES)/done && echo --owners $(SOURCES)/bin/python)

fuzz: $(VENV)/fuzz
	@cd $(HERE) && $(VENV)/bin/python -m tests.fuzz --runs $(FUZZ_RUNS) --seconds $(FUZZ_SECONDS) \
		--jobs $(FUZZ_JOBS) --corpus "$(FUZZ_CORPUS)" $(FUZZ)

fuzz-properties: $(VENV)/dev
	@cd $(HERE) && FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(VENV)/bin/python -m pytest -q -m hypothesis tests
	@cd $(HERE) && CLEAN_RUNS=200 $(VENV)/bin/python -m pytest -q tests/proof/test_settings.py

torture: $(VENV)/dev
	@cd $(HERE) && $(VENV)/bin/python -m tests.torture --minutes $(TORTURE) $(ATTACKS)

# One file for every Python and platform that we support, by markers.
lock: $(LOCK_VENV)/done
	@cd $(HERE) && printf 'editables\nhatchling\n' | $(LOCK_VENV)/bin/uv pip compile --quiet \
		--upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --extra dev pyproject.toml - -o $(LOCKED)

audit: $(LOCK_VENV)/done
	@$(LOCK_VENV)/bin/pip-audit --strict --disable-pip --require-hashes -r $(LOCKED)

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(REFERENCE) $(LOCK_VENV) $(TRAINERS) $(SOURCES) $(HERE)/demo

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "expected Python 3.11 or newer on PATH, found none;" \
		"install it or say make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual" \
		"environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }

$(VENV)/run: $(HERE)/pyproject.toml | $(VENV)/bin/python
	@echo "installing into $(VENV)" >&2
	@$(PIP) install -e $(HERE)
	@touch $@

$(VENV)/dev: $(HERE)/pyproject.toml $(LOCK) | $(VENV)/bin/python
	@echo "installing into $(VENV)" >&2
	@$(if $(LOCK),$(PIP) install --require-hashes -r $(LOCK) && \
		$(PIP) install --no-build-isolation --no-deps -e $(HERE),$(PIP) install -e "$(HERE)[dev]")
	@touch $@ $(VENV)/run

$(VENV)/report: $(VENV)/run
	@$(PIP) install -e "$(HERE)[report]"
	@touch $@

$(VENV)/fuzz: $(VENV)/dev
	@$(PIP) install -e "$(HERE)[fuzz]"
	@touch $@

$(LOCK_VENV)/done:
	@echo "installing into $(LOCK_VENV)" >&2
	@$(PYTHON) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip --quiet --disable-pip-version-check install uv pip-audit
	@touch $@

$(BENCH_VENV)/done: $(HERE)/pyproject.toml
	@echo "installing into $(BENCH_VENV)" >&2
	@$(or $(REFERENCE_PYTHON),$(PYTHON)) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip --quiet --disable-pip-version-check install -e "$(HERE)[fast,bench]"
	@touch $@

# PyTorch first, as TORCH says: the extra would take the newest from PyPI.
$(VENV)/train: $(VENV)/run
	@$(PIP) install $(TORCH)
	@$(PIP) install -e "$(HERE)[train]"
	@touch $@

$(REFERENCE)/done:
	@test -n "$(REFERENCE_PYTHON)" || echo "no Python 3.12 on PATH: the reference is left out" >&2
	@mkdir -p $(REFERENCE)
	@test -z "$(REFERENCE_PYTHON)" || { $(REFERENCE_PYTHON) -m venv $(REFERENCE) && \
		$(REFERENCE)/bin/python -m pip install --quiet world-model-optimizer==0.2.0 \
		harbor datasets; } || \
		echo "the reference could not be installed and is left out" >&2
	@touch $@

$(TRAINERS)/done: $(HERE)/pyproject.toml
	@test -n "$(TRAINERS_PYTHON)" || { echo "expected Python 3.12 or 3.11 on PATH, found neither;" \
		"install one or say make TRAINERS_PYTHON=/path/to/python3.12" >&2; exit 2; }
	@echo "installing into $(TRAINERS)" >&2
	@$(TRAINERS_PYTHON) -m venv $(TRAINERS)
	@$(TRAINERS_PIP) install $(TORCH)
	@$(TRAINERS_PIP) install -e "$(HERE)[dev,trainers]" $(AREAL_IMPORTS)
	@$(TRAINERS_PIP) install --no-deps $(AREAL)
	@touch $@

# A package that cannot be installed is left out, and its tests are skipped.
$(SOURCES)/done: $(HERE)/pyproject.toml
	@echo "installing into $(SOURCES)" >&2
	@$(PYTHON) -m venv $(SOURCES)
	@$(SOURCES_PIP) install -e "$(HERE)[dev]"
	@for one in $(OWNERS) $(OWNERS_IMPORTS); do $(SOURCES_PIP) install $$one || echo "$$one is left out" >&2; done
	@for one in $(OWNERS_ALONE); do \
		$(SOURCES_PIP) install --no-deps $$one || echo "$$one is left out" >&2; done
	@touch $@
