"""Digests of row contents: what a row says, whatever file, order or encoding holds it."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.records import TrialRecord
from wmo_distill.shards.encode import calls, row_values, text, versions

MODULUS = 2**256
_PIECE = 1 << 20
"""Characters of extras that are JSON at a time."""
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_LITTLE = {np.dtype(kind): np.dtype(kind).newbyteorder("<") for kind in ("i4", "f8")}


def row_digest(record: TrialRecord, values: dict[str, Any] | None = None) -> bytes:
    """SHA-256 over the row that this record becomes; `values` are its `row_values` where known."""
    heads: list[list[Any]] = []
    arrays: list[NDArray[Any] | None] = []
    for chat, at in calls(record):
        lists = (chat.prompt_suffix[at], chat.sampled_token_ids[at], chat.sampled_logprobs[at])
        sizes = [None if array is None else array.size for array in lists]
        words: list[Any] = [text(chat.finish_reason[at]), versions(chat.versions[at])]
        words += [text(chat.sampling[at]), chat.used[at], text(chat.extra[at])]
        place = [chat.number, int(chat.call_index[at]), int(chat.prefix_len[at])]
        heads.append([*place, *sizes, *words])
        arrays += lists
    # The sizes of all arrays come first, so their bytes need no marks between them.
    digest = hashlib.sha256()
    digest.update(f"[{_encode(row_values(record) if values is None else values)},[".encode())
    for piece in _listed(heads):
        digest.update(piece.encode())
    digest.update(b"]]")
    for array in arrays:
        if array is not None:
            sound = _one_nan(array)
            digest.update(np.ascontiguousarray(sound, _LITTLE[sound.dtype]).data)
    return digest.digest()


def _listed(heads: Sequence[Sequence[Any]]) -> Iterator[str]:
    """JSON of the heads without the list's brackets; of long extras only some calls at a time."""
    start = size = 0
    for stop, head in enumerate(heads, 1):
        size += len(head[-1] or "")
        if size > _PIECE or stop == len(heads):
            yield ("," if start else "") + _encode(heads[start:stop])[1:-1]
            start, size = stop, 0


def _one_nan(array: NDArray[Any]) -> NDArray[Any]:
    """Whatever is not finite as the one NaN that a null on disk comes back as."""
    if array.dtype.kind != "f" or np.logical_and.reduce(np.isfinite(array)):
        return array
    return np.where(np.isfinite(array), array, np.nan)
