"""NumPy arrays, some of them missing, as one Arrow list column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def offsets(lengths: list[int]) -> pa.Array:
    """Where each list begins, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


def joined(arrays: Sequence[NDArray[Any] | None], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The elements of all arrays, one after the other."""
    present = [array for array in arrays if array is not None]
    return np.concatenate([np.zeros(0, dtype), *present])


def list_array(
    arrays: Sequence[NDArray[Any] | None], values: pa.Array, of: pa.DataType
) -> pa.ListArray:
    """The column of type `of` whose elements are `values`; a missing array is a null list."""
    missing = np.array([array is None for array in arrays], bool)
    return pa.ListArray.from_arrays(
        offsets([0 if array is None else array.size for array in arrays]),
        values,
        type=of,
        mask=pa.array(missing) if missing.any() else None,
    )
