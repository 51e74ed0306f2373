"""Rows of datum shards by number, in any order, each row group read once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wmo_distill.datums.dataset import DatumRow, rows_of
from wmo_distill.datums.table import DATUM_SCHEMA
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.exporters.epochs import Numbers
from wmo_distill.shards.part import open_part

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PartFile:
    """A part, and the rows of each of its row groups when the dataset was opened."""

    path: Path
    groups: tuple[int, ...]
    """Rows of each row group."""

    @property
    def rows(self) -> int:
        return sum(self.groups)


def open_parts(paths: Sequence[Path]) -> tuple[PartFile, ...]:
    """From the footers of the files."""
    return tuple(PartFile(path, _of_file(path, _groups)) for path in paths)


def token_lengths(parts: Sequence[PartFile]) -> Numbers:
    """Tokens of each row; reads the ids of all parts once."""
    found = [np.zeros(0, np.int64)]
    for part in parts:
        for group in range(len(part.groups)):
            table = _read(part, group, ["token_ids"])
            for chunk in table.column("token_ids").chunks:
                found.append(pc.list_value_length(chunk).to_numpy().astype(np.int64))
    return np.concatenate(found)


def experts_shape(parts: Sequence[PartFile]) -> tuple[int, int] | None:
    """(layers, experts a token) of the routed experts; UsageError where rows differ."""
    shape: tuple[int, int] | None = None
    for part in parts:
        for group in range(len(part.groups)):
            table = _read(part, group, ["routed_experts.shape"])
            for value in table.column("routed_experts").to_pylist():
                if value is None:
                    continue
                found = (value["shape"][1], value["shape"][2])
                if shape is not None and found != shape:
                    raise UsageError(
                        f"{part.path}: routed_experts: expected {shape} layers and experts a token "
                        f"as in rows before, found {found}; build datums of one model"
                    )
                shape = found
    return shape


def read_rows(parts: Sequence[PartFile], order: Numbers) -> Iterator[DatumRow]:
    """The rows of these numbers in this order; a number may come again.

    Of a row group only the rows that are asked for are decoded, and kept until their turn.
    DistillError where the datums were built again meanwhile.
    """
    sizes = [size for part in parts for size in part.groups]
    places = [(part, group) for part in parts for group in range(len(part.groups))]
    ends = np.cumsum([0, *sizes])
    wanted, counts = np.unique(order, return_counts=True)
    left = dict(zip(wanted.tolist(), counts.tolist(), strict=True))
    held: dict[int, DatumRow] = {}
    for number in order.tolist():
        if number not in held:
            at = int(np.searchsorted(ends, number, side="right")) - 1
            low, high = np.searchsorted(wanted, [ends[at], ends[at + 1]])
            numbers = wanted[low:high]
            table = _read(*places[at], DATUM_SCHEMA.names).take(pa.array(numbers - ends[at]))
            rows = (row for batch in table.to_batches() for row in rows_of(batch))
            held.update(zip(numbers.tolist(), rows, strict=True))
        left[number] -= 1
        yield held[number] if left[number] else held.pop(number)


def _read(part: PartFile, group: int, columns: list[str]) -> pa.Table:
    def read(file: pq.ParquetFile) -> pa.Table:
        if _groups(file) != part.groups:
            raise _rebuilt(part.path)
        return file.read_row_group(group, columns=columns)

    return _of_file(part.path, read)


def _groups(file: pq.ParquetFile) -> tuple[int, ...]:
    metadata = file.metadata
    return tuple(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))


def _of_file(path: Path, read: Callable[[pq.ParquetFile], _T]) -> _T:
    try:
        with open_part(path) as file:
            return read(file)
    except DistillError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise _rebuilt(path) from None
        raise


def _rebuilt(path: Path) -> DistillError:
    return DistillError(
        f"{path}: expected the part that the dataset was opened with, found it gone or replaced; "
        "the datums were built again: open them again, and begin the epoch anew"
    )
