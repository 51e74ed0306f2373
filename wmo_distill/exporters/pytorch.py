"""A PyTorch dataset over datum shards: a share for each rank and worker, shuffled, resumable."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wmo_distill.datums.dataset import DatumRow, iter_part
from wmo_distill.datums.manifest import read_datum_manifest
from wmo_distill.errors import UsageError

if TYPE_CHECKING:
    from torch.utils.data import IterableDataset
else:
    try:
        from torch.utils.data import IterableDataset
    except ImportError as error:
        raise UsageError(
            "PyTorch: expected it to be installed, found none; install torch"
        ) from error

_PER_TOKEN = ("token_ids", "loss_mask", "sampled_logprobs", "advantages", "teacher_logprobs")


class DatumDataset(IterableDataset):  # type: ignore[misc, unused-ignore]
    """Yields dicts of tensors, one sequence each, or one row of `pack_tokens` packed ones.

    A sequence has `token_ids` int64 [n], `loss_mask` bool [n], `sampled_logprobs` float32 [n]
    (0 off the mask), `weight`, and where the shards hold them `advantages` and `teacher_logprobs`
    float32 [n] (0 where not scored). A packed row has them concatenated, with `position_ids`
    int64, which begin at 0 with each sequence, and `sequence_lengths`.

    Every sequence goes to one (rank, worker) of an epoch. `set_epoch` shuffles anew: the order of
    the parts, and that of the sequences within `buffer` ones. `state_dict` after k items and
    `load_state_dict` go on with item k of the same epoch, rank and worker. Its own position is
    known in the process that iterates: with DataLoader workers use torchdata's stateful loader.
    UsageError for a directory without datums.
    """

    def __init__(
        self,
        datums: Path | str,
        *,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        buffer: int = 256,
        pack_tokens: int | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= rank < world_size:
            raise UsageError(f"rank: expected one below world_size {world_size}, found {rank}")
        self._parts = read_datum_manifest(datums).part_paths(Path(datums))
        self._rank, self._world = rank, world_size
        self._shuffle, self._seed, self._buffer = shuffle, seed, max(1, buffer)
        self._pack = pack_tokens
        self._epoch = self._done = self._resume = 0

    def set_epoch(self, epoch: int) -> None:
        """Begin another epoch, in another order."""
        self._epoch, self._done, self._resume = epoch, 0, 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self._epoch, "done": self._done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._epoch, self._resume = state["epoch"], state["done"]
        self._done = self._resume

    def __iter__(self) -> Iterator[dict[str, Any]]:
        skipped, self._resume = self._resume, 0
        self._done = skipped
        rows = self._shuffled()
        items = (tensors(row) for row in rows) if self._pack is None else _packed(rows, self._pack)
        for number, item in enumerate(items):
            if number >= skipped:
                self._done = number + 1
                yield item

    def _shuffled(self) -> Iterator[DatumRow]:
        rng = np.random.default_rng([self._seed, self._epoch])
        order = rng.permutation(len(self._parts)) if self._shuffle else range(len(self._parts))
        share, shares = _share(self._rank, self._world)
        own = np.random.default_rng([self._seed, self._epoch, share])
        number = 0
        waiting: list[DatumRow] = []
        for part in order:
            for row in iter_part(self._parts[part]):
                number += 1
                if (number - 1) % shares != share:
                    continue
                if not self._shuffle:
                    yield row
                    continue
                waiting.append(row)
                if len(waiting) > self._buffer:
                    yield _taken(waiting, own)
        while waiting:
            yield _taken(waiting, own)


def _taken(waiting: list[DatumRow], rng: np.random.Generator) -> DatumRow:
    """One of the waiting rows, each as likely."""
    at = int(rng.integers(0, len(waiting)))
    waiting[at], waiting[-1] = waiting[-1], waiting[at]
    return waiting.pop()


def _share(rank: int, world_size: int) -> tuple[int, int]:
    """(which share, of how many) this rank and DataLoader worker has."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    if info is None:
        return rank, world_size
    return rank * info.num_workers + info.id, world_size * info.num_workers


def arrays(row: DatumRow) -> dict[str, np.ndarray[Any, Any]]:
    """The per-token lists of a row that it has, as trainers take them."""
    datum = row.datum
    found = {
        "token_ids": datum.token_ids.astype(np.int64),
        "loss_mask": np.array(datum.loss_mask),
        "sampled_logprobs": datum.sampled_logprobs.astype(np.float32),
    }
    for name in ("advantages", "teacher_logprobs"):
        values = getattr(datum, name)
        if values is not None:
            found[name] = np.nan_to_num(values, nan=0.0).astype(np.float32)
    return found


def tensors(row: DatumRow) -> dict[str, Any]:
    """A row as tensors."""
    import torch

    told: dict[str, Any] = {name: torch.from_numpy(a) for name, a in arrays(row).items()}
    return {**told, "weight": row.values["weight"], "episode_id": row.datum.episode_id}


def _packed(rows: Iterator[DatumRow], tokens: int) -> Iterator[dict[str, Any]]:
    """Sequences in turn as long as they fit into `tokens`; a longer one stands alone."""
    waiting: list[DatumRow] = []
    size = 0
    for row in rows:
        n = row.datum.token_ids.size
        if waiting and size + n > tokens:
            yield _pack(waiting)
            waiting, size = [], 0
        waiting.append(row)
        size += n
    if waiting:
        yield _pack(waiting)


def _pack(rows: list[DatumRow]) -> dict[str, Any]:
    import torch

    each = [arrays(row) for row in rows]
    lengths = [row.datum.token_ids.size for row in rows]
    told: dict[str, Any] = {}
    for name in _PER_TOKEN:
        if any(name in one for one in each):
            filled = [
                one.get(name, np.zeros(n, np.float32)) for one, n in zip(each, lengths, strict=True)
            ]
            told[name] = torch.from_numpy(np.concatenate(filled))
    told["position_ids"] = torch.cat([torch.arange(n) for n in lengths])
    told["sequence_lengths"] = torch.tensor(lengths)
    told["weight"] = torch.tensor([row.values["weight"] for row in rows])
    return told
