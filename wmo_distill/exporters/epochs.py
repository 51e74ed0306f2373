"""The order in which an epoch reads the sequences of datum shards, and who reads which.

An item is one sequence, or several packed ones. The items of an epoch have one order, the same on
every rank: item j goes to rank j % world_size, and of the items of a rank, blocks of `batch_size`
go to its workers in turn. A DataLoader asks its workers in turn too, so it yields a rank's items
in one order whatever the number of workers. With 2 ranks, 2 workers and `batch_size` 1:

    items             0 1 2 3 4 5 6 7
    rank 0            0   2   4   6      its worker 0 reads 0 and 4, its worker 1 reads 2 and 6
    rank 0, done = 1      2   4   6      its worker 0 reads 2 and 6, its worker 1 reads 4
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wmo_distill.datums.dataset import DatumRow, iter_part


class EqualSteps(StrEnum):
    """How ranks get the same number of items where their number is no multiple of the ranks."""

    PAD = "pad"
    """A rank without an item in the last round repeats one with nothing to train in it."""
    DROP = "drop"
    """The last round is left out unless every rank has an item in it."""


class Item(NamedTuple):
    """The sequences of an item; `padding` says that none of their tokens is to be trained."""

    rows: Sequence[DatumRow]
    padding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What decides the order of an epoch's items."""

    shuffle: bool = True
    seed: int = 0
    buffer: int = 256
    """Sequences among which the next one is drawn."""
    pack_tokens: int | None = None
    """Tokens of a packed item; a longer sequence is an item by itself."""


def epoch_items(parts: Sequence[Path], epoch: int, order: Order) -> Iterator[Item]:
    """The items of an epoch in their order, for all ranks."""
    rows = _rows(parts, epoch, order)
    if order.pack_tokens is None:
        return (Item([row]) for row in rows)
    return _packed(rows, order.pack_tokens)


def rank_items(
    items: Iterable[Item], rank: int, world_size: int, equal_steps: EqualSteps | None = None
) -> Iterator[Item]:
    """The items of one rank."""
    if equal_steps is None:
        yield from (item for j, item in enumerate(items) if j % world_size == rank)
        return
    first: Item | None = None
    own: Item | None = None
    in_round = 0
    for j, item in enumerate(items):
        first = first or item
        in_round = j % world_size + 1
        if in_round == rank + 1:
            own = item
        # The item of a round is given only once the round is whole.
        if in_round == world_size and own is not None:
            yield own
            in_round = 0
    if in_round and equal_steps is EqualSteps.PAD:
        given = own if rank < in_round else None
        padding = own or first
        assert padding is not None
        yield given or Item(padding.rows, padding=True)


def worker_items(
    items: Iterable[Item], start: int, batch_size: int, worker: int, workers: int
) -> Iterator[Item]:
    """What one worker of a rank reads of the rank's items from item `start` on."""
    for i, item in enumerate(items):
        if i >= start and (i - start) // batch_size % workers == worker:
            yield item


def _rows(parts: Sequence[Path], epoch: int, order: Order) -> Iterator[DatumRow]:
    """Parts in an order drawn anew each epoch, and rows drawn from those that wait in a buffer."""
    if not order.shuffle:
        for part in parts:
            yield from iter_part(part)
        return
    rng = np.random.default_rng([order.seed, epoch])
    waiting: list[DatumRow] = []
    for at in rng.permutation(len(parts)).tolist():
        for row in iter_part(parts[at]):
            waiting.append(row)
            if len(waiting) > order.buffer:
                yield _taken(waiting, rng)
    while waiting:
        yield _taken(waiting, rng)


def _taken(waiting: list[DatumRow], rng: np.random.Generator) -> DatumRow:
    """One of the waiting rows, each as likely."""
    at = int(rng.integers(0, len(waiting)))
    waiting[at], waiting[-1] = waiting[-1], waiting[at]
    return waiting.pop()


def _packed(rows: Iterable[DatumRow], tokens: int) -> Iterator[Item]:
    """Sequences in turn as long as they fit into `tokens`; a longer one stands alone."""
    waiting: list[DatumRow] = []
    size = 0
    for row in rows:
        n = row.datum.token_ids.size
        if waiting and size + n > tokens:
            yield Item(waiting)
            waiting, size = [], 0
        waiting.append(row)
        size += n
    if waiting:
        yield Item(waiting)
