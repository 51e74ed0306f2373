"""Scores on disk: a part whose bytes are not those that were written is not used."""

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests import sealed
from wmo_distill.cli.app import app
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.scorers.cache import SCORES, ScoreCache
from wmo_distill.scorers.scorer import Score
from wmo_distill.scorers.verify import verify_scores

A, B, C = ("a" * 32, "b" * 32, "c" * 32)
SCORE = Score(np.array([np.nan, -1.0, -2.0]), [None, [(1, -1.0)], [(2, -2.0), (3, -3.0)]])


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Two parts of one score each."""
    for name in (A, B):
        ScoreCache(tmp_path / "c").add("t", [(name, SCORE, 2)])
    assert verify_scores(tmp_path / "c") == []
    return tmp_path / "c"


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_a_damaged_part_is_not_used_and_said_to_be(cache: Path) -> None:
    part = cache / "scores-00000.parquet"
    flip(part)
    kept = ScoreCache(cache)
    assert (kept.has(A, "t"), kept.has(B, "t")) == (False, True)
    (fault,) = kept.faults
    assert str(fault).startswith("scores-00000.parquet: expected SHA-256 ")
    kept.add("t", [(A, SCORE, 2)])
    again = ScoreCache(cache)
    assert again.has(A, "t")
    assert again.faults == [fault]  # nothing is removed that someone may restore
    assert verify_scores(cache)[0] == fault
    part.unlink()
    ScoreCache(cache).add("t", [(C, SCORE, 2)])
    assert ScoreCache(cache).faults == verify_scores(cache) == []
    assert ScoreCache(cache).teachers() == {"t": 3}


def test_commands_report_a_damaged_part(cache: Path, tmp_path: Path) -> None:
    flip(cache / "scores-00001.parquet")
    done = CliRunner().invoke(app, ["verify", str(cache)])
    assert done.exit_code == 1
    assert "scores-00001.parquet: expected SHA-256" in done.stdout
    arguments = ["datums", str(tmp_path), "-o", str(tmp_path / "d"), "--scores", str(cache)]
    done = CliRunner().invoke(app, [*arguments, "--teacher", "t"])
    assert isinstance(done.exception, UsageError)
    assert f"{cache}/scores-00001.parquet: expected SHA-256" in done.stderr
    assert "the part is not used" in done.stderr


def test_a_part_without_missing_is_refused(cache: Path) -> None:
    part = cache / "scores-00001.parquet"
    table = pq.read_table(part)
    pq.write_table(table.drop_columns(["missing"]), part)
    sealed.take_over(cache)
    with pytest.raises(DistillError, match="found: no column missing"):
        ScoreCache(cache)
    assert any(fault.found == "no column missing" for fault in verify_scores(cache))


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("logprobs", [-1.0, -1.0, -2.0], "no number at the first token"),
        ("logprobs", [None, 1.0, -2.0], "finite log-probabilities"),
        ("missing", [2], "missing None"),
        ("top_counts", [0, 1], "candidates"),
        ("top_ids", None, "candidates with ids"),
    ],
)
def test_a_score_that_cannot_be(cache: Path, column: str, value: object, expected: str) -> None:
    part = cache / "scores-00000.parquet"
    table = pq.read_table(part)
    rows = table.to_pylist()
    rows[0][column] = value
    pq.write_table(table.from_pylist(rows, schema=table.schema), part)
    sealed.take_over(cache)
    (fault,) = verify_scores(cache)
    assert (fault.file, fault.row) == (part.name, 0)
    assert expected in fault.expected


def test_two_caches_of_one_directory(cache: Path) -> None:
    one, other = ScoreCache(cache), ScoreCache(cache)
    with one.writing():
        with pytest.raises(UsageError, match="no other run"):
            other.add("t", [(C, SCORE, 2)])
        one.add("u", [(C, SCORE, 2)])
    other.add("v", [(C, SCORE, 2)])  # it sees what the first has added
    assert other.teachers() == ScoreCache(cache).teachers() == {"t": 2, "u": 1, "v": 1}


def test_scores_whose_commit_failed_are_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are given again, as far as they wait for a part."""

    def fail(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    cache = ScoreCache(tmp_path / "c")
    with cache.writing():
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", fail)
            with pytest.raises(OSError, match="Read-only"):
                cache.add("t", [(A, SCORE, 2)])
        cache.add("t", [(A, SCORE, 2), (B, SCORE, 2)])
    assert verify_scores(tmp_path / "c") == []
    assert [part.rows for part in SCORES.read(tmp_path / "c").parts] == [2]
    assert len(ScoreCache(tmp_path / "c")) == 2


def test_a_disk_that_fails_between_two_parts_is_no_fault_of_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be staged any more, once a part was committed."""

    def fail(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    cache = ScoreCache(tmp_path / "c")

    def add_two() -> None:
        with cache.writing():
            cache.add("t", [(A, SCORE, 2)])
            monkeypatch.setattr(tempfile, "mkdtemp", fail)
            cache.add("t", [(B, SCORE, 2)])

    with pytest.raises(DistillError, match=r"Read-only .* holds what was committed") as caught:
        add_two()
    assert caught.value.exit_code == 1
    assert len(ScoreCache(tmp_path / "c")) == 1
