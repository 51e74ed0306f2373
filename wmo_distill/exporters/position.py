"""Where a reader of an epoch is: shared with its workers, saved, and checked when it is loaded."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol

from wmo_distill.datums.manifest import DatumManifest
from wmo_distill.errors import UsageError
from wmo_distill.exporters.epochs import Order

State = dict[str, Any]

_EPOCH, _SET, _DONE, _LOADS, _BEGUN = range(5)
MAX_WORKERS = 1024
CELLS = _BEGUN + 1 + MAX_WORKERS


class Cells(Protocol):
    """Integers in memory that processes share."""

    def __getitem__(self, at: int, /) -> Any: ...
    def __setitem__(self, at: int, value: int, /) -> None: ...


class Clock:
    """The epoch, and from which item on its first pass is read, in shared `cells`.

    The training process writes, readers read when they begin a pass. A loaded position holds for
    the first pass of each reader alone: a reader is the training process itself or one worker, and
    has a cell that says which load it has begun.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    @property
    def epoch(self) -> int:
        return int(self._cells[_EPOCH])

    @property
    def was_set(self) -> bool:
        """Whether `set_epoch` was ever called."""
        return int(self._cells[_SET]) > 0

    @property
    def has_workers(self) -> bool:
        """Whether a worker has begun a pass since the last load."""
        return any(self._has_begun(worker) for worker in range(MAX_WORKERS))

    @property
    def unread(self) -> int:
        """The loaded position while no reader has begun it, else 0."""
        return 0 if self.has_workers else self.pending(None)

    def pending(self, worker: int | None) -> int:
        """The item from which a reader's next pass begins."""
        return 0 if self._has_begun(worker) else int(self._cells[_DONE])

    def set_epoch(self, epoch: int) -> None:
        """Another epoch drops a loaded position; the same one keeps it."""
        if epoch != self.epoch:
            self._cells[_DONE] = 0
        self._cells[_EPOCH] = epoch
        self._cells[_SET] = int(self._cells[_SET]) + 1

    def load(self, epoch: int, done: int) -> None:
        self._cells[_EPOCH] = epoch
        self._cells[_DONE] = done
        self._cells[_LOADS] = int(self._cells[_LOADS]) + 1

    def begin(self, worker: int | None) -> tuple[int, int]:
        """(epoch, first item) of the pass that a reader begins now."""
        start = self.pending(worker)
        self._cells[self._cell(worker)] = int(self._cells[_LOADS]) + 1
        return self.epoch, start

    def _has_begun(self, worker: int | None) -> bool:
        return int(self._cells[self._cell(worker)]) == int(self._cells[_LOADS]) + 1

    def _cell(self, worker: int | None) -> int:
        if worker is not None and worker >= MAX_WORKERS:
            raise UsageError(f"num_workers: expected at most {MAX_WORKERS}, found more; use fewer")
        return _BEGUN if worker is None else _BEGUN + 1 + worker


def datums_digest(manifest: DatumManifest) -> str:
    """16 hex digits that differ when any part does."""
    content = "\n".join(f"{part.file} {part.sha256}" for part in manifest.parts)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def fingerprint(datums: str, world_size: int, order: Order) -> State:
    """What a position means nothing without: the datums, and what decides which items a rank has.

    Ranks that are padded or cut for equal steps differ in their last item alone.
    """
    return {"datums": datums, "world_size": world_size, **asdict(order)}


def checked_position(state: Mapping[str, Any], expected: Mapping[str, Any]) -> tuple[int, int]:
    """(epoch, done) of a state; UsageError where it is none, or one of another order."""
    numbers = []
    for name in ("epoch", "done"):
        value = state.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise UsageError(
                f"state: {name}: expected a whole number of at least 0, found {value!r}; "
                "give what state_dict() returned"
            )
        numbers.append(value)
    found = state.get("fingerprint", expected)
    if not isinstance(found, Mapping):
        found = {}
    for name, value in expected.items():
        if found.get(name) != value:
            raise UsageError(
                f"state: {name}: expected {value!r} as in this dataset, found {found.get(name)!r}; "
                "its position holds only for the same datums and options: give those, or begin "
                "the epoch anew with set_epoch"
            )
    return numbers[0], numbers[1]
