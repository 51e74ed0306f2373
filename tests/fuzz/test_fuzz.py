"""Each target of `make fuzz` for a moment, what it has found, and an oracle that can say no."""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.mutate import mutated
from tests.fuzz.one import changed, tried
from tests.fuzz.oracle import check, documents, recorded
from tests.fuzz.seeds import FIXTURES, files_of
from tests.fuzz.targets import TARGETS
from wmo_distill.options import BuildOptions
from wmo_distill.records import ReadTrial
from wmo_distill.sources.finding import discover
from wmo_distill.tokens import TokenSpan
from wmo_distill.trial import read_found

FINDINGS = sorted((FIXTURES / "findings").glob("*/*"))


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_changes_break_nothing(name: str, tmp_path: Path) -> None:
    seeds, check_it = TARGETS[name].begin(tmp_path)
    for seed in seeds:
        check_it(seed)
    assert tried(seeds, check_it, 40, random.Random(name)) is None


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_is_mended(finding: Path, tmp_path: Path) -> None:
    place, _, content = finding.read_bytes().partition(b"\n")
    places = TARGETS[finding.parent.name].places(tmp_path)
    places[place.decode()][1](content)


def test_shares_are_of_a_whole() -> None:
    assert sum(target.share for target in TARGETS.values()) == 100


def test_a_seed_gives_the_same_changes() -> None:
    data = b'{"a": [1, 2, {"b": null}], "c": "x"}'
    one, other = ([mutated(data, random.Random(n)) for n in range(50)] for _ in range(2))
    assert one == other
    assert len(set(one)) > 40
    place, _, _ = changed(b"p\n" + data, [b"q\n{}"], random.Random(1)).partition(b"\n")
    assert place in (b"p", b"q")


@pytest.fixture
def trial(tmp_path: Path) -> ReadTrial:
    for name, data in files_of("cases/ok_submitted/trials").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (found,) = discover([tmp_path]).trials
    return read_found(found, BuildOptions())


def test_the_oracle_takes_what_is_recorded_and_nothing_else(trial: ReadTrial) -> None:
    known = recorded(files_of("cases/ok_submitted/trials").values())
    check(trial, known, whole=True, encoded=True)
    record = trial.records[0]
    span = record.spans[0]
    sampled = np.append(span.sampled, np.int32(1))
    for odd in (
        TokenSpan(0, span.prompt_token_ids, sampled),
        TokenSpan(0, span.prompt_token_ids, span.sampled, span.sampled - 0.125),
    ):
        spoiled = replace(trial, records=[replace(record, spans=(odd, *record.spans[1:]))])
        with pytest.raises(AssertionError, match=r"recorded"):
            check(spoiled, known, whole=True, encoded=False)
    with pytest.raises(AssertionError, match="do not balance"):
        check(replace(trial, calls_found=99), known, whole=True, encoded=False)


def test_documents_are_what_json_accepts() -> None:
    assert list(documents(b'\xef\xbb\xbf{"a": 1}')) == [{"a": 1}]
    assert list(documents(b'{"a": 1}\n{"b": \n[2]')) == [{"a": 1}, [2], {"a": 1}]
    broken = b'[{"a": {"c": [1]} "b"}, {"d": [2]}]'
    assert list(documents(broken)) == [{"d": [2]}]


def test_the_command_prints_what_was_tried(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--runs", "30", "--corpus", str(tmp_path), "answers"],
        cwd=FIXTURES.parent, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answers" in done.stdout
    assert done.stdout.endswith("0 findings\n")
