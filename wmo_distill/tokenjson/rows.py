"""Recorded lists of numbers, read without trusting them."""

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from wmo_distill.arrays import NO_IDS, Ids, Logprobs, common_prefix, frozen


class IdRow(NamedTuple):
    """One recorded list of ids: the first `shared` ids of the row `before`, then `delta`.

    `delta` is None where the list was null (`missing`) or held something that is no id.
    """

    shared: int
    delta: Ids | None
    before: "IdRow | None" = None
    missing: bool = False
    base: "IdRow | None" = None
    """The last row before it that shares less, which holds the end of what this one shares."""

    @property
    def size(self) -> int:
        return 0 if self.delta is None else self.shared + self.delta.size


class LogprobRow(NamedTuple):
    """One recorded list of log-probabilities, NaN at its `nulls`.

    `values` is None where the list was null (`missing`) or held something that is no number.
    """

    values: Logprobs | None
    """Natural logarithms."""
    nulls: int = 0
    """How many elements are null."""
    missing: bool = False


MISSING_IDS = IdRow(0, None, missing=True)
DAMAGED_IDS = IdRow(0, None)
UNREAD_IDS = IdRow(0, None)
"""A sound list of JSON whose numbers were not asked for; recognized by identity."""
MISSING_LOGPROBS = LogprobRow(None, missing=True)
DAMAGED_LOGPROBS = LogprobRow(None)
UNREAD_LOGPROBS = LogprobRow(None)


def linked(shared: int, delta: Ids, before: IdRow) -> IdRow:
    """A row that shares its first ids with the row before.

    Prompts that share a system message alone would else be a chain that is followed to its start.
    """
    base: IdRow | None = before
    while base is not None and base.shared >= shared:
        base = base.base
    return IdRow(shared, delta, before, base=base)


def id_row(value: Any) -> IdRow:
    """A list of ids by itself, sharing nothing with another; a row that was read stays."""
    if value is None:
        return MISSING_IDS
    if not isinstance(value, list):
        return value if isinstance(value, IdRow) else DAMAGED_IDS
    if not value:
        return IdRow(0, NO_IDS)
    try:
        ids = np.frombuffer(struct.pack(f"{len(value)}i", *value), np.int32)
    except struct.error:
        return DAMAGED_IDS
    # It takes true for 1, and nothing else that is no integer of 32 bits.
    small = [value[place] for place in np.flatnonzero(ids < 2)]
    sound = all(type(x) is int and x >= 0 for x in small)
    return IdRow(0, ids) if sound else DAMAGED_IDS


def logprob_row(value: Any) -> LogprobRow:
    """A list of log-probabilities; integers too large for a float read as infinite."""
    if value is None:
        return MISSING_LOGPROBS
    if not isinstance(value, list):
        return value if isinstance(value, LogprobRow) else DAMAGED_LOGPROBS
    if not set(map(type, value)) <= {int, float, type(None)}:
        return DAMAGED_LOGPROBS
    nulls = value.count(None)
    try:
        values = np.array(value, np.float64)
    except OverflowError:
        values = np.array([_number(x) for x in value], np.float64)
    return LogprobRow(frozen(values), nulls)


def _number(value: float | None) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@dataclass(slots=True)
class SharedRows:
    """Makes each row given share the leading ids of the row before."""

    _before: IdRow | None = None
    _ids: Ids = field(default_factory=lambda: NO_IDS)

    def add(self, row: IdRow) -> IdRow:
        """A row that shares nothing, linked to the row before."""
        if row.delta is None:
            self._before = None
            return row
        shared = 0 if self._before is None else common_prefix(self._ids, row.delta)
        # A copy: a view would keep all of the list in memory.
        new = frozen(row.delta[shared:].copy()) if shared else row.delta
        self._before = (
            linked(shared, new, self._before) if self._before and shared else IdRow(0, new)
        )
        self._ids = row.delta
        return self._before


def shared_rows(rows: list[IdRow]) -> list[IdRow]:
    """Rows that share nothing, each made to share the leading ids of the row before."""
    return list(map(SharedRows().add, rows))


def whole_row(row: IdRow) -> Ids | None:
    """All ids of a row, None where it is missing or damaged."""
    return None if row.delta is None else ids_between(row, 0, row.size)


def ids_between(row: IdRow, start: int, stop: int) -> Ids:
    """Ids `start`..`stop` of a row that was read, or up to its end; one stretch is not copied."""
    pieces: list[Ids] = []
    wanted = min(stop, row.size)
    current: IdRow | None = row
    while current is not None and current.delta is not None and start < wanted:
        if current.shared < wanted:
            first = max(start, current.shared)
            pieces.append(current.delta[first - current.shared : wanted - current.shared])
            wanted = first
        current = current.base
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces[::-1]) if pieces else NO_IDS


def whole_rows(rows: Iterable[IdRow]) -> Iterator[Ids | None]:
    """The same for each row; what it shares with the row given before it is copied from that."""
    before: IdRow | None = None
    ids: Ids | None = None
    for row in rows:
        if row.delta is not None and ids is not None and row.before is before:
            ids = np.concatenate([ids[: row.shared], row.delta]) if row.shared else row.delta
        else:
            ids = whole_row(row)
        before = row
        yield ids


def same_ids(a: IdRow, b: IdRow) -> bool:
    """Whether two rows were read and hold the same ids."""
    left, right = whole_row(a), whole_row(b)
    return left is not None and right is not None and np.array_equal(left, right)
