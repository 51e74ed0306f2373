"""NumPy arrays, some of them missing, as one Arrow list column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.arrays import Lists


def offsets(lengths: Sequence[int] | NDArray[np.int32]) -> pa.Array:
    """Where each list begins, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


def joined(columns: Sequence[Lists], dtype: type[np.generic]) -> NDArray[Any]:
    """The elements of all columns, one after the other; those of one column are not copied."""
    if len(columns) == 1:
        return columns[0].flat
    return np.concatenate([np.zeros(0, dtype), *(column.flat for column in columns)])


def list_array(
    rows: Sequence[NDArray[Any] | None], values: pa.Array, of: pa.DataType
) -> pa.ListArray:
    """The list column whose rows are as long as these, and null where one is missing."""
    return list_column([Lists.of(rows, np.float64)], values, of)


def list_column(columns: Sequence[Lists], values: pa.Array, of: pa.DataType) -> pa.ListArray:
    """The column of type `of` whose elements are `values`; a missing row is a null list."""
    lengths = np.concatenate([np.zeros(0, np.int32), *(column.lengths for column in columns)])
    present = np.concatenate([np.zeros(0, bool), *(column.present for column in columns)])
    mask = None if present.all() else pa.array(~present)
    return pa.ListArray.from_arrays(offsets(lengths), values, type=of, mask=mask)
