"""Which items an epoch has and who reads them: each once, in one order, equally many if asked."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.exporters.epochs import (
    EqualSteps,
    Order,
    epoch_items,
    pack_starts,
    rank_items,
    worker_items,
)


@given(
    n=st.integers(0, 40),
    world=st.integers(1, 5),
    workers=st.integers(1, 4),
    batch=st.integers(1, 3),
    start=st.integers(0, 10),
)
def test_every_item_goes_to_one_worker_of_one_rank(
    n: int, world: int, workers: int, batch: int, start: int
) -> None:
    """And what a loader asks of its workers in turn is the rank's order from `start` on."""
    for rank in range(world):
        own = rank_items(n, rank, world)
        assert own.numbers.tolist() == list(range(rank, n, world))
        shares = [
            worker_items(len(own), start, batch, worker, workers).tolist()
            for worker in range(workers)
        ]
        seen: list[int] = []
        while any(shares):
            for share in shares:
                seen += share[:batch]
                del share[:batch]
        assert seen == list(range(start, len(own)))


@given(n=st.integers(0, 40), world=st.integers(1, 7))
def test_equal_steps(n: int, world: int) -> None:
    padded = [rank_items(n, rank, world, EqualSteps.PAD) for rank in range(world)]
    dropped = [rank_items(n, rank, world, EqualSteps.DROP) for rank in range(world)]
    assert {len(one) for one in padded} == {-(-n // world)}
    assert {len(one) for one in dropped} == {n // world}
    trained = Counter(
        int(one.numbers[at]) for one in padded for at in range(len(one)) if not one.is_padding(at)
    )
    assert trained == Counter(range(n))
    assert sum(one.padding for one in padded) == -n % world
    assert all(0 <= number < n for one in padded for number in one.numbers)
    kept = Counter(int(number) for one in dropped for number in one.numbers)
    assert kept == Counter(range(n - n % world))


@given(
    parts=st.lists(st.integers(0, 9), max_size=5),
    shuffle=st.booleans(),
    seed=st.integers(0, 3),
    buffer=st.integers(0, 6),
    pack_tokens=st.none() | st.integers(1, 20),
    epoch=st.integers(0, 3),
)
def test_an_epoch_holds_each_row_once(
    parts: list[int],
    shuffle: bool,
    seed: int,
    buffer: int,
    pack_tokens: int | None,
    epoch: int,
) -> None:
    order = Order(shuffle=shuffle, seed=seed, buffer=buffer, pack_tokens=pack_tokens)
    lengths = np.random.default_rng(sum(parts)).integers(1, 12, sum(parts))
    items = epoch_items(parts, lengths, epoch, order)
    found = [int(row) for number in range(len(items)) for row in items.item(number)]
    assert sorted(found) == list(range(sum(parts)))
    assert all(items.item(number).size for number in range(len(items)))
    if not shuffle:
        assert found == list(range(sum(parts)))
    if pack_tokens is None:
        assert len(items) == sum(parts)


def test_order_depends_on_epoch_and_seed() -> None:
    def order(epoch: int = 0, **options: int) -> list[int]:
        return epoch_items([30, 30], None, epoch, Order(**options)).rows.tolist()  # type: ignore[arg-type]

    assert order() == order()
    assert order() != order(1)
    assert order() != order(seed=1)


def test_only_a_buffer_of_rows_is_held() -> None:
    """A row comes at most `buffer` places before its place in the parts."""
    rows = epoch_items([50, 50], None, 2, Order(buffer=5)).rows.tolist()
    parts = sorted(range(2), key=lambda part: rows.index(50 * part))
    stream = [part * 50 + row for part in parts for row in range(50)]
    for at, row in enumerate(rows):
        assert stream.index(row) <= at + 5


def test_every_row_of_the_buffer_may_come_first() -> None:
    orders = [epoch_items([10], None, 0, Order(buffer=3, seed=seed)).rows for seed in range(99)]
    assert {int(rows[0]) for rows in orders} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("lengths", "tokens", "starts"),
    [
        ([3, 4, 5, 9], 8, [0, 2, 3, 4]),
        ([8, 8], 8, [0, 1, 2]),
        ([9, 1, 1], 2, [0, 1, 3]),
        ([], 8, [0]),
    ],
)
def test_packing_in_turn(lengths: list[int], tokens: int, starts: list[int]) -> None:
    assert pack_starts(np.array(lengths, np.int64), tokens).tolist() == starts


@given(lengths=st.lists(st.integers(1, 12), max_size=30), tokens=st.integers(1, 20))
def test_an_item_over_the_limit_is_one_sequence(lengths: list[int], tokens: int) -> None:
    starts = pack_starts(np.array(lengths, np.int64), tokens).tolist()
    assert starts[0] == 0
    assert starts[-1] == len(lengths)
    for start, end in pairwise(starts):
        assert end > start
        assert sum(lengths[start:end]) <= tokens or end == start + 1
        assert end == len(lengths) or sum(lengths[start : end + 1]) > tokens, "one more would fit"
