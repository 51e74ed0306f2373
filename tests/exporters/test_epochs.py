"""Which items an epoch has and who reads them: each once, in one order, equally many if asked."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exporters.rows import datum_row as row
from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters import epochs
from wmo_distill.exporters.epochs import (
    EqualSteps,
    Item,
    Order,
    epoch_items,
    rank_items,
    worker_items,
)
from wmo_distill.exporters.items import PER_SEQUENCE, PER_TOKEN, item_values

ROWS = [row(fragment=k) for k in range(3)]


def items(n: int) -> list[Item]:
    """Items that are told apart by their number of rows."""
    return [Item([ROWS[0]] * (k + 1)) for k in range(n)]


def numbers(found: list[Item]) -> list[int]:
    return [len(item.rows) - 1 for item in found]


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
        own = list(rank_items(items(n), rank, world))
        assert numbers(own) == list(range(rank, n, world))
        each = [list(worker_items(own, start, batch, worker, workers)) for worker in range(workers)]
        in_turn: list[Item] = []
        queues = [[one[i : i + batch] for i in range(0, len(one), batch)] for one in each]
        while any(queues):
            for queue in queues:
                in_turn += queue.pop(0) if queue else []
        assert numbers(in_turn) == numbers(own)[start:]


@given(n=st.integers(0, 40), world=st.integers(1, 7))
def test_equal_steps(n: int, world: int) -> None:
    padded = [list(rank_items(items(n), r, world, EqualSteps.PAD)) for r in range(world)]
    dropped = [list(rank_items(items(n), r, world, EqualSteps.DROP)) for r in range(world)]
    assert {len(one) for one in padded} == {-(-n // world)}
    assert {len(one) for one in dropped} == {n // world}
    trained = Counter(k for one in padded for k in numbers([i for i in one if not i.padding]))
    assert trained == Counter(range(n))
    assert sum(item.padding for one in padded for item in one) == -n % world
    assert Counter(k for one in dropped for k in numbers(one)) == Counter(range(n - n % world))


def test_an_epoch_holds_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {Path(f"p{k}"): [row(seed=k, fragment=j) for j in range(17)] for k in range(3)}
    monkeypatch.setattr(epochs, "iter_part", lambda part: iter(parts[part]))
    whole = [id(one) for rows in parts.values() for one in rows]

    def read(epoch: int, order: Order) -> list[DatumRow]:
        return [one for item in epoch_items(list(parts), epoch, order) for one in item.rows]

    plain = Order(shuffle=False)
    assert [id(one) for one in read(0, plain)] == whole
    for order in (Order(buffer=5), Order(buffer=5, pack_tokens=60), Order(seed=1)):
        first, again, other = read(0, order), read(0, order), read(1, order)
        assert sorted(map(id, first)) == sorted(whole)
        assert list(map(id, first)) == list(map(id, again))
        assert list(map(id, first)) != list(map(id, other))
    sizes = [
        sum(one.datum.token_ids.size for one in item.rows)
        for item in epoch_items(list(parts), 0, Order(pack_tokens=60))
    ]
    assert len(sizes) < len(whole)
    assert all(size <= 60 for size in sizes)


@pytest.mark.parametrize("packed", [False, True])
def test_an_item_has_the_same_keys_whatever_the_data(packed: bool) -> None:
    bare = row(fragment=0, advantages=False, reward=None)
    full = row(fragment=1)
    keys = {*PER_TOKEN, *PER_SEQUENCE, "episode_id", "padding"}
    for one in (bare, full):
        values = item_values(Item([one]), packed=packed)
        assert set(values) == keys
        for name in PER_TOKEN:
            assert values[name].shape == one.datum.token_ids.shape
    both = item_values(Item([bare, full]), packed=True)
    assert set(both) == keys
    n = bare.datum.token_ids.size
    mask = both["loss_mask"]
    # What is missing is marked, and NaN where it would be trained: never a silent zero.
    assert not both["advantages_mask"][:n].any()
    assert np.isnan(both["advantages"][:n][mask[:n]]).all()
    assert both["advantages_mask"][n:].tolist() == mask[n:].tolist()
    assert not both["teacher_logprobs_mask"][:n].any()
    assert np.isnan(both["teacher_logprobs"][:n]).all()
    assert both["reward_mask"].tolist() == [False, True]
    assert np.isnan(both["reward"][0])
    assert both["position_ids"].tolist() == [*range(n), *range(full.datum.token_ids.size)]


def test_nothing_of_padding_is_trained() -> None:
    values = item_values(Item([row(fragment=1)], padding=True), packed=False)
    assert values["padding"]
    for name in ("loss_mask", "advantages_mask", "sampled_logprobs_mask"):
        assert not values[name].any()
