"""Rules of one build: everything is accounted for, and the bytes depend on the trials alone."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_datasets import SMALL, balanced, ledger, rows
from pipeline_readers import dying, raising
from pipeline_trials import make_job, make_steps, make_trial, put, result, snapshot

from tests.effort import examples
from wmo_distill.errors import UsageError
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.build import build, build_with
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.trial import read_found


def test_the_same_bytes_whatever_the_workers_and_the_place(tmp_path: Path) -> None:
    make_job(tmp_path / "a" / "job", *(f"t{i}__x" for i in range(8)))
    make_steps(tmp_path / "a" / "job" / "s1__x", "b", "a")
    make_trial(tmp_path / "a" / "job" / "t9__x", id="same")
    make_trial(tmp_path / "a" / "job" / "t8__x", id="same")
    shutil.copytree(tmp_path / "a", tmp_path / "b", dirs_exist_ok=True)
    shots = []
    for place, workers in (("a", 1), ("a", 2), ("b", 3)):
        out = tmp_path / f"out-{place}-{workers}"
        summary = build_with(
            read_found, [tmp_path / place / "job"], out, workers=workers, limits=SMALL
        )
        balanced(out, summary)
        assert summary.parts > 2
        shots.append({name: data for name, (data, _) in snapshot(out).items()})
    assert shots[0] == shots[1]
    for shot in shots:
        del shot["manifest.json"]
        del shot["ledger.parquet"]
    assert shots[0] == shots[2]


def test_rows_are_in_order_of_path_then_step(tmp_path: Path) -> None:
    for name in ("b", "a-1", "a", "é", "B"):
        make_steps(tmp_path / "job" / name, "z", "m", "a")
    out = tmp_path / "out"
    build_with(read_found, [tmp_path / "job"], out, workers=1, limits=SMALL)
    expected = [
        (f"job/{name}", step)
        for name in sorted(("b", "a-1", "a", "é", "B"), key=str.encode)
        for step in ("z", "m", "a")
    ]
    assert rows(out, "artifact_dir", "step_name") == expected


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_content_of_a_trial_costs_another(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("trials")
    whole = json.dumps(result("t0")).encode()
    for i in range(3):
        text = whole.replace(b"t0", b"t%d" % i)
        start = data.draw(st.integers(0, len(text)))
        damage = data.draw(st.binary(max_size=4))
        text = text[:start] + damage + text[start + data.draw(st.integers(0, 40)) :]
        file = put(place / "job" / f"t{i}" / "agent" / "trajectory.json", "{}")
        (file.parents[1] / "result.json").write_bytes(text)
    make_trial(place / "job" / "good")
    summary = build([place / "job"], place / "out")
    balanced(place / "out", summary)
    assert summary.found == 4
    assert "job/good" in rows(place / "out", "artifact_dir")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_reader_that_raises_costs_its_trial_alone(tmp_path: Path, workers: int) -> None:
    make_job(tmp_path / "job", "good1", "good2", "raises-memory", "raises-recursion", "unbalanced")
    out = tmp_path / "out"
    summary = build_with(raising, [tmp_path / "job"], out, workers=workers, limits=SMALL)
    balanced(out, summary)
    assert summary.skipped == {"calls_unbalanced": 1, "read_failed": 2}
    assert rows(out, "trial_name") == ["good1", "good2"]
    assert summary.errors.keys() == {"job/raises-memory", "job/raises-recursion"}
    assert "MemoryError: too large (pipeline_readers.py:" in summary.errors["job/raises-memory"]
    before = snapshot(out)
    assert build_with(raising, [tmp_path / "job"], out, workers=1, limits=SMALL).read == 0
    assert snapshot(out) == before


def test_a_record_that_cannot_be_written_costs_its_trial_alone(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "good1", "good2", "unwritable")
    out = tmp_path / "out"
    summary = build_with(raising, [tmp_path / "job"], out)
    balanced(out, summary)
    assert summary.skipped == {"read_failed": 1}
    assert rows(out, "trial_name") == ["good1", "good2"]


def test_a_trial_that_kills_its_worker_costs_itself_alone(tmp_path: Path) -> None:
    names = [f"t{i}" for i in range(9)]
    make_job(tmp_path / "job", *names)
    make_trial(tmp_path / "job" / "t4-kills")
    out, plain = tmp_path / "out", tmp_path / "plain"
    summary = build_with(dying, [tmp_path / "job"], out, workers=2, limits=SMALL)
    balanced(out, summary)
    assert summary.skipped == {"worker_died": 1}
    assert "exit code -9" in summary.errors["job/t4-kills"]
    assert rows(out, "trial_name") == names
    # Read again next time, alone and small, and still in a process of its own.
    summary = build_with(dying, [tmp_path / "job"], out)
    balanced(out, summary)
    assert (summary.read, summary.skipped) == (1, {"worker_died": 1})
    # Without its fault the rows are those of a build without it.
    summary = build_with(read_found, [tmp_path / "job"], out, workers=2, limits=SMALL)
    assert (summary.read, summary.skipped) == (1, {})
    build_with(read_found, [tmp_path / "job"], plain, limits=SMALL)
    assert read_manifest(out).dataset_hash == read_manifest(plain).dataset_hash


def test_a_batch_read_trial_by_trial_gives_the_same_part(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "t1", "t2", "t3", "t4")
    shots = []
    for reader in (read_found, dying):
        out = tmp_path / reader.__name__
        put(tmp_path / "job" / "t2" / "kill-once", "")
        build_with(reader, [tmp_path / "job"], out, workers=2, limits=SMALL)
        assert (tmp_path / "job" / "t2" / "kill-once").exists() is (reader is read_found)
        shots.append({name: data for name, (data, _) in snapshot(out).items()})
    assert shots[0] == shots[1]


def test_a_trial_that_changes_after_it_was_found(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "t1", "t2")
    trial = tmp_path / "job" / "t1"
    put(trial / "change-once", json.dumps(result("t1", id="later", finished_at=None)))
    out = tmp_path / "out"
    summary = build_with(raising, [tmp_path / "job"], out)
    balanced(out, summary)
    assert summary.issues["changed_while_reading"] == 1
    assert rows(out, "trial_id")[0] == "later"
    summary = build([tmp_path / "job"], out)
    assert summary.read == 1
    assert "changed_while_reading" not in summary.issues


def test_a_trial_that_changes_meanwhile(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "t1", "changes")
    out = tmp_path / "out"
    summary = build_with(raising, [tmp_path / "job"], out)
    balanced(out, summary)
    assert summary.issues["changed_while_reading"] == 1
    assert "changed_while_reading" in ledger(out)["job/changes"]["reasons"]
    summary = build([tmp_path / "job"], out)
    balanced(out, summary)
    assert summary.read == 1
    assert "changed_while_reading" not in summary.issues
    assert build([tmp_path / "job"], out).read == 0


def test_a_build_of_nothing_is_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    out = tmp_path / "out"
    summary = build([tmp_path / "job"], out)
    balanced(out, summary)
    assert (summary.found, summary.parts) == (0, 1)
    assert pq.ParquetFile(out / "parts/part-00000.parquet").num_row_groups == 0
    before = snapshot(out)
    build([tmp_path / "job"], out)
    assert snapshot(out) == before
    make_trial(tmp_path / "job" / "t1")
    summary = build([tmp_path / "job"], out)
    balanced(out, summary)
    assert summary.parts == 1
    shutil.rmtree(tmp_path / "job" / "t1")
    summary = build([tmp_path / "job"], out)
    balanced(out, summary)
    assert (summary.found, summary.removed, summary.parts) == (0, 1, 1)


def test_the_summary_counts_what_is_there(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    sinks = tmp_path / "sinks"
    call = {"call_index": 0, "prompt_token_ids": [1], "sampled_token_ids": [2]}
    put(sinks / "t1.jsonl", json.dumps(call) + "\n")
    put(sinks / "gone.jsonl", "")
    put(sinks / "gone" / "step.jsonl", "")
    put(sinks / "t2" / "step.jsonl", "")
    put(sinks / "notes.txt", "")
    summary = build([job], tmp_path / "out", BuildOptions(sinks=sinks))
    balanced(tmp_path / "out", summary)
    assert summary.unused_sinks == 2
    assert summary.unused_sink_files == ["gone/step.jsonl", "gone.jsonl"]
    assert summary.calls == 3
    assert (summary.read, summary.written, summary.dry_run) == (2, 2, False)
    sizes = [f.stat().st_size for t in ("t1", "t2") for f in (job / t).iterdir()]
    assert summary.bytes_in == sum(sizes) + (sinks / "t1.jsonl").stat().st_size
    assert summary.bytes_out == sum(p.bytes for p in read_manifest(tmp_path / "out").parts)


def test_a_dry_run_writes_nothing_and_tells_what_a_build_would_do(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    make_trial(job / "t3", id=result("t1")["id"])
    out = tmp_path / "out"
    told = build([job], out, dry_run=True)
    assert not out.exists()
    done = build([job], out)
    for name in ("found", "written", "skipped", "read", "bytes_in", "bytes_read", "removed"):
        assert getattr(told, name) == getattr(done, name), name
    assert told.dry_run
    before = snapshot(out)
    make_trial(job / "t4")
    shutil.rmtree(job / "t1")
    told = build([job], out, dry_run=True)
    assert snapshot(out) == before
    done = build([job], out)
    for name in ("found", "written", "skipped", "read", "bytes_in", "bytes_read", "removed"):
        assert getattr(told, name) == getattr(done, name), name


def test_an_out_directory_of_something_else(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1")
    other = put(tmp_path / "other" / "notes.txt", "mine").parent
    foreign = put(tmp_path / "foreign" / "manifest.json", {"tool": "x"}).parent
    parts = put(tmp_path / "parts" / "parts" / "data.csv", "mine").parents[1]
    file = put(tmp_path / "file", "mine")
    for out in (job, other, foreign, parts, file):
        before = snapshot(tmp_path)
        for fresh in (False, True):
            with pytest.raises(UsageError, match=r"expected .*found"):
                build([job], out, fresh=fresh)
        assert snapshot(tmp_path) == before


def test_wrong_options(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1")
    out = tmp_path / "deep" / "out"
    with pytest.raises(UsageError, match="--workers"):
        build([job], out, workers=0)
    with pytest.raises(UsageError, match="--sinks"):
        build([job], out, BuildOptions(sinks=tmp_path / "missing"))
    with pytest.raises(UsageError, match="cells"):
        build([job], out, cells=tmp_path / "cells.json")
    with pytest.raises(UsageError, match="missing"):
        build([job, tmp_path / "missing"], out)
    assert not out.exists()
