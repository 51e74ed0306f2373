"""Any sequence of builds over any edits gives what one build of the end state gives."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_trials import snapshot
from pipeline_world import (
    JOBS,
    OF_JOBS,
    Copy,
    JobConfig,
    Move,
    Put,
    Remove,
    Run,
    Sink,
    World,
    edits,
    runs,
)

from tests.effort import examples
from wmo_distill.pipeline.build import Summary
from wmo_distill.shards.manifest import read_manifest

SAME = {
    "found", "written", "skipped", "records", "tokens", "calls", "calls_found", "calls_dropped",
    "issues", "stop_reasons", "bytes_in", "unused_sinks", "unlisted",
}  # fmt: skip
generated = settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
Cells = tuple[tuple[str, int], ...]


def builds_equal_one(world: World, history: list[Run], cells: Cells | None = None) -> None:
    """The rows, the ledger and the totals after a history are those of one build."""
    world.run(Run())
    for run in history:
        world.run(run)
    last = Run(cells=cells)
    summary, once = world.run(last), world.run(last, "once")
    assert isinstance(summary, Summary)
    assert isinstance(once, Summary)
    assert world.reported("out") == world.reported("once")
    assert summary.model_dump(include=SAME) == once.model_dump(include=SAME)
    if any(isinstance(edit, JobConfig) for run in history for edit in run.edits):
        assert world.rows("out", without=OF_JOBS) == world.rows("once", without=OF_JOBS)
    else:
        hashes = [read_manifest(world.place / out).dataset_hash for out in ("out", "once")]
        assert hashes[0] == hashes[1]
    before = snapshot(world.place / "out")
    again = world.run(last)
    assert isinstance(again, Summary)
    assert again.read == 0
    assert snapshot(world.place / "out") == before


@generated
@given(
    history=st.lists(runs(), min_size=1, max_size=5),
    cells=st.none() | runs().map(lambda run: run.cells),
    sinks=st.booleans(),
)
def test_many_builds_give_the_dataset_of_one(
    history: list[Run],
    cells: Cells | None,
    sinks: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    builds_equal_one(World(tmp_path_factory.mktemp("world"), sinks=sinks), history, cells)


@settings(generated, max_examples=examples(10))
@given(
    history=st.lists(
        runs(edits | st.builds(JobConfig, st.sampled_from(JOBS), st.integers(1, 3))),
        min_size=1,
        max_size=4,
    )
)
def test_a_job_that_changes_changes_its_own_columns_alone(
    history: list[Run], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No build watches the job's files: rows of unchanged trials keep what they said then."""
    builds_equal_one(World(tmp_path_factory.mktemp("world")), history)


# histories that a build has got wrong, or whose middle it has (see test_take_over.py)


HISTORIES: dict[str, list[Run]] = {
    "a duplicate gets an id of its own while its job is left out": [
        Run((Put("a/t1", "x"), Put("b/t1", "x"))),
        Run((Put("b/t1", "y"),), ("a",)),
    ],
    "the same, and the first one is gone": [
        Run((Put("a/t1", "x"), Put("b/t1", "x"))),
        Run((Put("b/t1", "y"),), ("a",)),
        Run((Remove("a/t1"),), ("a",)),
    ],
    "the same id in three jobs, the first two change": [
        Run((Put("a/t1", "x"), Put("b/t1", "x"), Put("c/t2", "x"))),
        Run((Put("a/t1", "w"), Put("b/t1", "y")), ("a",)),
    ],
    "three in turn, each while the others are left out": [
        Run((Put("a/t1", "x"), Put("b/t1", "x"), Put("c/t2", "x"))),
        Run((Put("b/t1", "y"),), ("a",)),
        Run((Put("c/t2", "y"),), ("b",)),
        Run((Put("a/t1", "z"),), ("c",)),
    ],
    "a duplicate that becomes a job while its job is left out": [
        Run((Put("a/t1", "x"), Put("b", "x"))),
        Run((Remove("b"), Put("b/t1", "x"), Remove("a/t1")), ("a",)),
    ],
    "a duplicate below a directory that becomes a trial": [
        Run((Put("a/t1", "x"), Put("b/t1", "x"))),
        Run((Put("b", "y"), Remove("a/t1")), ("a",)),
    ],
    "an id that only the whole result shows is another's": [
        Run((Put("a/t1", "y", "twice"), Put("a/t2", "x"), Put("b/t1", "z", "twice"))),
        Run((Put("b/t3", "z", "late"),), ("b",)),
    ],
    "a trial that cannot be read yields to one that sorts first": [
        Run((Put("b/t1", "x", "fails"),)),
        Run((Put("a/t1", "x"),)),
    ],
    "a trial that cannot be read takes no id": [
        Run((Put("a/t1", "x", "fails"), Put("b/t1", "x"))),
        Run((Put("b/t3", "x", "fails"),)),
    ],
    "one that cannot be read has the id that another turns out to have": [
        Run((Put("a/t1", "x", "twice"), Put("a/t2", "x", "fails"))),
    ],
    "the same, and the heads of both show another": [
        Run((Put("a/t1", "x", "twice"), Put("a/t2", "x", "late"), Put("c/t2", "x", "fails"))),
        Run((Put("b/t1", "x"),), ("b",)),
    ],
    "a kept trial yields in builds of other jobs too": [
        Run((Put("a/t1", "x"),)),
        Run((Remove("a/t1"),), ("a",), keep_removed=True),
        Run((Put("c/t2", "x"),), ("c",)),
        Run((), ("b",), keep_removed=True),
    ],
    "a duplicate that changed while it was read": [
        Run((Put("b/t1", "x"),), meanwhile=Put("b/t1", "y")),
        Run((Put("a/t1", "x"),), ("a",)),
    ],
    "a killed trial whose result comes later": [
        Run((Put("a/t1", "x", "killed"), Put("b/t1", "x"))),
        Run((Put("a/t1", "x"),), ("a",)),
        Run((Put("a/t1", "x", "torn"),), ("a",)),
    ],
    "a trial that is copied, then moved": [
        Run((Put("a/t1", "x"),)),
        Run((Copy("a/t1", "b/t3"),), ("b",)),
        Run((Move("a/t1", "c/t2"),), ("b", "c")),
        Run((Remove("b/t3"),), ("a",)),
    ],
    "steps whose names repeat": [Run((Put("a/t1", "x", "steps"),))],
}


@pytest.mark.parametrize("keep_removed", [False, True])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_histories(tmp_path_factory: Any, history: list[Run], keep_removed: bool) -> None:
    runs = [run._replace(keep_removed=run.keep_removed or keep_removed) for run in history]
    for number, cells in enumerate((None, (("b/t1", 1), ("a/t1", 0), ("c/t2", 1)))):
        world = World(tmp_path_factory.mktemp(f"world{number}"))
        builds_equal_one(world, runs, cells)
        mixed = [run._replace(cells=cells if i % 2 else None) for i, run in enumerate(runs)]
        builds_equal_one(World(tmp_path_factory.mktemp("mixed")), mixed, cells)


def test_a_sink_that_only_an_unreadable_result_leads_to(tmp_path: Any) -> None:
    """Its trial has the directory's name then, not the one at the start of the result."""
    history = [Run((Put("a/t1", "x", "torn", name="s"),)), Run((Sink("t1", 2),))]
    builds_equal_one(World(tmp_path, sinks=True), history)


def test_a_sink_that_comes_and_goes(tmp_path: Any) -> None:
    history = [
        Run((Put("a/t1", "x", name="s"), Sink("s", 2))),
        Run((Sink("s", 1), Copy("a/t1", "b/t1")), ("b",)),
        Run((Sink("s", 0), Remove("a/t1")), ("b",)),
    ]
    builds_equal_one(World(tmp_path, sinks=True), history)
