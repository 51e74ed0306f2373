"""The file system fails at any question of a build: no row is wrong, and nothing stays so."""

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
import pytest

from tests.torture.questions import (
    LASTING,
    PASSING,
    Answer,
    Question,
    Questions,
    always,
    once,
)
from tests.torture.trees import TREES
from wmo_distill import build, verify
from wmo_distill.disk import PATIENCE
from wmo_distill.errors import DistillError
from wmo_distill.pipeline.summary import Summary
from wmo_distill.shards.manifest import read_manifest

SAMPLE = int(os.environ.get("READING_FAULTS", "10"))
"""Faults of each kind in each tree."""
_T = TypeVar("_T")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PATIENCE, "left", 0.0)


class Dataset:
    """A tree, and what a build without faults makes of it."""

    def __init__(self, name: str, place: Path) -> None:
        self.tree, self.good = place / "tree", place / "good"
        self.tree.mkdir()
        self.options = TREES[name](self.tree)
        with Questions(self.tree).watched() as questions:
            self.summary = self.build(self.good)
        assert self.summary.written
        self.questions = questions.asked

    def build(self, out: Path) -> Summary:
        options: dict[str, Any] = dict(self.options)
        return build([self.tree], out, workers=1, **options)

    def faulted(self, out: Path, answer: Answer) -> tuple[Summary | None, str]:
        """(the summary, None where the build was refused; what it said of faults)."""
        try:
            with Questions(self.tree, answer).watched():
                summary = self.build(out)
        except DistillError as error:
            return None, str(error)
        assert summary.found == summary.written + sum(summary.skipped.values())
        assert verify(out) == []
        return summary, " ".join(summary.errors.values())

    @property
    def hash(self) -> str:
        return read_manifest(self.good).dataset_hash

    def is_whole(self, out: Path) -> None:
        """The dataset of a build without faults, and nothing in it is to be read again."""
        assert read_manifest(out).dataset_hash == self.hash
        assert ledger(out) == ledger(self.good)
        assert verify(out) == []

    def outdated(self, out: Path) -> Path:
        """A copy of the good dataset, after which every file of the trials is newer."""
        shutil.copytree(self.good, out)
        for file in self.tree.rglob("*"):
            if file.is_file():
                state = file.stat()
                os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 1_000_000_000))
        return out


@pytest.fixture(scope="module", params=TREES)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Dataset(request.param, tmp_path_factory.mktemp(request.param))


def ledger(out: Path) -> list[tuple[Any, ...]]:
    """What became of each trial, without its state and its part."""
    rows = pq.read_table(out / "ledger.parquet").to_pylist()
    return [(r["path"], r["trial_id"], r["outcome"], r["reasons"], r["records"]) for r in rows]


def spread(values: Sequence[_T], count: int) -> list[_T]:
    step = max(1, len(values) // count)
    return list(values[::step])[:count]


def distinct(questions: Sequence[Question]) -> list[tuple[int, Question]]:
    """Every question once, with the number at which it was asked first."""
    first = {question: number for number, question in reversed(list(enumerate(questions)))}
    return sorted((number, question) for question, number in first.items())


def test_a_fault_that_passes_changes_nothing(dataset: Dataset, tmp_path: Path) -> None:
    numbers = [number for number, _ in distinct(dataset.questions)]
    for k, number in enumerate(spread(numbers, SAMPLE)):
        out = tmp_path / f"{number}"
        _, said = dataset.faulted(out, once(number, PASSING[k % len(PASSING)]))
        assert said == "", dataset.questions[number]
        dataset.is_whole(out)


def test_a_fault_that_stays_is_reported_and_does_not_last(dataset: Dataset, tmp_path: Path) -> None:
    for k, (number, question) in enumerate(spread(distinct(dataset.questions), SAMPLE)):
        out, code = tmp_path / f"{number}", LASTING[k % len(LASTING)]
        _, said = dataset.faulted(out, always(question, code))
        word = "SQLite" if question.call == "connect" else errno.errorcode[code]
        if word not in said:  # what was not answered decides nothing
            assert said == ""
            dataset.is_whole(out)
        assert not said or question.path in said
        dataset.build(out)
        dataset.is_whole(out)


def test_a_fault_that_stays_alters_no_row_of_an_earlier_build(
    dataset: Dataset, tmp_path: Path
) -> None:
    """All its trials are due, and their rows would be the same."""
    for k, (number, question) in enumerate(spread(distinct(dataset.questions), SAMPLE)):
        out = dataset.outdated(tmp_path / f"{number}")
        summary, said = dataset.faulted(out, always(question, LASTING[k % len(LASTING)]))
        assert summary is None or (summary.removed, bool(summary.unread)) == (0, bool(said))
        assert read_manifest(out).dataset_hash == dataset.hash, question
        dataset.build(out)
        dataset.is_whole(out)


def test_reads_that_give_a_few_bytes_at_a_time(dataset: Dataset, tmp_path: Path) -> None:
    with Questions(dataset.tree, most=509).watched():
        dataset.build(tmp_path / "out")
    dataset.is_whole(tmp_path / "out")
