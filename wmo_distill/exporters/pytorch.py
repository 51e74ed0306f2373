"""A PyTorch dataset over datum shards: a share for each rank and worker, shuffled, resumable."""

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wmo_distill.datums.manifest import read_datum_manifest
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.exporters.collate import collate
from wmo_distill.exporters.epochs import (
    EpochItems,
    EqualSteps,
    Numbers,
    Order,
    RankItems,
    epoch_items,
    rank_items,
    worker_items,
)
from wmo_distill.exporters.items import Item, item_values
from wmo_distill.exporters.position import (
    CELLS,
    Clock,
    State,
    checked_position,
    datums_digest,
    fingerprint,
)
from wmo_distill.exporters.reading import experts_shape, open_parts, read_rows, token_lengths

if TYPE_CHECKING:
    from torch.utils.data import IterableDataset
else:
    try:
        from torch.utils.data import IterableDataset
    except ImportError as error:
        raise UsageError(
            "PyTorch: expected it to be installed, found none; install torch"
        ) from error

__all__ = ["DatumDataset", "collate"]


class DatumDataset(IterableDataset):  # type: ignore[misc, unused-ignore]
    """Yields dicts of tensors, one sequence each, or one row of `pack_tokens` packed ones.

    `wmo_distill.exporters.items` lists the keys, which are the same whatever the data. Every item
    of an epoch goes to one rank and one worker, and a rank's items come in one order whatever the
    number of workers; where a DataLoader makes batches, give its `batch_size` here too. Their
    numbers differ by up to one between ranks unless `equal_steps` is `pad` or `drop`. Rank and
    world size are those of torch.distributed where it is in use and they are not given.

    `set_epoch` before each epoch draws another order; it reaches persistent workers. The position
    is the number of items taken in an epoch. Without workers `state_dict()` knows it; with
    DataLoader workers, which read ahead, give the number that was trained: `state_dict(done=n)`.
    `load_state_dict` goes on after it, once, also behind a `set_epoch` of the same epoch.

    UsageError for a wrong option, a directory without datums, or a state of other datums, order or
    world size; DistillError in a pass over datums that were built again meanwhile.
    """

    def __init__(
        self,
        datums: Path | str,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        buffer: int = 256,
        pack_tokens: int | None = None,
        equal_steps: EqualSteps | str | None = None,
        batch_size: int = 1,
    ) -> None:
        import torch

        super().__init__()
        self._rank, self._world = _ranks(rank, world_size)
        if equal_steps is not None and equal_steps not in list(EqualSteps):
            raise UsageError(f"equal_steps: expected pad, drop or None, found {equal_steps!r}")
        for name, value, least in (
            ("seed", seed, 0),
            ("buffer", buffer, 0),
            ("batch_size", batch_size, 1),
            ("pack_tokens", pack_tokens, 1),
        ):
            if value is not None and value < least:
                raise UsageError(f"{name}: expected at least {least}, found {value}")
        self._datums, self._batch_size = Path(datums), batch_size
        self._order = Order(shuffle=shuffle, seed=seed, buffer=buffer, pack_tokens=pack_tokens)
        self._equal = None if equal_steps is None else EqualSteps(equal_steps)
        manifest = read_datum_manifest(datums)
        self._parts = open_parts(self._datums)
        self._experts = None
        if manifest.options.routed_experts:
            self._experts = experts_shape(self._parts) or (0, 0)
        self._fingerprint = fingerprint(datums_digest(manifest), self._world, self._order)
        self._lengths = None if pack_tokens is None else token_lengths(self._parts)
        # Shared by fork and by spawn: an epoch set in the training process reaches its workers.
        self._cells = torch.zeros(CELLS, dtype=torch.int64).share_memory_()
        # The pass that this process has begun last, and a state that was loaded into this worker.
        self._pass: _Pass | None = None
        self._loaded: State | None = None
        self._planned: tuple[int, EpochItems] | None = None

    def __len__(self) -> int:
        """Items of this rank in the whole current epoch, over all its workers, padding too."""
        return len(self._of_rank(self._epoch_items(self.epoch)))

    @property
    def epoch(self) -> int:
        """The epoch that the next pass reads."""
        return self._clock.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass read this epoch, in workers too, persistent ones included.

        The epoch of a state that was loaded keeps its position; another one begins at its first
        item. Without `set_epoch` each pass is the same.
        """
        if epoch < 0:
            raise UsageError(f"epoch: expected at least 0, found {epoch}")
        clock = self._clock
        if epoch != clock.epoch and 0 < clock.unread < len(self):
            _warn_dropped(clock.epoch, epoch)
        clock.set_epoch(epoch)
        self._pass = None

    def state_dict(self, done: int | None = None) -> State:
        """The position in the current epoch, to be saved with the model.

        `done`: how many items of this rank's epoch are trained, those before a resume included. In
        the process that iterates it may be left out. With DataLoader workers say it, as steps *
        batch_size, or use torchdata's StatefulDataLoader: a worker reads ahead of what is trained.
        """
        own = self._pass
        state = {"fingerprint": dict(self._fingerprint)}
        if done is not None:
            return {"epoch": self._clock.epoch, "done": min(done, len(self)), **state}
        worker, num_workers = _worker()
        if worker is not None:
            assert own is not None, "a worker's state is asked for within a pass"
            shares = {
                "worker": worker,
                "num_workers": num_workers,
                "batch_size": self._batch_size,
                "start": own.start,
            }
            return {"epoch": own.epoch, "done": own.done, **shares, **state}
        if own is None and self._clock.has_workers:
            raise UsageError(
                "state_dict: expected `done`, found none, and DataLoader workers read this "
                "dataset, ahead of what is trained; say state_dict(done=steps * batch_size), or "
                "use torchdata's StatefulDataLoader"
            )
        if own is None:
            return {"epoch": self._clock.epoch, "done": self._clock.pending(None), **state}
        return {"epoch": own.epoch, "done": own.done, **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass go on behind the items that `state` says are done.

        UsageError for a state of other datums, of other options, or of another world size.
        """
        epoch, done = checked_position(state, self._fingerprint)
        if "fingerprint" not in state:
            warnings.warn(
                "the state has no fingerprint: it cannot be checked whether it is of these datums "
                "and of this world size",
                stacklevel=2,
            )
        worker, num_workers = _worker()
        shares = {"worker": worker, "num_workers": num_workers, "batch_size": self._batch_size}
        if worker is None:
            shares = {"worker": None}
        for name, value in shares.items():
            if state.get(name) != value:
                raise UsageError(
                    f"state: {name}: expected {value}, found {state.get(name)}; the state of a "
                    "worker holds only for that worker, of as many and with the same batch_size"
                )
        if worker is not None:
            self._loaded = {**state, "done": done}
            return
        self._pass = None
        self._clock.load(epoch, done)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        # The epoch is read here and not at the first item: DataLoader fetches ahead.
        self._check_datums()
        worker, num_workers = _worker()
        epoch, start = self._clock.begin(worker)
        done = start if worker is None else 0
        loaded, self._loaded = self._loaded, None
        if loaded is not None and (epoch == loaded["epoch"] or not self._clock.was_set):
            epoch, start, done = loaded["epoch"], loaded["start"], loaded["done"]
        items = self._epoch_items(epoch)
        own = self._of_rank(items)
        if worker is None:
            places = np.arange(start, len(own))
        else:
            places = worker_items(len(own), start, self._batch_size, worker, num_workers)[done:]
        self._pass = _Pass(epoch, start, done)
        return self._read(items, own, places, self._pass)

    def _read(
        self, items: EpochItems, own: RankItems, places: Numbers, now: "_Pass"
    ) -> Iterator[dict[str, Any]]:
        order = [items.item(number) for number in own.numbers[places].tolist()]
        rows = read_rows(self._parts, np.concatenate([np.zeros(0, np.int64), *order]))
        packed = self._order.pack_tokens is not None
        for place, members in zip(places.tolist(), order, strict=True):
            item = Item([next(rows) for _ in range(members.size)], own.is_padding(place))
            now.done += 1
            yield _tensors(item_values(item, packed=packed, experts=self._experts))

    @property
    def _clock(self) -> Clock:
        return Clock(self._cells)

    def _epoch_items(self, epoch: int) -> EpochItems:
        if self._planned is None or self._planned[0] != epoch:
            rows = [part.rows for part in self._parts]
            self._planned = epoch, epoch_items(rows, self._lengths, epoch, self._order)
        return self._planned[1]

    def _of_rank(self, items: EpochItems) -> RankItems:
        return rank_items(len(items), self._rank, self._world, self._equal)

    def _check_datums(self) -> None:
        found = datums_digest(read_datum_manifest(self._datums))
        if found != self._fingerprint["datums"]:
            raise DistillError(
                f"{self._datums}: expected the datums that this dataset was opened with, found "
                "others: they were built again; open them again, and begin the epoch anew"
            )


class _Pass:
    """One pass of one reader: `done` counts a rank's items without workers, else a worker's own."""

    def __init__(self, epoch: int, start: int, done: int) -> None:
        self.epoch, self.start, self.done = epoch, start, done


def _warn_dropped(epoch: int, other: int) -> None:
    warnings.warn(
        f"the loaded position in epoch {epoch} is dropped: epoch {other} begins at its first item; "
        f"to go on where it was, set_epoch({epoch}) first",
        stacklevel=3,
    )


def _worker() -> tuple[int | None, int]:
    """(the DataLoader worker that this process is, of how many), (None, 0) in the training one."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return (None, 0) if info is None else (info.id, info.num_workers)


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Those given, else those of torch.distributed where it is in use, else one rank alone."""
    from torch import distributed

    in_use = distributed.is_available() and distributed.is_initialized()
    if in_use and (rank is None) != (world_size is None):
        raise UsageError(
            f"rank, world_size: expected both or neither, found {rank} and {world_size}"
        )
    if in_use and rank is None:
        rank, world_size = distributed.get_rank(), distributed.get_world_size()
    rank, world_size = rank or 0, 1 if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise UsageError(f"rank: expected one below world_size {world_size}, found {rank}")
    return rank, world_size


def _tensors(item: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays and NumPy scalars as tensors of the same type, strings as they are."""
    import torch

    return {
        name: torch.from_numpy(np.ascontiguousarray(value)).reshape(np.shape(value))
        if isinstance(value, np.ndarray | np.generic)
        else value
        for name, value in item.items()
    }
