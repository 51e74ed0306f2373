"""Epoch and position of readers, in a list for the shared cells; without PyTorch."""

import pytest

from wmo_distill.errors import UsageError
from wmo_distill.exporters.epochs import Order
from wmo_distill.exporters.position import CELLS, Clock, checked_position, fingerprint


def clock() -> Clock:
    return Clock([0] * CELLS)


@pytest.mark.parametrize("readers", [[None], [0, 1, 2]])
def test_the_usual_loop_goes_on_where_it_stopped(readers: list[int | None]) -> None:
    shared = clock()
    shared.load(3, 12)
    begun = []
    for epoch in range(3, 6):
        shared.set_epoch(epoch)
        begun.append([shared.begin(reader) for reader in readers])
    assert begun == [[(3, 12)] * len(readers), [(4, 0)] * len(readers), [(5, 0)] * len(readers)]


@pytest.mark.parametrize("reader", [None, 0])
def test_a_loaded_position_holds_for_one_pass(reader: int | None) -> None:
    shared = clock()
    shared.load(3, 12)
    assert shared.begin(reader) == (3, 12)
    assert shared.begin(reader) == (3, 0), "a second pass is a whole one"
    shared.set_epoch(3)
    assert shared.begin(reader) == (3, 0)
    shared.load(3, 5)
    assert shared.begin(reader) == (3, 5), "another load counts again"


def test_a_worker_that_begins_late_still_has_the_position() -> None:
    shared = clock()
    shared.load(3, 12)
    assert shared.begin(0) == (3, 12)
    assert shared.begin(1) == (3, 12)
    assert shared.begin(0) == (3, 0)


def test_another_epoch_drops_the_position_for_good() -> None:
    shared = clock()
    shared.load(3, 12)
    shared.set_epoch(4)
    shared.set_epoch(3)
    assert shared.begin(None) == (3, 0)


def test_what_is_known_of_readers() -> None:
    shared = clock()
    assert not shared.has_workers
    assert not shared.was_set
    shared.begin(None)
    assert not shared.has_workers
    shared.begin(1)
    assert shared.has_workers
    shared.load(0, 7)
    assert not shared.has_workers
    assert shared.unread == 7
    shared.begin(0)
    assert shared.unread == 0
    with pytest.raises(UsageError, match="num_workers: expected at most"):
        shared.begin(10**6)


def test_a_state_is_checked() -> None:
    expected = fingerprint("ab", 2, Order())
    state = {"epoch": 1, "done": 5, "fingerprint": dict(expected)}
    assert checked_position(state, expected) == (1, 5)
    assert checked_position({"epoch": 1, "done": 5}, expected) == (1, 5)
    for name in expected:
        other = {**state, "fingerprint": {**expected, name: "x"}}
        with pytest.raises(UsageError, match=f"state: {name}: expected .*, found 'x'"):
            checked_position(other, expected)
    for value in (-1, 1.0, True, None, "1"):
        with pytest.raises(UsageError, match="state: done: expected a whole number"):
            checked_position({**state, "done": value}, expected)
