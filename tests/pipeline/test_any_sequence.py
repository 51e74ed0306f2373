"""Any sequence of builds over any edits is one build of what is there at the end."""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pipeline_datasets import balanced, ledger
from pipeline_trials import make_steps, make_trial, put, result, snapshot

from tests.effort import examples
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline import build, build_with
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.reading import Limits
from wmo_distill.shards.verify import verify
from wmo_distill.trials.read import read_trial_dir

JOBS = ("a", "b", "c")
PLACES = ("a/t1", "a/t2", "b/t1", "b/t3", "c/t1", "c/t1/deep")
IDS = ("w", "x", "y", "z")
KINDS = ("whole", "steps", "other key order", "killed", "torn", "no id")

Edit = tuple[str, tuple[str, str, int] | str | None]
"""A place, and (kind, id, reward) put there, the place it is moved or copied from, or None."""


@dataclass(frozen=True)
class Run:
    """Edits, and then a build of some jobs."""

    paths: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    keep_removed: bool = False
    cells: tuple[str, ...] | None = None


@dataclass
class World:
    """A directory of jobs in which every write has a time of its own."""

    root: Path
    clock: int = 1_700_000_000_000_000_000
    places: dict[str, Path] = field(default_factory=dict)

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    def edit(self, place: str, change: tuple[str, str, int] | str | None) -> None:
        target = self.jobs / place
        if isinstance(change, str):
            source = self.jobs / change.partition(":")[2]
            overlap = source in (target, *target.parents) or target in source.parents
            if overlap or not source.is_dir():
                return
            shutil.rmtree(target, ignore_errors=True)
            if change.startswith("move"):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(source, target)
            else:
                shutil.copytree(source, target)
            return
        shutil.rmtree(target, ignore_errors=True)
        if change is not None:
            self._put(target, *change)

    def _put(self, target: Path, kind: str, trial_id: str, reward: int) -> None:
        graded = {"id": trial_id, "verifier_result": {"rewards": {"reward": reward}}}
        if kind == "whole":
            make_trial(target, **graded)
        elif kind == "steps":
            make_steps(target, "s1", "s2", id=trial_id)
        elif kind == "other key order":
            # Its head shows one id, and the document holds another: the last of the keys wins.
            text = json.dumps(result(target.name, **graded))
            put(target / "result.json", f'{{"id": "{IDS[0]}", {text[1:]}')
        elif kind == "killed":
            put(target / "config.json", {"trial_name": target.name})
        elif kind == "torn":
            put(target / "result.json", json.dumps(result(target.name, **graded))[:-9])
        else:
            make_trial(target, **{**graded, "id": None})
        self.clock += 1_000_000_000
        for file in target.rglob("*.json"):
            os.utime(file, ns=(self.clock, self.clock))

    def cells(self, places: tuple[str, ...], name: str) -> Path | None:
        rows = [
            {"task_id": "t", "attempt": 1, "reward": 0.5, "passed": False, "artifact_dir": p}
            for p in places
            if (self.jobs / p / "result.json").exists()
        ]
        return put(self.root / name, [{**row, "artifact_dir": str(self.jobs / row["artifact_dir"])}
                                      for row in rows]) if rows else None  # fmt: skip


def told(out: Path) -> dict[str, Any]:
    """What the ledger says of each trial, without the number of its part."""
    return {
        path: (row["outcome"], row["reasons"], row["bytes"], row["mtime_ns"], row["trial_id"])
        for path, row in ledger(out).items()
    }


EDITS = st.tuples(
    st.sampled_from(PLACES),
    st.none()
    | st.tuples(st.sampled_from(KINDS), st.sampled_from(IDS), st.integers(0, 1))
    | st.tuples(st.sampled_from(["move", "copy"]), st.sampled_from(PLACES)).map(":".join),
)
RUNS = st.builds(
    Run,
    paths=st.sets(st.sampled_from(JOBS), min_size=1).map(lambda names: tuple(sorted(names))),
    edits=st.lists(EDITS, max_size=4).map(tuple),
    keep_removed=st.booleans(),
    cells=st.none() | st.none() | st.lists(st.sampled_from(PLACES), unique=True).map(tuple),
)
WHOLE_X, WHOLE_Y = ("whole", "x", 1), ("whole", "y", 1)


@settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
# Found in use: a duplicate got another id while only the other job was built.
@example(
    runs=[
        Run(JOBS, (("a/t1", WHOLE_X), ("b/t1", WHOLE_X))),
        Run(("a",), (("b/t1", WHOLE_Y),)),
    ]
)
@example(
    runs=[
        Run(JOBS, (("a/t1", WHOLE_X), ("b/t1", WHOLE_X), ("c/t1", WHOLE_X))),
        Run(("a",), (("a/t1", None), ("b/t1", WHOLE_Y))),
        Run(("c",), (("c/t1", WHOLE_Y),), keep_removed=True),
    ]
)
# An id that was read is the one that another head shows.
@example(
    runs=[
        Run(
            JOBS,
            (
                ("a/t1", ("other key order", "y", 1)),
                ("a/t2", ("other key order", "z", 1)),
                ("b/t1", ("other key order", "y", 0)),
                ("b/t3", ("whole", "z", 1)),
            ),
        ),
    ]
)
@given(runs=st.lists(RUNS, min_size=1, max_size=5))
def test_any_sequence_of_builds_is_one_build_of_the_end(
    runs: list[Run], tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(tmp_path_factory.mktemp("runs"))
    out, options, limits = world.root / "out", BuildOptions(), Limits(part_trials=2)
    for job in JOBS:
        (world.jobs / job).mkdir(parents=True)
    for number, run in enumerate(runs):
        for place, change in run.edits:
            world.edit(place, change)
        for job in JOBS:
            (world.jobs / job).mkdir(exist_ok=True)
        cells = None if run.cells is None else world.cells(run.cells, f"cells-{number}.json")
        places = [world.jobs / path for path in (run.paths if cells is None else JOBS)]
        build_with(
            read_trial_dir, places, out, options, cells=cells, keep_removed=run.keep_removed,
            limits=limits,
        )  # fmt: skip
        assert verify(out) == []
    everything = [world.jobs / job for job in JOBS]
    summary = build(everything, out)
    balanced(out, summary)
    once = world.root / "once"
    summary_once = build(everything, once)
    assert told(out) == told(once)
    assert read_manifest(out).dataset_hash == read_manifest(once).dataset_hash
    same = {"found", "written", "skipped", "records", "tokens", "issues", "calls_found"}
    assert summary.model_dump(include=same) == summary_once.model_dump(include=same)
    before = snapshot(out)
    assert build(everything, out).read == 0
    assert snapshot(out) == before
    for part in read_manifest(out).parts:
        held = pq.read_table(out / part.file, columns=["artifact_dir"])["artifact_dir"].to_pylist()
        assert held == sorted(held, key=str.encode)
