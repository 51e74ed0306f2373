"""Rules of the pure decisions: one row an id, and parts cut by paths and bytes alone."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.files import FilesState
from wmo_distill.pipeline.batch import Unit, Work
from wmo_distill.pipeline.cells import PlacedCell
from wmo_distill.pipeline.plan import (
    Candidate,
    cells_digest,
    chosen,
    cut,
    shared_ids,
    units_in_order,
)
from wmo_distill.records import ScoreCell

candidates = st.lists(
    st.builds(
        Candidate,
        st.text("ab/-é", max_size=3),
        st.sampled_from([None, "", "x", "y"]),
        st.booleans(),
        st.booleans(),
    ),
    unique_by=lambda c: c.path,
    max_size=8,
)  # fmt: skip


@given(candidates, st.randoms())
def test_each_id_is_written_once_whatever_the_order(found: list[Candidate], rng: object) -> None:
    paths = chosen(found)
    rng.shuffle(found)  # type: ignore[attr-defined]
    assert chosen(found) == paths
    winners = [c for c in found if c.path in paths and not c.fails]
    ids = [c.trial_id for c in winners if c.trial_id]
    assert len(ids) == len(set(ids))
    assert set(ids) == {c.trial_id for c in found if c.trial_id and not c.fails}
    assert all(c.path in paths for c in found if not c.trial_id)
    for loser in (c for c in found if c.path not in paths):
        (winner,) = [c for c in winners if c.trial_id == loser.trial_id]
        assert (winner.gone, winner.path.encode()) < (loser.gone, loser.path.encode())
        assert loser.trial_id in shared_ids(found)
    for failed in (c for c in found if c.path in paths and c.fails):
        for winner in (c for c in winners if c.trial_id and c.trial_id == failed.trial_id):
            assert (failed.gone, failed.path.encode()) < (winner.gone, winner.path.encode())


def cell(step: str | None = None, **changes: object) -> ScoreCell:
    return ScoreCell.model_validate(
        {"task_id": "t", "attempt": 1, "reward": 1.0, "artifact_dir": "a", "step_name": step}
        | changes
    )


def work(path: str, *positions: int, size: int = 0) -> Work:
    placed = tuple(PlacedCell(cell(str(p)), Path(path), path) for p in positions)
    return Work(path, None, FilesState(size, 0), placed, positions)


@st.composite
def some_works(draw: st.DrawFn) -> list[Work]:
    owners = draw(st.lists(st.integers(0, 4), min_size=1, max_size=12))
    graded = draw(st.booleans())
    return [
        work(
            f"t{i}",
            *(p for p, owner in enumerate(owners) if graded and owner == i),
            size=draw(st.integers(0, 9)),
        )
        for i in sorted(set(owners))
    ]


@given(some_works())
def test_parts_hold_all_units_in_order_and_no_trial_is_cut_apart(works: list[Work]) -> None:
    units = units_in_order(works)
    positions = [
        unit.work.positions[c]
        for unit in units
        for c in (unit.cells or range(len(unit.work.positions)))
    ]
    assert positions == sorted(positions)
    parts = cut(units, most_bytes=10, most_trials=3)
    assert [unit for part in parts for unit in part] == units
    paths = [{unit.work.path for unit in part} for part in parts]
    sizes = {work.path: work.state.bytes for work in works}
    assert sum(map(len, paths)) == len(works)
    if not any(unit.cells for unit in units):
        for part in paths:
            assert len(part) <= 3
            assert len(part) == 1 or sum(sizes[path] for path in part) <= 10


def test_an_example_of_a_cut() -> None:
    sizes = {"a": 4, "b": 7, "c": 20, "d": 1, "e": 1}
    units = [Unit(work(path, size=size)) for path, size in sizes.items()]
    parts = cut(units, most_bytes=10, most_trials=9)
    assert [[unit.work.path for unit in part] for part in parts] == [
        ["a"],
        ["b"],
        ["c"],
        ["d", "e"],
    ]
    assert cut([]) == []


def test_cells_that_do_not_follow_each_other() -> None:
    units = units_in_order([work("a", 0, 2), work("b", 1), work("c", 3, 4)])
    assert [(u.work.path, u.cells) for u in units] == [
        ("a", (0,)),
        ("b", ()),
        ("a", (1,)),
        ("c", ()),
    ]
    assert len(cut(units, most_trials=1)) == 2


def test_a_cells_digest_is_of_what_its_rows_hold() -> None:
    assert cells_digest([]) == ""
    assert cells_digest([cell()]) == cells_digest([cell(artifact_dir="elsewhere/a")])
    other = [cell(reward=0.5), cell(attempt=2), cell(note="n"), cell(infra_failed=False), cell("s")]
    digests = {cells_digest([one]) for one in [cell(), *other]} | {cells_digest(other)}
    assert len(digests) == 7
