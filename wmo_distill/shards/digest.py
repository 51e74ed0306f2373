"""Digests of row contents: what a row says, whatever file, order or encoding holds it."""

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.records import TrialRecord
from wmo_distill.shards.encode import deltas, row_values, text

MODULUS = 2**256


def row_digest(record: TrialRecord) -> bytes:
    """SHA-256 over the row that this record becomes."""
    digest = hashlib.sha256()
    _update(digest, row_values(record))
    for span, (prefix_len, suffix) in zip(record.spans, deltas(record.spans), strict=True):
        words = [text(span.finish_reason), text(span.extra)]
        _update(digest, [span.segment, span.call_index, prefix_len, *words])
        _update_array(digest, suffix)
        _update_array(digest, span.sampled_token_ids)
        _update_array(digest, _one_nan(span.sampled_logprobs))
    return digest.digest()


def _one_nan(logprobs: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Whatever is not finite as the one NaN that a null on disk comes back as."""
    if logprobs is None or bool(np.isfinite(logprobs).all()):
        return logprobs
    return np.where(np.isfinite(logprobs), logprobs, np.nan)


def _update(digest: Any, value: Any) -> None:
    data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    digest.update(b"%d:" % len(data))
    digest.update(data)


def _update_array(digest: Any, array: NDArray[Any] | None) -> None:
    if array is None:
        digest.update(b"-")
        return
    digest.update(b"%d:" % array.size)
    digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")))
