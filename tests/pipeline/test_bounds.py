"""Memory and time of one trial are bounded: it costs itself, and its row says why."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pipeline_datasets import balanced, rows
from pipeline_readers import dying, slow
from pipeline_trials import make_job, make_trial, put, result

from wmo_distill.errors import UsageError
from wmo_distill.limits import TooLarge, parsed_bytes
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.build import build, build_with
from wmo_distill.pipeline.reading import Limits
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.tokenjson import scan as scanning
from wmo_distill.trial import read_found

MB = 1 << 20


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return make_job(tmp_path / "job", "t1", "t3")


def test_a_large_file_is_read_when_the_option_is_raised(job: Path, tmp_path: Path) -> None:
    large, out = make_trial(job / "t2"), tmp_path / "out"
    with open(large / "agent" / "trajectory.json" if (large / "agent").is_dir()
              else large / "wmo-run.json", "ab") as file:  # fmt: skip
        file.truncate(3 * MB)
    for read in (2, 0):
        forecast = build([job], out, max_file_size="2MB", dry_run=True)
        summary = build([job], out, max_file_size="2MB")
        balanced(out, summary)
        assert summary.read == forecast.read == read
        assert summary.bytes_read == forecast.bytes_read < 2 * MB
        assert summary.skipped == {"file_too_large": 1}
        assert rows(out, "trial_name") == ["t1", "t3"]
    summary = build([job], out, max_file_size="4MB")
    assert (summary.read, summary.skipped) == (1, {})
    assert build([job], out, max_file_size="2MB").skipped == {}  # rows that are there stay


@pytest.mark.parametrize("size", ["8 GB", "500MB", "1.5GiB", 2_000_000])
def test_sizes_as_people_write_them(size: str) -> None:
    assert BuildOptions.of(max_file_size=size).max_file_size >= 2_000_000


@pytest.mark.parametrize("size", ["many", "0", "-1", ""])
def test_other_sizes_are_refused(size: str) -> None:
    with pytest.raises(UsageError, match="--max-file-size"):
        BuildOptions.of(max_file_size=size)


def test_lines_of_a_large_file_count_by_themselves(tmp_path: Path) -> None:
    lines = [{"id": f"t{k}", "nodes": [], "x": "x" * (k == 3) * MB} for k in range(9)]
    (tmp_path / "run").mkdir()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "run" / "traces.jsonl").write_text(text)
    summary = build([tmp_path / "run"], tmp_path / "out", max_file_size="100kB")
    assert (summary.written, summary.skipped) == (8, {"file_too_large": 1})


@pytest.mark.parametrize("start", [b"", b'{"id": "x", "trial_name": "t2", "y": "', b"\xef\xbb\xbf"])
def test_zeros_of_a_file_that_was_not_written_are_no_json(
    start: bytes, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(job / "t2" / "config.json", {"trial_name": "t2"})
    with open(job / "t2" / "result.json", "wb") as file:
        file.write(start)
        file.truncate(1000 * MB)
    read: list[int] = []
    refill = scanning.Window.refill
    monkeypatch.setattr(
        scanning.Window, "refill", lambda window: read.append(1) is None and refill(window)
    )
    (record,) = read_found_of(job / "t2")
    assert "result_unreadable" in record.issues
    assert len(read) < 9


def read_found_of(root: Path) -> tuple[object, ...]:
    from wmo_distill import read_trial

    return read_trial(root)


def _text(name: str) -> dict[str, object]:
    return {
        "a long text": {"x": "y" * 3 * MB},
        "many small values": {"x": [[]] * MB},
        "a long list of tokens": {
            "agent_result": {"rollout_details": [{"prompt_token_ids": [[123456] * 3 * MB]}]}
        },
        "many lists": {
            "agent_result": {"rollout_details": [{"prompt_token_ids": [[]] * 3000}]}
        },
    }[name]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["a long text", "many small values", "a long list of tokens", "many lists"]
)
def test_what_would_take_too_much_memory_is_refused(
    name: str, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(job / "t2" / "result.json", result("t2", **_text(name)))
    monkeypatch.setattr("wmo_distill.tokenjson.scan.TEXT_BYTES", 2 * MB)
    monkeypatch.setattr("wmo_distill.tokenjson.scan.LISTS", 1000)
    monkeypatch.setattr("wmo_distill.tokenjson.window.LIST_BYTES", 2 * MB)
    monkeypatch.setattr("wmo_distill.tokenjson.window.WINDOW", 1 << 14)
    monkeypatch.setattr("wmo_distill.limits.PARSED_BYTES", 64 * MB)
    monkeypatch.setattr("wmo_distill.files.PARSED_BYTES", 64 * MB)
    summary = build([job], tmp_path / "out", workers=1)
    assert summary.skipped == {"document_too_large": 1}
    assert rows(tmp_path / "out", "trial_name") == ["t1", "t3"]
    assert "expected at most" in summary.errors["job/t2"]
    with pytest.raises(TooLarge, match="leave this trial out"):
        read_found_of(job / "t2")


def test_many_documents_of_one_trial_count_together(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_trial(job / "t2")
    for k in range(8):
        more = {"steps": [], "x": "y" * 100_000, "continued_trajectory_ref": f"t.cont-{k}.json"}
        put(job / "t2" / "agent" / (f"t.cont-{k - 1}.json" if k else "trajectory.json"), more)
    monkeypatch.setattr("wmo_distill.files.PARSED_BYTES", 500_000)
    assert build([job], tmp_path / "out").skipped == {"document_too_large": 1}


def test_a_row_of_a_database_is_no_longer_than_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.bench.long_captures import rllm, short

    rllm(tmp_path / "in", short(3))
    with closing(sqlite3.connect(tmp_path / "in" / "gateway_traces.db")) as store, store:
        store.execute("UPDATE traces SET data = data || hex(zeroblob(9000)) WHERE rowid = 2")
    monkeypatch.setattr("wmo_distill.sources.sqlite.TEXT_BYTES", 10_000)
    summary = build([tmp_path / "in"], tmp_path / "out")
    assert summary.calls_found == summary.calls + 1


def test_memory_of_a_text_is_not_underestimated() -> None:
    assert parsed_bytes(b"[" + b"[]," * MB + b"0]") > 56 * MB


@pytest.mark.parametrize("workers", [1, 2])
def test_a_trial_over_its_time_costs_itself_alone(workers: int, job: Path, tmp_path: Path) -> None:
    make_trial(job / "t2-python")
    out = tmp_path / "out"
    handler = signal.getsignal(signal.SIGALRM)
    for _ in range(2):  # read again next time
        summary = build_with(slow, [job], out, workers=workers)
        balanced(out, summary)
        assert summary.skipped == {"trial_timeout": 1}
        assert rows(out, "trial_name") == ["t1", "t3"]
    assert summary.read == 1
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert build_with(read_found, [job], out).skipped == {}


def test_a_call_into_c_that_does_not_return_ends_the_worker(job: Path, tmp_path: Path) -> None:
    make_trial(job / "t2-in-c")
    out = tmp_path / "out"
    summary = build_with(slow, [job], out, workers=2)
    assert summary.skipped == {"trial_timeout": 1}
    assert rows(out, "trial_name") == ["t1", "t3"]


def test_one_worker_survives_a_large_trial_that_ends_its_process(job: Path, tmp_path: Path) -> None:
    make_trial(job / "t2-kills")
    limits = Limits(apart_bytes=100)
    summary = build_with(dying, [job], tmp_path / "one", workers=1, limits=limits)
    assert summary.skipped == {"worker_died": 1}
    build_with(dying, [job], tmp_path / "two", workers=2)
    one, two = (read_manifest(tmp_path / name) for name in ("one", "two"))
    assert (one.dataset_hash, one.totals.skipped) == (two.dataset_hash, two.totals.skipped)
