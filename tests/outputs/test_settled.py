"""`verify` waits for a commit that is at work, and reports one that was broken off."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from tests.shards.generated import lawful, write_dataset
from wmo_distill.errors import DistillError
from wmo_distill.outputs import settled
from wmo_distill.outputs.manifest import MANIFEST
from wmo_distill.shards.verify import verify


@pytest.fixture
def between(tmp_path: Path) -> Path:
    """A dataset whose next parts and ledger are in place, and the manifest not yet."""
    out, after = tmp_path / "out", tmp_path / "after"
    for place in (out, after):
        place.mkdir()
    write_dataset(out, [[lawful("a")]])
    write_dataset(after, [[lawful("a")], [lawful("b")]])
    staging = out / ".staging-1"
    staging.mkdir()
    shutil.copytree(after / "parts", out / "parts", dirs_exist_ok=True)
    shutil.copy(after / "ledger.parquet", out)
    shutil.copy(after / MANIFEST, staging)
    return out


def test_a_commit_at_work_is_waited_for(between: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = []

    def finish(seconds: float) -> None:
        pauses.append(seconds)
        os.replace(between / ".staging-1" / MANIFEST, between / MANIFEST)

    monkeypatch.setattr(settled.time, "sleep", finish)
    held = os.open(between, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert verify(between) == []
    os.close(held)
    assert len(pauses) == 1


def test_a_commit_that_was_broken_off_is_a_fault(between: Path) -> None:
    assert {fault.file for fault in verify(between)} >= {"ledger.parquet"}


def test_a_manifest_that_was_replaced_meanwhile_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled.time, "sleep", lambda seconds: None)
    (tmp_path / MANIFEST).write_text("{}")
    seen = []

    def check(out: Path, progress: object) -> list[settled.Fault]:
        seen.append(out)
        if len(seen) < 3:
            (out / "next").write_text("{}")
            os.replace(out / "next", out / MANIFEST)
        return [settled.Fault("a", None, "b", "c")]

    assert len(settled.settled(check)(tmp_path)) == 1
    assert len(seen) == 3


def test_a_directory_that_never_stays(between: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(settled, "_TRIES", 2)
    held = os.open(between, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(DistillError, match="a run that changes it again and again"):
        verify(between)
    os.close(held)


def test_a_commit_that_was_broken_off_explains_the_faults(tmp_path: Path) -> None:
    """Nobody holds the lock: what is found has one cause, which the next run removes."""
    staging = tmp_path / ".staging-1"
    staging.mkdir()
    (staging / MANIFEST).write_text("{}")
    ledger = settled.Fault("ledger.parquet", None, "12 bytes", "13")
    first, second = settled.settled(lambda out, progress: [ledger])(tmp_path)
    assert "run the same command again" in str(first)
    assert second is ledger
    assert settled.settled(lambda out, progress: [])(tmp_path) == []
