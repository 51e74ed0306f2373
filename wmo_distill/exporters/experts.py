"""Routed experts in JSON: the bytes as base64 beside their shape and type."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def experts_value(experts: NDArray[Any] | None, rows: int) -> dict[str, Any] | None:
    """{data, shape, dtype} of [rows, layers, k]; the last token was never fed in: zeros."""
    if experts is None:
        return None
    padded = np.zeros((rows, *experts.shape[1:]), experts.dtype)
    padded[: len(experts)] = experts[:rows]
    data = base64.b64encode(padded.astype(experts.dtype.newbyteorder("<")).tobytes())
    return {"data": data.decode(), "shape": list(padded.shape), "dtype": experts.dtype.name}


def experts_array(value: Mapping[str, Any]) -> NDArray[Any]:
    """The array that such a value holds."""
    dtype = np.dtype(value["dtype"]).newbyteorder("<")
    return np.frombuffer(base64.b64decode(value["data"]), dtype).reshape(value["shape"])
