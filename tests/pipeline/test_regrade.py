"""A regrade gives the rows of a fresh build with these grades, and reads no trial."""

import json
import math
import shutil
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pipeline_datasets import balanced, ledger, rows
from pipeline_trials import make_job, make_steps, make_trial, put, snapshot

from wmo_distill import DistillError, Issue, UsageError, build, regrade, verify
from wmo_distill.shards.manifest import read_manifest

RECORDERS = Path(__file__).parents[2] / "fixtures/recorders"
BEFORE: dict[str, Any] = {"reward_key": "reward", "reward_range": (0.0, 1.0)}
GRADES: list[dict[str, Any]] = [
    BEFORE,
    {**BEFORE, "reward_range": (-math.inf, math.inf)},
    {**BEFORE, "reward_range": (0.0, 0.5)},
    {"reward_key": "final_reward", "reward_range": (0.0, 3.0)},
    {"reward_key": "right", "reward_range": (0.5, 1.0)},
]


def as_built_anew(out: Path, fresh: Path) -> None:
    """The same rows, ledger, counts and options; the order and the files of rows may differ."""
    assert verify(out) == []
    one, other = read_manifest(out), read_manifest(fresh)
    assert one.dataset_hash == other.dataset_hash
    assert (one.totals.model_copy(update={"removed": 0}), one.options) == (
        other.totals,
        other.options,
    )
    assert without_part(out) == without_part(fresh)


def without_part(out: Path) -> dict[str, dict[str, Any]]:
    return {path: {**row, "part": None} for path, row in ledger(out).items()}


def cell(artifact_dir: str, **changes: Any) -> dict[str, Any]:
    whole = {"task_id": "task", "attempt": 1, "reward": 0.5, "passed": False}
    return {**whole, "artifact_dir": artifact_dir, **changes}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The recorders' files, built once for each of GRADES."""
    place = tmp_path_factory.mktemp("graded")
    for number, options in enumerate(GRADES):
        build([RECORDERS], place / str(number), workers=1, **options)
    return [place / str(number) for number in range(len(GRADES))]


@pytest.mark.parametrize(("before", "after"), list(permutations(range(len(GRADES)), 2)))
def test_other_keys_and_ranges_of_every_recorder(
    graded: list[Path], tmp_path: Path, before: int, after: int
) -> None:
    regrade(graded[before], tmp_path / "out", **GRADES[after])
    as_built_anew(tmp_path / "out", graded[after])


def test_the_grades_of_the_recorders_do_differ(graded: list[Path]) -> None:
    hashes = [read_manifest(out).dataset_hash for out in graded]
    assert len(set(hashes)) == len(GRADES)


def rewarded(root: Path) -> Path:
    """A job of trials with rewards of every kind; one result cannot be read."""
    kinds: dict[str, Any] = {
        "a": {"reward": 0.0, "acc": 0.75},
        "b": {"reward": 33.5},
        "c": {"reward": "1"},
        "d": {},
        "e": {"acc": float("nan"), "reward": 1.0},
        "f": None,
    }
    make_job(root)
    for name, rewards in kinds.items():
        make_trial(root / name, verifier_result=rewards and {"rewards": rewards})
    put(root / "g" / "result.json", "{")
    put(root / "g" / "config.json", {"trial_name": "g"})
    ctrf = {"results": {"tests": [{"name": "t", "status": "failed"}]}}
    put(root / "e" / "verifier" / "ctrf.json", ctrf)
    put(root / "f" / "verifier" / "reward.json", {"reward": 0.5})
    return root


@pytest.mark.parametrize("files", [False, True])
def test_rewards_of_every_kind(tmp_path: Path, files: bool) -> None:
    job = rewarded(tmp_path / "job")
    choices = [*GRADES[:3], {"reward_key": "acc", "reward_range": (0.0, 1.0), "pass_at": 0.5}]
    for number, options in enumerate(choices):
        build([job], tmp_path / str(number), reward_files=files, **options)
    for before, after in permutations(range(len(choices)), 2):
        if before == 3:  # nothing takes a pass mark back
            continue
        out = tmp_path / f"{before}-{after}"
        regrade(tmp_path / str(before), out, **choices[after])
        as_built_anew(out, tmp_path / str(after))
    assert read_manifest(tmp_path / "3").totals.issues[Issue.REWARD_KEY_MISSING] >= 1


def test_a_value_that_was_no_number_is_a_missing_key(tmp_path: Path) -> None:
    """The row has no name for it, only that there was one."""
    make_trial(tmp_path / "job/a", verifier_result={"rewards": {"reward": 1.0, "acc": "1"}})
    build([tmp_path / "job"], tmp_path / "one")
    regrade(tmp_path / "one", tmp_path / "two", reward_key="acc")
    assert {"reward_key_missing", "reward_not_number"} <= set(rows(tmp_path / "two", "issues")[0])


def test_tokens_and_all_else_stay_and_no_trial_is_needed(tmp_path: Path) -> None:
    job = rewarded(tmp_path / "job")
    build([job], tmp_path / "one")
    shutil.rmtree(job)
    before = snapshot(tmp_path / "one")
    summary = regrade(tmp_path / "one", tmp_path / "two", reward_range=(0, 100), pass_at=20)
    balanced(tmp_path / "two", summary)
    assert snapshot(tmp_path / "one") == before
    assert (summary.changed, summary.passed_before, summary.passed) == (2, 1, 1)
    one, two = (pq.read_table(tmp_path / name / "parts") for name in ("one", "two"))
    graded_columns = {"reward", "trial_reward", "passed", "issues"}
    for name in set(one.schema.names) - graded_columns:
        assert one[name].equals(two[name]) or name == "rewards", name
    assert str(one["rewards"]) == str(two["rewards"])  # it holds a NaN, which equals nothing


def test_the_manifest_says_what_it_was_made_from(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "a", "b")
    build([job], tmp_path / "one")
    regrade(tmp_path / "one", tmp_path / "two", pass_at=0.5)
    regrade(tmp_path / "two", tmp_path / "three", pass_at=0.25)
    manifests = [read_manifest(tmp_path / name) for name in ("one", "two", "three")]
    assert manifests[0].regrades == []
    lineage = manifests[2].regrades
    assert [one.dataset_hash for one in lineage] == [m.dataset_hash for m in manifests[:2]]
    assert [one.options["pass_at"] for one in lineage] == [None, 0.5]


def test_a_build_goes_on_from_a_regrade(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "a", "b")
    out, fresh = tmp_path / "two", tmp_path / "fresh"
    build([job], tmp_path / "one")
    regrade(tmp_path / "one", out, pass_at=0.5)
    before = snapshot(out)
    assert build([job], out, pass_at=0.5).read == 0
    assert snapshot(out) == before
    with pytest.raises(UsageError, match="--pass-at"):
        build([job], out)
    make_trial(job / "c")
    assert build([job], out, pass_at=0.5).read == 1
    build([job], fresh, pass_at=0.5)
    as_built_anew(out, fresh)
    assert len(read_manifest(out).regrades) == 1


def test_cells(tmp_path: Path) -> None:
    job = rewarded(tmp_path / "job")
    file = put(
        tmp_path / "cells.json",
        [
            cell("job/e", attempt=3, reward=None, passed=None, note="n"),
            cell("job/g", infra_failed=True),
            cell(str(job / "a"), tests={"passed": 1, "resolved": 2, "unresolved": 0}),
        ],
    )
    one, out, fresh = tmp_path / "one", tmp_path / "out", tmp_path / "fresh"
    build([job], one)
    build([job], fresh, cells=file, reward_range=(0, 100))
    summary = regrade(one, out, cells=file, reward_range=(0, 100))
    balanced(out, summary)
    as_built_anew(out, fresh)
    assert summary.skipped == {"no_cell": 4}
    assert build([job], out, cells=file, reward_range=(0, 100)).read == 0
    # and from one set of cells to another, where these say all that the first put aside
    tests = {"passed": 2, "resolved": 2, "unresolved": 0}
    file = put(
        tmp_path / "more.json",
        [cell("job/a", reward=0.25, tests=tests), cell("job/g", infra_failed=False), cell("job/e")],
    )
    regrade(fresh, tmp_path / "again", cells=file)
    build([job], tmp_path / "anew", cells=file, reward_range=(0, 100))
    as_built_anew(tmp_path / "again", tmp_path / "anew")


def test_cells_as_the_dataset_names_its_trials(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "a", "b")
    build([job], tmp_path / "one")
    (tmp_path / "elsewhere").mkdir()
    file = put(
        tmp_path / "elsewhere/cells.json", [cell(p) for p in rows(tmp_path / "one", "artifact_dir")]
    )
    regrade(tmp_path / "one", tmp_path / "two", cells=file)
    assert rows(tmp_path / "two", "reward") == [0.5, 0.5]
    file = put(tmp_path / "cells.json", [cell("traces.jsonl#b")])
    trace = {"nodes": [], "rewards": {"r": 1.0}}
    put(tmp_path / "run/traces.jsonl", "".join(f"{json.dumps({'id': i, **trace})}\n" for i in "ab"))
    build([tmp_path / "run"], tmp_path / "three")
    regrade(tmp_path / "three", tmp_path / "four", cells=file)
    assert rows(tmp_path / "four", "artifact_dir") == ["run/traces.jsonl#b"]


def test_cells_of_steps(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job")
    make_steps(job / "a", "x", "y", "z")
    make_steps(job / "b", "x", "y")
    file = put(
        tmp_path / "cells.json",
        [
            cell("job/a", step_name="z", reward=0.0),
            cell("job/a", step_name="gone"),
            cell("job/b", step_name="x"),
            cell("job/b", step_name="lost"),
            cell("job/a"),
        ],
    )
    one, out, fresh = tmp_path / "one", tmp_path / "out", tmp_path / "fresh"
    build([job], one)
    build([job], fresh, cells=file)
    regrade(one, out, cells=file)
    as_built_anew(out, fresh)
    assert read_manifest(out).totals.issues[Issue.CELL_STEP_MISSING] == 2
    file = put(tmp_path / "c.json", [cell("job/b", step_name="y")])
    with pytest.raises(UsageError, match="no cell for this step"):
        regrade(out, tmp_path / "three", cells=file)
    assert not (tmp_path / "three").exists()
    with pytest.raises(UsageError, match="expected all rewards of the trial"):
        regrade(one, tmp_path / "three", reward_key="other")


def test_duplicates_and_directories_that_are_not_there(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "a")
    for name in ("x", "y"):
        make_trial(job / name, id="same")
    one, out, fresh = tmp_path / "one", tmp_path / "out", tmp_path / "fresh"
    file = put(tmp_path / "c.json", [cell(f"job/{n}") for n in ("x", "y", "gone")])
    build([job], one, cells=file)
    for cells in (["x", "y"], ["x", "gone"]):
        file = put(tmp_path / "c.json", [cell(f"job/{n}", reward=0.0) for n in cells])
        regrade(one, out, cells=file, fresh=True)
        build([job], fresh, cells=file, fresh=True)
        as_built_anew(out, fresh)
    for name, found in (("y", "skipped as duplicate_id"), ("a", "skipped as no_cell")):
        with pytest.raises(UsageError, match=found):
            regrade(one, tmp_path / "no", cells=put(tmp_path / "c.json", [cell(f"job/{name}")]))
    with pytest.raises(UsageError, match=r"cell 0 .*expected a trial of the dataset"):
        regrade(one, tmp_path / "no", cells=put(tmp_path / "c.json", [cell("job/other")]))
    assert not (tmp_path / "no").exists()


def test_what_is_refused(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "a")
    one, two = tmp_path / "one", tmp_path / "two"
    build([job], one)
    with pytest.raises(UsageError, match="expected another grade"):
        regrade(one, two, **BEFORE)
    with pytest.raises(UsageError, match="expected another directory"):
        regrade(one, one, pass_at=0.5)
    file = put(tmp_path / "c.json", [cell("job/a", infra_failed=True)])
    build([job], two, cells=file)
    with pytest.raises(UsageError, match="expected --cells"):
        regrade(two, tmp_path / "no", pass_at=0.5)
    with pytest.raises(UsageError, match="none in its cell"):
        regrade(two, tmp_path / "no", cells=put(tmp_path / "d.json", [cell("job/a")]))
    with pytest.raises(UsageError, match="--fresh"):
        regrade(one, two, pass_at=0.5)
    regrade(one, two, pass_at=0.5, fresh=True)
    with pytest.raises(UsageError, match="--pass-at: expected"):
        regrade(one, two, pass_at=0.75)
    assert regrade(one, two, pass_at=0.5).changed == 0


def test_a_part_that_was_changed_is_not_copied(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "a")
    build([job], tmp_path / "one")
    part = tmp_path / "one/parts/part-00000.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(DistillError, match="expected SHA-256"):
        regrade(tmp_path / "one", tmp_path / "two", pass_at=0.5)
    assert not (tmp_path / "two").exists()


def test_the_rows_stay_in_their_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmo_distill.shards.writer.GROUP_ROWS", 2)
    job = make_job(tmp_path / "job", *"abcde")
    build([job], tmp_path / "one")
    regrade(tmp_path / "one", tmp_path / "two", pass_at=0.5)
    files = [
        pq.ParquetFile(tmp_path / name / "parts/part-00000.parquet") for name in ("one", "two")
    ]
    sizes = [[f.metadata.row_group(i).num_rows for i in range(3)] for f in files]
    assert sizes == [[2, 2, 1]] * 2
    assert rows(tmp_path / "two", "trial_name") == list("abcde")
