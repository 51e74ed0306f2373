"""A PyTorch dataset over datum shards: a share for each rank and worker, shuffled, resumable."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wmo_distill.datums.manifest import read_datum_manifest
from wmo_distill.errors import UsageError
from wmo_distill.exporters.epochs import EqualSteps, Order, epoch_items, rank_items, worker_items
from wmo_distill.exporters.items import PER_TOKEN, item_values

if TYPE_CHECKING:
    import torch
    from torch.utils.data import IterableDataset
else:
    try:
        import torch
        from torch.utils.data import IterableDataset
    except ImportError as error:
        raise UsageError(
            "PyTorch: expected it to be installed, found none; install torch"
        ) from error

State = Mapping[str, Any]
MOST_WORKERS = 1024
# Places in the memory that the training process shares with its workers; the last ones say, for
# each worker, up to which load it has gone on from a loaded position.
_EPOCH, _START, _START_EPOCH, _LOAD, _APPLIED = range(5)


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
    UsageError for a directory without datums, or a state of other datums, order or world size.
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
        super().__init__()
        self._rank, self._world = _ranks(rank, world_size)
        if batch_size < 1:
            raise UsageError(f"batch_size: expected at least 1, found {batch_size}")
        if equal_steps is not None and equal_steps not in list(EqualSteps):
            raise UsageError(f"equal_steps: expected pad, drop or None, found {equal_steps!r}")
        manifest = read_datum_manifest(datums)
        self._datums = Path(datums)
        self._parts = manifest.part_paths(Path(datums))
        self._order = Order(
            shuffle=shuffle, seed=seed, buffer=max(1, buffer), pack_tokens=pack_tokens
        )
        self._equal = None if equal_steps is None else EqualSteps(equal_steps)
        self._batch = batch_size
        self._fingerprint = _digest([manifest.sha256, asdict(self._order)])
        self._shared = torch.zeros(_APPLIED + MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._own: State | None = None
        self._taken = self._begun = 0

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration reads."""
        return int(self._shared[_EPOCH])

    def set_epoch(self, epoch: int) -> None:
        """Read this epoch from its start, or from a position of it that was loaded."""
        self._shared[_EPOCH] = epoch
        self._begun, self._taken = self._loaded(0), 0

    def state_dict(self, done: int | None = None) -> dict[str, Any]:
        """The position: epoch, items done by this rank, and what they are a position in."""
        state: dict[str, Any] = {
            "epoch": self.epoch,
            "done": self._begun + self._taken if done is None else done,
            "world_size": self._world,
            "fingerprint": self._fingerprint,
        }
        worker, workers = _worker()
        if workers > 1 or _in_worker():
            # A stateful loader keeps one state for each worker: items of its own since `done`.
            state |= {"done": self._begun, "worker": worker, "workers": workers}
            state["taken"] = self._taken
        return state

    def load_state_dict(self, state: State) -> None:
        """Go on after the items that a state counts; UsageError where it is no position in these.

        A state of `epoch` and `done` alone is taken as it is.
        """
        for name, here, what in (
            ("fingerprint", self._fingerprint, "the same datums, seed, buffer and packing"),
            ("world_size", self._world, "the same number of ranks"),
        ):
            if state.get(name, here) != here:
                raise UsageError(
                    f"{self._datums}: expected a state of {what} ({name} {here}), found "
                    f"{state[name]}; begin an epoch with set_epoch, or make the dataset as it was"
                )
        if _in_worker() or "taken" in state:
            self._own = dict(state)
            return
        self._shared[_EPOCH] = self._shared[_START_EPOCH] = state["epoch"]
        self._shared[_START] = state["done"]
        self._shared[_LOAD] += 1
        self._begun, self._taken = state["done"], 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker, workers = _worker()
        self._begun, skipped = self._position(worker, workers)
        self._taken = skipped
        items = rank_items(
            epoch_items(self._parts, self.epoch, self._order), self._rank, self._world, self._equal
        )
        own = worker_items(items, self._begun, self._batch, worker, workers)
        packed = self._order.pack_tokens is not None
        for number, item in enumerate(own):
            if number >= skipped:
                self._taken = number + 1
                yield _tensors(item_values(item, packed=packed))

    def _position(self, worker: int, workers: int) -> tuple[int, int]:
        """(items of the rank, and then of this worker, that come before the first one to yield)."""
        own, self._own = self._own, None
        if own is not None:
            if (own["worker"], own["workers"]) != (worker, workers):
                raise UsageError(
                    f"{self._datums}: expected the state of worker {worker} of {workers}, found "
                    f"that of {own['worker']} of {own['workers']}; use as many workers as before"
                )
            self._shared[_EPOCH] = own["epoch"]
            return int(own["done"]), int(own["taken"])
        start = self._loaded(worker)
        self._shared[_APPLIED + worker] = self._shared[_LOAD]
        return start, 0

    def _loaded(self, worker: int) -> int:
        """Where a loaded position lets this worker begin the epoch, 0 once it has begun there."""
        unused = self._shared[_APPLIED + worker] != self._shared[_LOAD]
        here = self._shared[_EPOCH] == self._shared[_START_EPOCH]
        return int(self._shared[_START]) if unused and here else 0


def collate(items: Sequence[Mapping[str, Any]], *, pad_token_id: int = 0) -> dict[str, Any]:
    """A batch for a DataLoader's `collate_fn`: tensors [items, longest], padded on the right.

    Padding has `pad_token_id`, masks False and values 0; `attention_mask` bool is true elsewhere.
    Values of a sequence become tensors [items], or lists where the items are packed.
    """
    longest = max(item["token_ids"].numel() for item in items)
    batch: dict[str, Any] = {}
    for name in items[0]:
        values = [item[name] for item in items]
        if name in PER_TOKEN:
            fill = pad_token_id if name == "token_ids" else 0
            whole = torch.full((len(items), longest), fill, dtype=values[0].dtype)
            for row, value in zip(whole, values, strict=True):
                row[: value.numel()] = value
            batch[name] = whole
        elif isinstance(values[0], torch.Tensor) and not values[0].dim():
            batch[name] = torch.stack(values)
        else:
            batch[name] = values
    lengths = torch.tensor([item["token_ids"].numel() for item in items])
    batch["attention_mask"] = torch.arange(longest) < lengths[:, None]
    return batch


def _tensors(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: torch.from_numpy(np.ascontiguousarray(value)).reshape(np.shape(value))
        if isinstance(value, np.ndarray | np.generic)
        else value
        for name, value in values.items()
    }


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Those given, else those of torch.distributed, else one rank alone."""
    distributed = torch.distributed
    in_use = distributed.is_available() and distributed.is_initialized()
    if rank is None and world_size is None and in_use:
        rank, world_size = distributed.get_rank(), distributed.get_world_size()
    rank, world_size = rank or 0, 1 if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise UsageError(f"rank: expected one below world_size {world_size}, found {rank}")
    return rank, world_size


def _worker() -> tuple[int, int]:
    """(this DataLoader worker, of how many); (0, 1) outside of workers."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    if info is None:
        return 0, 1
    if info.num_workers > MOST_WORKERS:
        raise UsageError(f"num_workers: expected at most {MOST_WORKERS}, found {info.num_workers}")
    return info.id, info.num_workers


def _in_worker() -> bool:
    from torch.utils.data import get_worker_info

    return get_worker_info() is not None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
