"""Which experts of a mixture each token was routed to, from what the provider sent with a call.

A call's recording covers its prompt and completion but for the last token, which was not fed in:
[prompt + sampled - 1, layers, experts per token], as nested lists or a base64 NumPy file. The
calls of a sequence repeat what came before; only the rows of new tokens are taken.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from wmo_distill.tokens import TokenSpan

_KEY = "routed_experts"


def call_experts(span: TokenSpan) -> NDArray[Any] | None:
    """The recording of one call, None where there is none that fits its tokens."""
    if span.extra is None or _KEY not in span.extra:
        return None
    try:
        value = orjson.loads(span.extra)[_KEY]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    array = _array(value)
    if array is None or array.ndim != 3 or array.dtype.kind not in "iu":
        return None
    if array.shape[0] != span.sequence_len - 1 or (array.size and int(array.min()) < 0):
        return None
    return _narrow(array)


def sequence_experts(calls: Sequence[TokenSpan], size: int) -> NDArray[Any] | None:
    """[size - 1, layers, k] of a sequence of `size` tokens, None unless every row is recorded."""
    rows: NDArray[Any] | None = None
    known = 0
    for span in calls:
        recorded = call_experts(span)
        if recorded is None:
            continue
        if rows is None:
            rows = np.zeros((size - 1, *recorded.shape[1:]), recorded.dtype)
        if recorded.shape[1:] != rows.shape[1:]:
            return None
        if recorded.dtype.itemsize > rows.dtype.itemsize:
            rows = rows.astype(recorded.dtype)
        # From the last token of the call before on: it was fed in by this one.
        rows[known : len(recorded)] = recorded[known:]
        known = len(recorded)
    return rows if known == size - 1 else None


def packed(experts: NDArray[Any]) -> dict[str, Any]:
    """{data, shape, dtype}, the bytes little-endian."""
    little = experts.astype(experts.dtype.newbyteorder("<"), copy=False)
    return {
        "data": little.tobytes(),
        "shape": list(experts.shape),
        "dtype": experts.dtype.name,
    }


def unpacked(value: Mapping[str, Any]) -> NDArray[Any]:
    """The array that such a value holds."""
    dtype = np.dtype(value["dtype"]).newbyteorder("<")
    return np.frombuffer(value["data"], dtype).reshape(value["shape"])


def _array(value: Any) -> NDArray[Any] | None:
    if isinstance(value, str):
        try:
            data = io.BytesIO(base64.b64decode(value, validate=True))
            loaded: NDArray[Any] = np.load(data, allow_pickle=False)
        except (ValueError, EOFError, OSError):
            return None
        return loaded if isinstance(loaded, np.ndarray) else None
    if not isinstance(value, list) or not value:
        return None
    try:
        return np.array(value)
    except ValueError:  # lists of different lengths
        return None


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """In the smallest unsigned type that holds the ids."""
    highest = int(array.max()) if array.size else 0
    return array.astype(np.min_scalar_type(highest), copy=False)
