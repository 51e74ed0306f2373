"""metrics.jsonl: whole lines, a bounded file, and nothing that a directory's content depends on."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.pipeline_trials import make_job
from wmo_distill.errors import UsageError
from wmo_distill.outputs import metrics
from wmo_distill.outputs.manifest import MANIFEST
from wmo_distill.outputs.metrics import METRICS, add_metrics
from wmo_distill.pipeline.build import build
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.verify import verify


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


def test_one_line_a_run(tmp_path: Path) -> None:
    for number in range(3):
        add_metrics(tmp_path, {"run": number, "text": "a\nb\udc80"})
    assert [line["run"] for line in lines(tmp_path)] == [0, 1, 2]
    assert lines(tmp_path)[0]["text"] == "a\nb\udc80"


@pytest.mark.parametrize("torn", ['{"run": 1', "x" * 300, '{"run": 1}'])
def test_a_torn_last_line_is_taken_away(tmp_path: Path, torn: str) -> None:
    """What a run that was killed has left; the lines before it stay."""
    add_metrics(tmp_path, {"run": 0})
    with (tmp_path / METRICS).open("a") as file:
        file.write(torn)
    add_metrics(tmp_path, {"run": 2})
    assert [line["run"] for line in lines(tmp_path)] == [0, 2]


def test_a_file_of_one_torn_line(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text('{"run"')
    add_metrics(tmp_path, {"run": 2})
    assert [line["run"] for line in lines(tmp_path)] == [2]


def test_it_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest lines stay, whole and in order; a reader of the old file reads on."""
    monkeypatch.setattr(metrics, "MOST_BYTES", 1000)
    add_metrics(tmp_path, {"run": -1})
    with (tmp_path / METRICS).open() as reader:
        for number in range(500):
            add_metrics(tmp_path, {"run": number})
            assert (tmp_path / METRICS).stat().st_size <= 1000
        assert json.loads(reader.readline()) == {"run": -1}
    runs = [line["run"] for line in lines(tmp_path)]
    assert runs == list(range(500 - len(runs), 500))
    assert len(runs) > 20
    assert os.listdir(tmp_path) == [METRICS]


def test_a_line_that_is_larger_than_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_BYTES", 100)
    add_metrics(tmp_path, {"run": 0})
    add_metrics(tmp_path, {"run": 1, "text": "x" * 500})
    add_metrics(tmp_path, {"run": 2})
    assert [line["run"] for line in lines(tmp_path)][-1] == 2


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_metrics(tmp_path, {"run": 0})
    before = (tmp_path / METRICS).read_bytes()
    write = os.write

    def full(fd: int, data: bytes) -> int:
        write(fd, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(metrics.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        add_metrics(tmp_path, {"run": 1})
    monkeypatch.setattr(metrics.os, "write", lambda fd, data: write(fd, data[:3]))
    with pytest.raises(OSError, match="3 of 11 bytes"):
        add_metrics(tmp_path, {"run": 1})
    assert (tmp_path / METRICS).read_bytes() == before


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / METRICS)
    with pytest.raises(OSError, match="a regular file"):
        add_metrics(tmp_path, {"run": 0})
    (tmp_path / METRICS).unlink()
    (tmp_path / METRICS).symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        add_metrics(tmp_path, {"run": 0})
    assert not (tmp_path / "other").exists()


def test_another_that_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for, and not for ever."""
    add_metrics(tmp_path, {"run": 0})
    held = os.open(tmp_path / METRICS, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    pauses: list[float] = []
    monkeypatch.setattr(metrics.time, "sleep", pauses.append)
    with pytest.raises(OSError, match="found it locked"):
        add_metrics(tmp_path, {"run": 1})
    assert len(pauses) > 5
    monkeypatch.setattr(metrics.time, "sleep", lambda seconds: os.close(held))
    add_metrics(tmp_path, {"run": 1})
    assert [line["run"] for line in lines(tmp_path)] == [0, 1]


def test_many_processes_at_once(tmp_path: Path) -> None:
    """Each line is there once, however long each waits for the others."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom wmo_distill.outputs import metrics\n"
        "metrics._TRIES = 100_000\n"
        "for n in range(50): metrics.add_metrics(Path(sys.argv[1]), {'run': [sys.argv[2], n]})"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"]
    assert [run.wait(timeout=300) for run in runs] == [0, 0, 0]
    found = [tuple(line["run"]) for line in lines(tmp_path)]
    assert sorted(found) == [(name, n) for name in "abc" for n in range(50)]


def test_a_dataset_does_not_depend_on_it(tmp_path: Path) -> None:
    """Neither `verify` nor a build looks at what it holds."""
    job = make_job(tmp_path / "job", "t1")
    out = tmp_path / "out"
    build([job], out)
    before = read_manifest(out).dataset_hash
    for text in ("", "no json", '{"run"'):
        (out / METRICS).write_text(text)
        assert verify(out) == []
        build([job], out)
        build([job], out, fresh=True)
        assert (read_manifest(out).dataset_hash, (out / METRICS).read_text()) == (before, text)


def test_in_a_directory_of_something_else_it_is_not_ours(tmp_path: Path) -> None:
    """Trainers write files of that name: they are no reason to write there."""
    job = make_job(tmp_path / "job", "t1")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / METRICS).write_text("{}\n")
    for fresh in (False, True):
        with pytest.raises(UsageError, match=METRICS):
            build([job], tmp_path / "out", fresh=fresh)


def test_fresh_goes_over_a_manifest_that_is_damaged(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1")
    out = tmp_path / "out"
    build([job], out)
    add_metrics(out, {"run": 0})
    (out / MANIFEST).write_text("no json")
    build([job], out, fresh=True)
    assert verify(out) == []
    assert [line["run"] for line in lines(out)] == [0]
