"""Laws of later runs: many builds give the rows of one, and touch nothing that did not change."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_datasets import balanced, ledger, rows
from pipeline_readers import counted
from pipeline_trials import make_job, make_steps, make_trial, put, result, snapshot, touch

from wmo_distill.errors import DistillError, UsageError
from wmo_distill.files import Absent, TrialFiles
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline import build, build_with
from wmo_distill.shards import roster
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.reading import Limits
from wmo_distill.shards.verify import verify
from wmo_distill.sources.documents import Document, read_result
from wmo_distill.trials.read import read_trial_dir

# laws

CHANGES = st.tuples(
    st.sampled_from(["a/t1", "a/t2", "b/t1", "b/t3"]),
    st.one_of(
        st.none(),
        st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(0, 1)),
    ),
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    runs=st.lists(
        st.tuples(
            st.lists(CHANGES, max_size=4),
            st.sampled_from([("a",), ("b",), ("a", "b")]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_many_builds_give_the_rows_of_one(
    runs: list[tuple[list[tuple[str, tuple[str, int] | None]], tuple[str, ...]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("runs")
    jobs = place / "jobs"
    (jobs / "a").mkdir(parents=True)
    (jobs / "b").mkdir()
    out = place / "out"
    build_with(read_trial_dir, [jobs / "a", jobs / "b"], out, limits=Limits(part_trials=2))
    clock = 1_700_000_000_000_000_000
    for changes, paths in runs:
        for path, change in changes:
            shutil.rmtree(jobs / path, ignore_errors=True)
            if change is not None:
                trial_id, reward = change
                make_trial(
                    jobs / path, id=trial_id, verifier_result={"rewards": {"reward": reward}}
                )
                clock += 1_000_000_000
                os.utime(jobs / path / "result.json", ns=(clock, clock))
        build_with(
            read_trial_dir, [jobs / path for path in paths], out, limits=Limits(part_trials=2)
        )
    summary = build([jobs / "a", jobs / "b"], out)
    balanced(out, summary)
    once = place / "once"
    summary_once = build([jobs / "a", jobs / "b"], once)
    assert read_manifest(out).dataset_hash == read_manifest(once).dataset_hash
    told = [
        {p: (r["outcome"], r["reasons"], r["bytes"], r["trial_id"]) for p, r in ledger(o).items()}
        for o in (out, once)
    ]
    assert told[0] == told[1]
    assert summary.model_dump(include={"found", "written", "skipped", "records", "tokens"}) == (
        summary_once.model_dump(include={"found", "written", "skipped", "records", "tokens"})
    )
    before = snapshot(out)
    assert build([jobs / "a", jobs / "b"], out).read == 0
    assert snapshot(out) == before
    for part in read_manifest(out).parts:
        held = pq.read_table(out / part.file, columns=["artifact_dir"])["artifact_dir"].to_pylist()
        assert held == sorted(held, key=str.encode)


def test_a_second_run_without_changes_writes_nothing(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    make_trial(job / "t3", id=result("t1")["id"])
    out = tmp_path / "out"
    first = build([job], out)
    before, directory = snapshot(out), out.stat().st_mtime_ns
    second = build([job], out)
    assert snapshot(out) == before
    assert out.stat().st_mtime_ns == directory
    same = set(first.model_dump()) - {"seconds", "read", "bytes_read"}
    assert second.model_dump(include=same) == first.model_dump(include=same)
    assert second.read == 0


def test_only_new_and_changed_trials_are_read(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2", "t3")
    out = tmp_path / "out"
    read: list[str] = []
    reader = counted(read)
    build_with(reader, [job], out)
    assert read == ["t1", "t2", "t3"]
    read.clear()
    make_trial(job / "t4")
    touch(job / "t2" / "result.json")
    old = read_manifest(out).parts[0].file
    summary = build_with(reader, [job], out)
    balanced(out, summary)
    assert read == ["t2", "t4"]
    files = [part.file for part in read_manifest(out).parts]
    assert files == ["parts/part-00001.parquet", "parts/part-00002.parquet"]
    assert rows(out, "trial_name") == ["t1", "t3", "t2", "t4"]
    assert not (out / old).exists()


@pytest.mark.parametrize(
    ("file", "is_read"),
    [
        ("result.json", True),
        ("config.json", True),
        ("agent/trajectory.json", True),
        ("agent/trajectory.cont-1.json", True),
        ("agent/trajectory.summarization-1-summary.json", True),
        ("agent/wmo-run.json", True),
        ("wmo-run.json", True),
        ("verifier/reward.txt", True),
        ("verifier/reward.json", True),
        ("verifier/ctrf.json", True),
        ("steps/a/agent/trajectory.json", True),
        ("steps/a/verifier/ctrf.json", True),
        ("steps/a/b/agent/trajectory.json", True),
        ("trial.log", False),
        ("lock.json", False),
        ("agent/terminus_2.pane", False),
        ("verifier/test-stdout.txt", False),
        ("../config.json", False),
        ("../result.json", False),
        ("../../sinks/t1.jsonl", True),
        ("../../sinks/t1/step.jsonl", True),
        ("../../sinks/t2.jsonl", False),
    ],
)
def test_which_files_make_a_trial_changed(tmp_path: Path, file: str, is_read: bool) -> None:
    job = make_job(tmp_path / "job", "t1")
    (tmp_path / "sinks").mkdir()
    options = BuildOptions(sinks=tmp_path / "sinks")
    out = tmp_path / "out"
    place = Path(os.path.normpath(job / "t1" / file))

    def read() -> int:
        return build([job], out, options).read

    assert read() == 1
    if not place.exists():
        put(place, "{}")
        assert read() == is_read
    touch(place, later_ns=60_000_000_000)
    assert read() == is_read
    state = place.stat()
    place.write_text(place.read_text() + " ")
    os.utime(place, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert read() == is_read
    assert read() == 0


def test_the_ledger_holds_the_state_of_the_files(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1")
    files = [job / "t1" / "result.json", put(job / "t1" / "agent" / "trajectory.json", "{}")]
    put(job / "t1" / "trial.log", "x" * 1000)
    out = tmp_path / "out"
    build([job], out)
    (row,) = ledger(out).values()
    assert row["bytes"] == sum(file.stat().st_size for file in files)
    assert row["mtime_ns"] == max(file.stat().st_mtime_ns for file in files)
    assert row["part"] == "parts/part-00000.parquet"
    assert row["records"] == 1


# trials that go, and duplicates that are decided anew


def test_removed_trials(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2", "t3")
    make_steps(job / "t4", "s1", "s2")
    out = tmp_path / "out"
    build([job], out)
    shutil.rmtree(job / "t2")
    kept = build([job], out, keep_removed=True)
    balanced(out, kept)
    assert (kept.found, kept.records, kept.removed, kept.kept_removed) == (4, 5, 0, 1)
    assert "removed" in ledger(out)["job/t2"]["reasons"]
    before = snapshot(out)
    assert build([job], out, keep_removed=True).found == 4
    assert snapshot(out) == before
    gone = build([job], out)
    balanced(out, gone)
    assert (gone.found, gone.records, gone.removed, gone.read) == (3, 4, 1, 0)
    assert "job/t2" not in ledger(out)
    assert rows(out, "trial_name") == ["t1", "t3", "t4", "t4"]
    assert build([job], out).removed == 0


def test_a_removed_trial_that_comes_back_is_not_read_again(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    shutil.move(job / "t2", tmp_path / "t2")
    build([job], out, keep_removed=True)
    shutil.move(tmp_path / "t2", job / "t2")
    summary = build([job], out)
    balanced(out, summary)
    assert (summary.read, summary.removed) == (0, 0)
    assert "removed" not in ledger(out)["job/t2"]["reasons"]


def test_a_kept_trial_yields_to_the_directory_it_was_moved_to(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    shutil.move(job / "t1", job / "z1")
    summary = build([job], out, keep_removed=True)
    balanced(out, summary)
    assert summary.skipped == {"duplicate_id": 1}
    assert sorted(rows(out, "artifact_dir")) == ["job/t2", "job/z1"]


def test_trials_under_other_paths_stay_untouched(tmp_path: Path) -> None:
    a, b = make_job(tmp_path / "jobs" / "a", "t1"), make_job(tmp_path / "jobs" / "b", "t2")
    out = tmp_path / "out"
    build([a, b], out)
    touch(b / "t2" / "result.json")
    make_trial(a / "t3")
    summary = build([a], out)
    balanced(out, summary)
    assert (summary.found, summary.read) == (3, 1)
    shutil.rmtree(b)
    assert build([a], out).found == 3
    assert read_manifest(out).inputs == ["a", "b"]


def test_a_path_that_only_begins_like_another_is_another(tmp_path: Path) -> None:
    a, ab = make_job(tmp_path / "jobs" / "a", "t1"), make_job(tmp_path / "jobs" / "ab", "t2")
    out = tmp_path / "out"
    build([a, ab], out)
    shutil.rmtree(ab / "t2")
    assert build([a], out).removed == 0
    assert build([ab], out).removed == 1


def test_an_unlisted_directory_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(tmp_path / "job", "t1")
    make_trial(job / "shut" / "t2")
    out = tmp_path / "out"
    build([job], out)
    before = snapshot(out)
    scandir = os.scandir

    def refuse(path: object) -> object:
        if str(path).endswith("shut"):
            raise OSError(5, "Input/output error", str(path))
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refuse)
    summary = build([job], out)
    assert (summary.found, summary.removed, summary.unlisted) == (2, 0, ["job/shut"])
    assert snapshot(out) == before


def test_a_duplicate_takes_over_where_the_first_is_gone(tmp_path: Path) -> None:
    a, b = make_job(tmp_path / "jobs" / "a"), make_job(tmp_path / "jobs" / "b")
    make_trial(a / "t1", id="same")
    make_trial(b / "t1", id="same")
    out = tmp_path / "out"
    assert build([a, b], out).skipped == {"duplicate_id": 1}
    shutil.rmtree(a / "t1")
    summary = build([a], out)  # b is under no PATH of this run
    balanced(out, summary)
    assert (summary.written, summary.removed) == (1, 1)
    assert rows(out, "artifact_dir") == ["b/t1"]


def test_an_unchanged_duplicate_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(tmp_path / "job")
    for name in ("t1", "t2"):
        make_trial(job / name, id="same")
    out = tmp_path / "out"
    build([job], out)
    read: list[Path] = []

    def noted(files: TrialFiles) -> Document | Absent:
        read.append(files.root)
        return read_result(files)

    monkeypatch.setattr(roster, "read_result", noted)
    assert build([job], out).read == 0
    assert read == []
    make_trial(job / "t2", id="another")
    assert build([job], out).skipped == {}
    assert rows(out, "trial_id") == ["same", "another"]


def test_a_new_trial_that_sorts_first_takes_the_id(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "m2")
    make_trial(job / "m1", id="same")
    out = tmp_path / "out"
    build([job], out)
    make_trial(job / "a", id="same")
    summary = build([job], out)
    balanced(out, summary)
    assert summary.read == 1
    assert sorted(rows(out, "artifact_dir")) == ["job/a", "job/m2"]


# what a second run refuses


def test_another_option_is_an_error_that_names_it(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1")
    (tmp_path / "sinks").mkdir()
    out = tmp_path / "out"
    build([job], out)
    before = snapshot(out)
    for options, flag in (
        (BuildOptions(max_turns=3), "--max-turns"),
        (BuildOptions(reward_key="score"), "--reward-key"),
        (BuildOptions(reward_range=(0.0, 2.0)), "--reward-range"),
        (BuildOptions(reward_files=True), "--reward-files"),
        (BuildOptions(pass_at=0.5), "--pass-at"),
        (BuildOptions(declare={"temperature": 1.0}), "--declare"),
        (BuildOptions(salvage=False), "--no-salvage"),
        (BuildOptions(extra=False), "--no-extra"),
        (BuildOptions(sinks=tmp_path / "sinks"), "--sinks"),
    ):
        with pytest.raises(UsageError, match=rf"{flag}: expected .* found .*--fresh"):
            build([job], out, options)
        assert snapshot(out) == before
    summary = build([job], out, BuildOptions(max_turns=3), fresh=True)
    balanced(out, summary)
    assert rows(out, "max_turns") == [3]


def test_the_parent_stays(tmp_path: Path) -> None:
    a = make_job(tmp_path / "jobs" / "a", "t1")
    outside = make_job(tmp_path / "other", "t2")
    out = tmp_path / "out"
    build([a], out)
    with pytest.raises(UsageError, match="--fresh"):
        build([outside], out)
    make_job(tmp_path / "jobs" / "b", "t3")
    summary = build([tmp_path / "jobs" / "b" / "t3"], out)
    balanced(out, summary)
    assert rows(out, "artifact_dir") == ["a/t1", "b/t3"]
    assert read_manifest(out).parent == str(tmp_path / "jobs")
    assert build([tmp_path / "jobs"], out).read == 0
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "jobs" / "a")
    assert build([link], out).read == 0
    build([outside], out, fresh=True)
    assert rows(out, "artifact_dir") == ["other/t2"]


def test_fresh_reads_all_and_overwrites_no_part(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    shutil.rmtree(job / "t2")
    summary = build([job], out, fresh=True)
    balanced(out, summary)
    assert (summary.read, summary.found, summary.removed) == (1, 1, 0)
    assert [part.file for part in read_manifest(out).parts] == ["parts/part-00001.parquet"]


def test_a_damaged_dataset_is_an_error_and_fresh_builds_it_anew(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    sound = tmp_path / "sound"
    build([job], sound)
    manifest = json.loads((sound / "manifest.json").read_text())
    part = "parts/part-00000.parquet"
    for name, damage in (
        ("manifest.json", b"{"),
        ("manifest.json", json.dumps(manifest | {"schema_version": 99}).encode()),
        ("manifest.json", json.dumps({k: v for k, v in manifest.items() if k != "parts"}).encode()),
        ("ledger.parquet", b""),
        ("ledger.parquet", (sound / part).read_bytes()),
        ("ledger.parquet", None),
        (part, b"short"),
        (part, None),
    ):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(sound, out)
        if damage is None:
            (out / name).unlink()
        else:
            (out / name).write_bytes(damage)
        before = snapshot(out)
        with pytest.raises(UsageError, match="expected") as told:
            build([job], out)
        assert "--fresh" in str(told.value)
        assert snapshot(out) == before
        summary = build([job], out, fresh=True)
        balanced(out, summary)
        assert summary.written == 2


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("ledger", "sha256"), "0" * 64, "ledger.parquet: expected the ledger that belongs"),
        (("options", "cells"), [], "options.cells: expected digests by path"),
        (("parts",), [], "parts: List should have at least 1 item"),
    ],
)
def test_a_manifest_that_does_not_fit_is_told(
    tmp_path: Path, where: tuple[str, ...], value: Any, message: str
) -> None:
    make_job(tmp_path / "jobs/a", "t1")
    out = tmp_path / "out"
    build([tmp_path / "jobs"], out)
    manifest = json.loads((out / "manifest.json").read_text())
    place = manifest
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=message) as told:
        build([tmp_path / "jobs"], out)
    assert "--fresh" in str(told.value)
    build([tmp_path / "jobs"], out, fresh=True)
    assert verify(out) == []


def test_rows_of_a_damaged_part_are_not_copied(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    part = out / read_manifest(out).parts[0].file
    data = bytearray(part.read_bytes())
    data[len(data) // 3] ^= 1
    part.write_bytes(data)
    touch(job / "t1" / "result.json")
    before = snapshot(out)
    with pytest.raises(DistillError, match=r"expected SHA-256 .*--fresh") as told:
        build([job], out)
    assert str(part) in str(told.value)
    assert snapshot(out) == before
