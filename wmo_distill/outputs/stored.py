"""Parquet files that we wrote, read back: the one place where damage to them becomes an error."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from wmo_distill.errors import DistillError
from wmo_distill.files import open_file, path_text

_T = TypeVar("_T")

MOST_FOOTER_BYTES = 64 << 20
MOST_GROUP_BYTES = 4 << 30
"""A row group holds 1 M tokens and 256 MB of texts, or one row, which is smaller than this."""
_LISTED = 8
"""The bytes of the largest element of a list."""
# What reading and decoding raise where bytes or values are not those that were written.
DAMAGE = (
    OSError, ValueError, LookupError, TypeError, ArithmeticError, MemoryError, pa.ArrowException,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """A part as its manifest lists it; reading it raises DistillError wherever it is another.

    Every page is held to its checksum, every row group to its schema.
    """

    path: Path
    schema: pa.Schema
    again: str
    """What helps where it is damaged and no copy is at hand."""
    rows: int | None = None
    bytes: int | None = None
    footer: str | None = None
    """The digest of its footer, which Parquet has no checksum for."""

    @contextmanager
    def open(self) -> Iterator[pq.ParquetFile]:
        """The file, its footer checked."""
        with self.blamed():
            size = os.stat(self.path).st_size
            if self.bytes is not None and size != self.bytes:
                raise ValueError(f"{size:,} bytes, not {self.bytes:,}")
            opened = parquet_file(self.path, self.footer)
        with opened as file:
            with self.blamed():
                self._check_footer(file)
            yield file

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """The row groups in order, each with its number."""
        with self.open() as file:
            for group in range(file.num_row_groups):
                yield group, self.table(file, group, columns)

    def table(
        self, file: pq.ParquetFile, group: int, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """One row group of the open file."""
        with self.blamed(group):
            return read_group(file, group, columns)

    def read(
        self, columns: Sequence[str] | None, convert: Callable[[pa.RecordBatch], Iterable[_T]]
    ) -> Iterator[_T]:
        """What is made of each batch; damage that shows only there is said in the same way."""
        for group, table in self.tables(columns):
            with self.blamed(group):
                for batch in table.to_batches():
                    yield from convert(batch)

    @contextmanager
    def blamed(self, group: int | None = None) -> Iterator[None]:
        """Whatever goes wrong here is damage to this file, in a row group where one is read."""
        try:
            yield
        except DAMAGE as error:
            where = str(self.path) if group is None else f"{self.path}, row group {group}"
            raise DistillError(
                f"{where}: expected a part as its manifest says, found: {plain_cause(error)}; "
                "see what else is wrong with `wmo-distill verify`, restore the file, or "
                f"{self.again}"
            ) from error

    def _check_footer(self, file: pq.ParquetFile) -> None:
        if not file.schema_arrow.equals(self.schema, check_metadata=True):
            raise ValueError(first_odd(file.schema_arrow, self.schema))
        if self.rows is not None and file.metadata.num_rows != self.rows:
            raise ValueError(f"{file.metadata.num_rows} rows, not {self.rows}")


def parquet_file(path: Path, footer: str | None = None) -> pq.ParquetFile:
    """A regular file with a footer of bounded size; ValueError or OSError for any other.

    A footer of another digest is not parsed: of some flipped bits in one the parser dies.
    """
    if (found := footer_sha256(path)) != footer and footer is not None:
        raise ValueError(f"a footer of SHA-256 {found[:16]}…, not {footer[:16]}…")
    source: Path | pa.PythonFile = path
    if path_text(path) != os.fspath(path):  # Arrow takes no path but one of UTF-8
        source = pa.PythonFile(open_file(path), "r")
    return pq.ParquetFile(source, page_checksum_verification=True)


def footer_sha256(path: Path) -> str:
    """The digest of a file's footer: its schema, and where its pages are."""
    with open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        end = file.read(8)
        length = 8 + int.from_bytes(end[:4], "little")
        if end[4:] != b"PAR1" or length > min(size, MOST_FOOTER_BYTES):
            raise ValueError("a file that does not end as Parquet does")
        file.seek(size - length)
        return hashlib.sha256(file.read(length)).hexdigest()


def read_group(
    file: pq.ParquetFile,
    group: int,
    columns: Sequence[str] | None = None,
    most: int = MOST_GROUP_BYTES,
) -> pa.Table:
    """A row group whose stated size is bounded, every value of it valid."""
    stated = file.metadata.row_group(group)
    size = 0
    for at in range(stated.num_columns):
        chunk = stated.column(at)
        if columns is None or _is_chosen(chunk.path_in_schema, columns):
            size += max(chunk.total_uncompressed_size, _LISTED * chunk.num_values)
    if not 0 <= size <= most:
        raise ValueError(f"{size:,} bytes of values, more than {most:,}")
    table = file.read_row_group(group, columns=None if columns is None else list(columns))
    if table.num_rows != stated.num_rows:
        raise ValueError(f"{table.num_rows} rows, not {stated.num_rows}")
    table.validate(full=True)
    return table


def _is_chosen(path: str, columns: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def first_odd(found: pa.Schema, schema: pa.Schema) -> str:
    """The first column that is not as a schema has it."""
    for expected in schema:
        i = found.get_field_index(expected.name)
        if i < 0:
            return f"no column {expected.name}"
        if not found.field(i).equals(expected):
            return str(found.field(i))
    return "other columns, or another schema version in its metadata"


def plain_cause(error: Exception) -> str:
    """What a library says of a fault, on one short line."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return error.strerror
    text = str(error).strip().partition("\n")[0][:300]
    return (
        text
        if isinstance(error, ValueError | OSError) and text
        else (f"{type(error).__name__}: {text}")
    )
