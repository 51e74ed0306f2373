"""Routed experts in JSON: the bytes as base64, with their shape and type."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.datums.experts import packed, unpacked


def experts_value(experts: NDArray[Any] | None, rows: int) -> dict[str, Any] | None:
    """{data, shape, dtype} of [rows, layers, k]; the last token was never fed in: zeros."""
    if experts is None:
        return None
    padded = np.zeros((rows, *experts.shape[1:]), experts.dtype)
    padded[: len(experts)] = experts[:rows]
    value = packed(padded)
    return {**value, "data": base64.b64encode(value["data"]).decode()}


def experts_array(value: Mapping[str, Any]) -> NDArray[Any]:
    """The array that such a value holds."""
    return unpacked({**value, "data": base64.b64decode(value["data"])})
