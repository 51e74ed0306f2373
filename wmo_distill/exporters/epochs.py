"""The order in which an epoch reads the sequences of datum shards, and who reads which.

An item is one sequence, or several packed ones. The items of an epoch have one order, the same on
every rank: item j goes to rank j % world_size, and of the items of a rank, blocks of `batch_size`
go to its workers in turn. A DataLoader asks its workers in turn too, so it yields a rank's items
in one order whatever the number of workers. With 2 ranks, 2 workers and `batch_size` 1:

    items             0 1 2 3 4 5 6 7
    rank 0            0   2   4   6      its worker 0 reads 0 and 4, its worker 1 reads 2 and 6
    rank 0, done = 1      2   4   6      its worker 0 reads 2 and 6, its worker 1 reads 4

All of it is decided over numbers of rows and tokens; nothing here reads a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class EqualSteps(StrEnum):
    """How ranks get the same number of items where their number is no multiple of the ranks."""

    PAD = "pad"
    """A rank without an item in the last round repeats one with nothing to train in it."""
    DROP = "drop"
    """The last round is left out unless every rank has an item in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What decides the order of an epoch's items."""

    shuffle: bool = True
    seed: int = 0
    buffer: int = 256
    """Number of sequences among which the next one is drawn."""
    pack_tokens: int | None = None
    """Most tokens of a packed item; a longer sequence is an item by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class EpochItems:
    """The items of an epoch in their order, for all ranks.

    Item j holds the rows `rows[starts[j]:starts[j + 1]]`; rows are numbered over all parts.
    """

    rows: Numbers
    """[rows] row numbers, item after item."""
    starts: Numbers
    """[items + 1] where each item begins in `rows`, and the end."""

    def __len__(self) -> int:
        return self.starts.size - 1

    def item(self, number: int) -> Numbers:
        return self.rows[self.starts[number] : self.starts[number + 1]]


@dataclass(frozen=True, slots=True, eq=False)
class RankItems:
    """The items of one rank by their numbers; the last `padding` of them are repeated."""

    numbers: Numbers
    padding: int = 0
    """How many items at the end are repeats that make ranks equal, not to be trained."""

    def __len__(self) -> int:
        return self.numbers.size

    def is_padding(self, at: int) -> bool:
        return at >= len(self) - self.padding


def epoch_items(
    part_rows: Sequence[int], lengths: Numbers | None, epoch: int, order: Order
) -> EpochItems:
    """Of parts with so many rows each; `lengths` are the tokens of each row, for packing alone."""
    rows = _rows(part_rows, epoch, order)
    if order.pack_tokens is None:
        return EpochItems(rows, np.arange(rows.size + 1))
    assert lengths is not None
    return EpochItems(rows, pack_starts(lengths[rows], order.pack_tokens))


def rank_items(
    count: int, rank: int, world_size: int, equal_steps: EqualSteps | None = None
) -> RankItems:
    """Which of `count` items are those of a rank."""
    if equal_steps is EqualSteps.DROP:
        count -= count % world_size
    own = np.arange(rank, count, world_size)
    missing = -(-count // world_size) - own.size
    if equal_steps is not EqualSteps.PAD or not missing:
        return RankItems(own)
    # The last one of its own, else the first of the epoch: it has fewer items than ranks.
    return RankItems(np.append(own, own[-1] if own.size else 0), padding=1)


def worker_items(count: int, start: int, batch_size: int, worker: int, workers: int) -> Numbers:
    """Which of a rank's `count` items one worker reads, from item `start` on."""
    items = np.arange(start, count)
    mine: Numbers = items[(items - start) // batch_size % workers == worker]
    return mine


def _rows(part_rows: Sequence[int], epoch: int, order: Order) -> Numbers:
    """Parts in an order drawn anew each epoch, and rows drawn from those that wait in a buffer.

    A row comes at most `buffer` places before its place in the parts, so no reader holds more.
    """
    ends = np.cumsum([0, *part_rows])
    parts = np.arange(len(part_rows))
    rng = np.random.default_rng([order.seed, epoch])
    if order.shuffle:
        parts = rng.permutation(parts)
    stream = [np.arange(ends[part], ends[part + 1]) for part in parts]
    rows = np.concatenate([np.zeros(0, np.int64), *stream])
    return _shuffled(rows, order.buffer, rng) if order.shuffle else rows


def _shuffled(rows: Numbers, buffer: int, rng: np.random.Generator) -> Numbers:
    """Each one drawn from the `buffer` + 1 that were read and not yet drawn.

    With buffer 2 and rows 0 1 2 3: one of 0 1 2 comes first, then one of 3 and the two left.
    """
    waiting = rows[: buffer + 1].copy()
    drawn = np.empty_like(rows)
    late = rows.size - waiting.size
    for at, place in enumerate(rng.integers(0, max(1, waiting.size), late)):
        drawn[at] = waiting[place]
        waiting[place] = rows[waiting.size + at]
    drawn[late:] = rng.permutation(waiting)
    return drawn


def pack_starts(lengths: Numbers, tokens: int) -> Numbers:
    """Where items begin that take sequences in turn as long as they fit into `tokens`.

    A longer sequence is an item of its own. Lengths 3 4 5 9 and 8 tokens: 3 4 | 5 | 9.
    """
    ends = np.cumsum(lengths)
    starts = [0]
    while starts[-1] < lengths.size:
        before = ends[starts[-1] - 1] if starts[-1] else 0
        fits = int(np.searchsorted(ends, before + tokens, side="right"))
        starts.append(max(fits, starts[-1] + 1))
    return np.array(starts, np.int64)
