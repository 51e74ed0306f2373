"""A directory of jobs that changes between builds, and the builds of it, for later runs.

Whatever is written gets a time of its own, as on a file system whose clock is fine enough: a
change that leaves size and time as they were is one that no build can see.
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pipeline_datasets import balanced, ledger
from pipeline_trials import put, result

from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.build import Summary, build_with
from wmo_distill.pipeline.reading import Limits
from wmo_distill.records import ReadTrial, ScoreCell
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.sources.base import FoundTrial
from wmo_distill.trial import read_found

JOBS = ("a", "b", "c")
PLACES = ("a/t1", "a/t2", "b/t1", "b/t3", "c/n/t1", "c/t2", "b")
NAMES = ("t1", "t2", "s")
IDS = ("w", "x", "y", "z")
OF_JOBS = {"job", "group_expected", "group_id"}
"""The columns that a job's own files decide, which no build watches."""


class Put(NamedTuple):
    """A trial is written anew at a place.

    `late` puts its id where the first bytes of the result do not show it; of the ids of `twice` the
    last counts; `torn` is no JSON; `killed` has no result; `fails` is one that reading fails at.
    """

    place: str
    trial_id: str
    kind: str = "plain"
    reward: int = 1
    name: str | None = None


class Remove(NamedTuple):
    place: str


class Move(NamedTuple):
    """Times move along, as with `mv`."""

    place: str
    to: str


class Copy(NamedTuple):
    """Times are kept, as with `cp -p`."""

    place: str
    to: str


class Sink(NamedTuple):
    """The sink of a trial's name is written with so many calls; none removes it."""

    name: str
    calls: int


class JobConfig(NamedTuple):
    job: str
    n_attempts: int


Edit = Put | Remove | Move | Copy | Sink | JobConfig


class Run(NamedTuple):
    """A build over some PATHs after some edits; `cells` are places with rewards.

    `meanwhile` happens right after the trial at its place was read.
    """

    edits: tuple[Edit, ...] = ()
    paths: tuple[str, ...] = JOBS
    cells: tuple[tuple[str, int], ...] | None = None
    keep_removed: bool = False
    meanwhile: Put | None = None


KINDS = ("plain", "plain", "plain", "steps", "late", "twice", "torn", "killed", "fails")
_places = st.sampled_from(PLACES)
_put = st.builds(
    Put,
    _places,
    st.sampled_from(IDS),
    st.sampled_from(KINDS),
    st.integers(0, 1),
    st.none() | st.sampled_from(NAMES),
)
edits = st.one_of(
    _put,
    _put,
    st.builds(Remove, _places),
    st.builds(Move, _places, _places),
    st.builds(Copy, _places, _places),
    st.builds(Sink, st.sampled_from(NAMES), st.integers(0, 2)),
)
_cells = st.lists(
    st.tuples(st.sampled_from((*PLACES, "a/t9")), st.integers(0, 1)),
    max_size=5,
    unique_by=lambda cell: cell[0],
).map(tuple)


def runs(changes: st.SearchStrategy[Edit] = edits) -> st.SearchStrategy[Run]:
    return st.builds(
        Run,
        st.lists(changes, max_size=5).map(tuple),
        st.lists(
            st.sampled_from((*JOBS, *JOBS, ".", "c/n", "a/t1")), min_size=1, max_size=3, unique=True
        ).map(tuple),
        st.none() | _cells,
        st.booleans(),
        st.none() | _put,
    )


def reader(found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()) -> ReadTrial:
    """Fails at a trial whose own result says so."""
    read = read_found(found, options, cells)
    if read.records[0].task_id == "fails":
        raise ValueError("as the trial says")
    return read


@dataclass
class World:
    """The jobs in a directory, and the dataset in `out` next to them."""

    place: Path
    sinks: bool = False
    clock: int = field(default=1_700_000_000, init=False)

    def __post_init__(self) -> None:
        for job in JOBS:
            (self.jobs / job).mkdir(parents=True)
        (self.place / "sinks").mkdir()

    @property
    def jobs(self) -> Path:
        return self.place / "jobs"

    def edit(self, edit: Edit) -> None:
        match edit:
            case Put():
                self._put(edit)
            case Remove(place):
                self._clear(self.jobs / place)
            case Move(place, to) | Copy(place, to):
                if place == to or not (self.jobs / place).exists() or "b" in (place, to):
                    return
                self._clear(self.jobs / to)
                shutil.copytree(self.jobs / place, self.jobs / to)
                if isinstance(edit, Move):
                    self._clear(self.jobs / place)
            case Sink(name, calls):
                file = self.place / "sinks" / f"{name}.jsonl"
                file.unlink(missing_ok=True)
                lines = [_sink_line(i) for i in range(calls)]
                if lines:
                    self._write(file, "".join(json.dumps(line) + "\n" for line in lines))
            case JobConfig(job, n_attempts):
                config = {"job_name": job, "n_attempts": n_attempts, "agents": []}
                self._write(self.jobs / job / "config.json", config)

    def run(self, run: Run, out: str = "out") -> Summary | None:
        """The build, None where none of its PATHs is there."""
        for edit in run.edits:
            self.edit(edit)
        paths = [self.jobs / path for path in run.paths if (self.jobs / path).is_dir()]
        if not paths:
            return None
        meanwhile = [] if run.meanwhile is None else [run.meanwhile]

        def changing(
            found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()
        ) -> ReadTrial:
            read = reader(found, options, cells)
            if meanwhile and found.path == meanwhile[0].place:
                self.edit(meanwhile.pop())
            return read

        summary = build_with(
            changing,
            paths,
            self.place / out,
            BuildOptions(sinks=self.place / "sinks" if self.sinks else None),
            cells=self._cells(run, paths),
            keep_removed=run.keep_removed,
            limits=Limits(part_trials=2),
        )
        balanced(self.place / out, summary)
        return summary

    def _put(self, trial: Put) -> None:
        root = self.jobs / trial.place
        self._clear(root)
        value = result(trial.name or root.name, id=trial.trial_id)
        value["verifier_result"]["rewards"]["reward"] = trial.reward
        text = json.dumps(value)
        match trial.kind:
            case "steps":
                step = {k: value.pop(k) for k in ("agent_result", "verifier_result")}
                text = json.dumps({**value, "step_results": [{"step_name": "s", **step}] * 2})
            case "late":
                del value["id"]
                text = json.dumps({"filler": " " * 70_000, **value, "id": trial.trial_id})
            case "twice":
                other = IDS[IDS.index(trial.trial_id) - 1]
                text = json.dumps({**value, "id": other})[:-1] + f', "id": "{trial.trial_id}"}}'
            case "torn":
                text = text[:-1]
            case "fails":
                text = json.dumps({**value, "task_name": "fails"})
        if trial.kind == "killed":
            self._write(root / "config.json", {"trial_name": trial.name or root.name})
        else:
            self._write(root / "result.json", text)

    def _clear(self, root: Path) -> None:
        """Remove a trial; of one that is a job's directory too, what makes it a trial."""
        if root.parent == self.jobs:
            for name in ("result.json", "config.json"):
                (root / name).unlink(missing_ok=True)
        else:
            shutil.rmtree(root, ignore_errors=True)

    def _write(self, file: Path, value: Any) -> None:
        put(file, value)
        self.clock += 1
        os.utime(file, (self.clock, self.clock))

    def _cells(self, run: Run, paths: Sequence[Path]) -> Path | None:
        """A file of the cells that are below the PATHs; of those not there, each name once."""
        if run.cells is None:
            return None
        cells = []
        missing: set[str] = set()
        for place, reward in run.cells:
            root = self.jobs / place
            if not root.is_dir():
                if root.name in missing:
                    continue
                missing.add(root.name)
            elif not any(root.is_relative_to(path) for path in paths):
                continue
            cell = {"task_id": "t", "attempt": 1, "reward": reward, "passed": reward == 1}
            cells.append({**cell, "artifact_dir": str(root)})
        return put(self.place / "cells.json", cells)

    def reported(self, out: str) -> dict[str, Any]:
        """What the ledger says of each trial, where no part is named."""
        return {
            path: tuple(value for name, value in row.items() if name != "part")
            for path, row in ledger(self.place / out).items()
        }

    def rows(self, out: str, *, without: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
        """Every row as text, sorted."""
        found: list[str] = []
        for part in read_manifest(self.place / out).parts:
            table: pa.Table = pq.read_table(self.place / out / part.file)
            kept = table.drop_columns(sorted(without & set(table.column_names)))
            found += map(repr, kept.to_pylist())
        return sorted(found)


def _sink_line(index: int) -> dict[str, Any]:
    return {
        "call_index": index,
        "prompt_token_ids": [1, *range(2, 2 + index)],
        "sampled_token_ids": [2 + index],
        "sampled_logprobs": [-0.5],
    }
