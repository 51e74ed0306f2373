"""Reads one part, a row group at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wmo_distill.errors import DistillError


@contextmanager
def open_part(path: Path) -> Iterator[pq.ParquetFile]:
    """A part to read from; DistillError, with its cause, where it is missing or damaged."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        found = str(error).partition("\n")[0]
        raise DistillError(
            f"{path}: expected a part as its manifest says, found: {found}; "
            "see what else is wrong with `wmo-distill verify`, and build again with --fresh"
        ) from error


def read_part(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The row groups of a part in order; DistillError where it is missing or damaged."""
    chosen = None if columns is None else list(columns)
    with open_part(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=chosen)
