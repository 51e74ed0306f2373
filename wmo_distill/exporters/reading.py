"""Rows of datum shards by number, in any order, each row group read once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wmo_distill.datums.dataset import DatumRow, datum_parts, rows_of
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.exporters.epochs import Numbers
from wmo_distill.outputs.stored import Stored


@dataclass(frozen=True, slots=True)
class PartFile:
    """A part, and the rows of each of its row groups when the dataset was opened."""

    stored: Stored
    groups: tuple[int, ...]
    """Rows of each row group."""

    @property
    def path(self) -> Path:
        return self.stored.path

    @property
    def rows(self) -> int:
        return sum(self.groups)


def open_parts(datums: Path) -> tuple[PartFile, ...]:
    """From the footers of the files."""
    found = []
    for part in datum_parts(datums):
        with part.open() as file:
            found.append(PartFile(part, _groups(file)))
    return tuple(found)


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
            with part.stored.blamed(group):
                values = [value for value in table.column("routed_experts").to_pylist() if value]
                shapes = {(value["shape"][1], value["shape"][2]) for value in values}
            for found in sorted(shapes):
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
            part, group = places[at]
            table = _read(part, group, None).take(pa.array(numbers - ends[at]))
            with part.stored.blamed(group):
                rows = (row for batch in table.to_batches() for row in rows_of(batch))
                held.update(zip(numbers.tolist(), rows, strict=True))
        left[number] -= 1
        yield held[number] if left[number] else held.pop(number)


def _read(part: PartFile, group: int, columns: list[str] | None) -> pa.Table:
    try:
        with part.stored.open() as file:
            if _groups(file) != part.groups:
                raise _rebuilt(part.path)
            return part.stored.table(file, group, columns)
    except DistillError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise _rebuilt(part.path) from None
        raise


def _groups(file: pq.ParquetFile) -> tuple[int, ...]:
    metadata = file.metadata
    return tuple(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))


def _rebuilt(path: Path) -> DistillError:
    return DistillError(
        f"{path}: expected the part that the dataset was opened with, found it gone or replaced; "
        "the datums were built again: open them again, and begin the epoch anew"
    )
