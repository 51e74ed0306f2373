"""Any sequence of builds over any edits gives what one build of the end state gives."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_datasets import balanced
from pipeline_trials import snapshot
from pipeline_world import JOBS, OF_JOBS, JobConfig, Run, World, edits, runs

from wmo_distill.pipeline import Summary
from wmo_distill.shards.manifest import read_manifest

SAME = {
    "found", "written", "skipped", "records", "tokens", "calls", "calls_found", "calls_dropped",
    "issues", "stop_reasons", "bytes_in", "unused_sinks", "unlisted",
}  # fmt: skip
generated = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def builds_equal_one(
    world: World, history: list[Run], cells: tuple[tuple[str, int], ...] | None
) -> None:
    """The rows, the ledger and the totals after a history are those of one build."""
    world.run(Run())
    for run in history:
        world.run(run)
    last = Run(cells=cells)
    summary, once = world.run(last), world.run(last, "once")
    assert isinstance(summary, Summary)
    assert isinstance(once, Summary)
    assert world.told("out") == world.told("once")
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
    cells: tuple[tuple[str, int], ...] | None,
    sinks: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = World(tmp_path_factory.mktemp("world"), sinks=sinks)
    builds_equal_one(world, history, cells)
