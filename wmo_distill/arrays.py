"""Token ids and log-probabilities as read-only arrays, and rows of them end to end."""

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Logprobs = NDArray[np.float64]
_Scalar = TypeVar("_Scalar", bound=np.generic)

ID_LIMIT = 2**31
IMPLAUSIBLE_LOGPROB = -1000.0
NO_IDS: Ids = np.zeros(0, np.int32)
NO_IDS.flags.writeable = False


def as_ids(values: Any) -> Ids:
    """Token ids as an int32 array; ValueError for anything that is not an integer in [0, 2^31)."""
    if isinstance(values, np.ndarray) and values.dtype == np.int32 and values.ndim == 1:
        array = values
    elif isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise ValueError(f"token ids: expected a flat list of integers, found {values.dtype}")
        if values.size and not (values.min() >= 0 and values.max() < ID_LIMIT):
            raise ValueError("token ids: expected integers in [0, 2^31)")
        array = values.astype(np.int32)
    else:
        items = list(values)
        if not all(type(x) is int and 0 <= x < ID_LIMIT for x in items):
            raise ValueError("token ids: expected integers in [0, 2^31)")
        array = np.array(items, np.int32)
    if array.size and int(array.min()) < 0:
        raise ValueError("token ids: expected integers in [0, 2^31)")
    return frozen(array)


def as_logprobs(values: Any) -> Logprobs:
    """Log-probabilities as a float64 array; None and NaN mean that element was not recorded."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1:
        return frozen(values)
    items = [float("nan") if x is None else x for x in values]
    if any(isinstance(x, bool) or not isinstance(x, (int, float)) for x in items):
        raise ValueError("log-probabilities: expected numbers or null")
    return frozen(np.array(items, np.float64))


def frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """The same values, read-only."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def common_prefix(a: Ids, b: Ids) -> int:
    """How many leading ids two arrays share."""
    n = min(a.size, b.size)
    if not n:
        return 0
    if a.base is not None and a.base is b.base and a.ctypes.data == b.ctypes.data:
        return n  # both begin at one place in memory
    differs = a[:n] != b[:n]
    first = int(differs.argmax())
    return first if differs[first] else n


def find_all(ids: Ids, wanted: Ids) -> NDArray[np.intp]:
    """Where `wanted` starts in `ids`."""
    last = ids.size - wanted.size
    if last < 0 or not wanted.size:
        return np.empty(0, np.intp)
    places = np.flatnonzero(ids[: last + 1] == wanted[0])
    for offset in range(1, wanted.size):
        if not places.size:
            break
        places = places[ids[places + offset] == wanted[offset]]
    return places


class Lists:
    """Rows of numbers end to end: row i is values[starts[i]:starts[i + 1]], or missing."""

    __slots__ = ("present", "starts", "values")

    def __init__(
        self, values: NDArray[Any], starts: NDArray[np.int32], present: NDArray[np.bool_]
    ) -> None:
        self.values, self.starts, self.present = frozen(values), starts, present

    @classmethod
    def of(cls, rows: Sequence[NDArray[Any] | None], dtype: type[np.generic]) -> "Lists":
        present = [row for row in rows if row is not None]
        values = present[0] if len(present) == 1 else np.concatenate([np.zeros(0, dtype), *present])
        starts = np.zeros(len(rows) + 1, np.int32)
        np.cumsum([0 if row is None else row.size for row in rows], out=starts[1:])
        return cls(values, starts, np.array([row is not None for row in rows], np.bool_))

    def __len__(self) -> int:
        return self.present.size

    @overload
    def __getitem__(self, at: int) -> NDArray[Any] | None: ...
    @overload
    def __getitem__(self, at: slice) -> "Lists": ...
    def __getitem__(self, at: int | slice) -> "NDArray[Any] | Lists | None":
        if isinstance(at, slice):
            return Lists(self.values, self.starts[at.start : at.stop + 1], self.present[at])
        return self.values[self.starts[at] : self.starts[at + 1]] if self.present[at] else None

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Of each row, 0 where it is missing."""
        return self.starts[1:] - self.starts[:-1]

    @property
    def flat(self) -> NDArray[Any]:
        """The numbers of all rows."""
        return self.values[self.starts[0] : self.starts[-1]]

    def __reduce__(self) -> tuple[Any, ...]:
        return Lists, (self.flat, self.starts - self.starts[0], self.present)
