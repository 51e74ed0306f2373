"""Digests of row contents: what a row says, whatever file, order or encoding holds it."""

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.records import TrialRecord
from wmo_distill.shards.encode import calls, row_values, text, versions

MODULUS = 2**256
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_LITTLE = {np.dtype(kind): np.dtype(kind).newbyteorder("<") for kind in ("i4", "f8")}


def row_digest(record: TrialRecord, values: dict[str, Any] | None = None) -> bytes:
    """SHA-256 over the row that this record becomes; `values` are its `row_values` where known."""
    heads: list[list[Any]] = []
    arrays: list[NDArray[Any] | None] = []
    for chat, at in calls(record):
        logprobs = _one_nan(chat.sampled_logprobs[at])
        lists = (chat.prompt_suffix[at], chat.sampled_token_ids[at], logprobs)
        sizes = [None if array is None else array.size for array in lists]
        words: list[Any] = [text(chat.finish_reason[at]), versions(chat.versions[at])]
        words += [text(chat.sampling[at]), chat.used[at], text(chat.extra[at])]
        place = [chat.number, int(chat.call_index[at]), int(chat.prefix_len[at])]
        heads.append([*place, *sizes, *words])
        arrays += lists
    # The sizes of all arrays come first, so their bytes need no marks between them.
    digest = hashlib.sha256()
    head = [row_values(record) if values is None else values, heads]
    digest.update(_encode(head).encode())
    for array in arrays:
        if array is not None:
            digest.update(np.ascontiguousarray(array, _LITTLE[array.dtype]).data)
    return digest.digest()


def _one_nan(logprobs: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Whatever is not finite as the one NaN that a null on disk comes back as."""
    if logprobs is None or np.logical_and.reduce(np.isfinite(logprobs)):
        return logprobs
    return np.where(np.isfinite(logprobs), logprobs, np.nan)
