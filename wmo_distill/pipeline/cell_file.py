"""The file in which a caller keeps grades: JSON, JSON lines or Parquet, by what it holds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from wmo_distill.errors import UsageError, shown
from wmo_distill.files import Absent, parse_json

REQUIRED = ("task_id", "attempt", "reward", "passed", "artifact_dir")
OPTIONAL = ("note", "infra_failed", "tests", "step_name")
MOST_BYTES = 256_000_000
MOST_CELLS = 1_000_000
_BATCH = 10_000
_FEWER = "give the cells of fewer trials at a time"
_EXPECTED = "expected a JSON list of cells, an object with `cells`, JSON lines, or Parquet"


def read_cell_rows(file: Path) -> list[Any]:
    """The raw cells in order, of any type; UsageError for a file that holds no cells."""
    try:
        with open(file, "rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            f"{file}: expected a readable file of cells, found: {reason}; check --cells"
        ) from None
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"{file}: expected at most {MOST_BYTES:,} bytes of cells, found more; {_FEWER}"
        )
    if data[:4] == b"PAR1":
        return _parquet_rows(file, data)
    value = parse_json(data)
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and isinstance(value.get("cells"), list):
        return list(value["cells"])
    if isinstance(value, dict) and "cells" not in value and not value.keys().isdisjoint(REQUIRED):
        return [value]
    if not isinstance(value, Absent):
        raise UsageError(f"{file}: {_EXPECTED}, found {kind_of(value)}; write one of these")
    return list(_json_lines(file, data))


def _json_lines(file: Path, data: bytes) -> Iterator[Any]:
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not any(line.strip() for line in lines):
        raise UsageError(f"{file}: {_EXPECTED}, found an empty file; write `[]` for no cells")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        value = parse_json(line)
        if isinstance(value, Absent):
            raise UsageError(
                f"{file}, line {number}: {_EXPECTED}, found text that is no JSON value in UTF-8; "
                "correct the line"
            )
        yield value


def _parquet_rows(file: Path, data: bytes) -> list[Any]:
    try:
        parquet = pq.ParquetFile(pa.BufferReader(data))
        names = parquet.schema_arrow.names
        lacking = [name for name in REQUIRED if name not in names]
        rows = [] if lacking else list(_bounded_rows(parquet, data))
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        first = str(error).partition("\n")[0]
        raise UsageError(
            f"{file}: expected a readable Parquet file of cells, found: {first}; write it again"
        ) from None
    if lacking:
        raise UsageError(
            f"{file}: expected the columns {', '.join(REQUIRED)}, found no {', '.join(lacking)}; "
            "add them"
        )
    return rows


def _bounded_rows(parquet: pq.ParquetFile, data: bytes) -> Iterator[dict[str, Any]]:
    """The rows, where what they state and what they unpack to is bounded; ValueError elsewhere.

    Texts stay in their dictionaries until their sizes are known: 20 bytes can say that each of a
    million rows holds one text of a megabyte.
    """
    import pyarrow.compute as pc  # loading it takes as long as a small build

    schema, metadata = parquet.schema_arrow, parquet.metadata
    kept = [field for field in schema if field.name in REQUIRED + OPTIONAL]
    for field in kept:
        if not _is_plain(field.type):
            raise ValueError(f"a column {field.name} of {field.type}")
    if not 0 <= metadata.num_rows <= MOST_CELLS:
        raise ValueError(f"{metadata.num_rows:,} cells, more than {MOST_CELLS:,}; {_FEWER}")
    names = [field.name for field in kept]
    texts = [field.name for field in kept if _is_text(field.type)]
    _check_stated(metadata, names)
    opened = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
    size = 0
    for batch in opened.iter_batches(_BATCH, columns=names):
        for name in texts:
            column = batch.column(batch.schema.get_field_index(name))
            lengths = pc.binary_length(column.dictionary).take(column.indices)
            size += pc.sum(lengths).as_py() or 0
        if size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes of text; {_FEWER}")
        yield from batch.to_pylist()


def _check_stated(metadata: pq.FileMetaData, names: Sequence[str]) -> None:
    size = 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for at in range(row_group.num_columns):
            chunk = row_group.column(at)
            if chunk.path_in_schema.partition(".")[0] in names:
                size += max(0, chunk.total_uncompressed_size)
                if not 0 <= chunk.num_values <= MOST_CELLS:
                    raise ValueError(f"{chunk.num_values:,} values in a column")
    if size > MOST_BYTES:
        raise ValueError(f"{size:,} bytes of cells, more than {MOST_BYTES:,}; {_FEWER}")


def _is_text(of: pa.DataType) -> bool:
    """Texts, in a dictionary or not."""
    of = of.value_type if pa.types.is_dictionary(of) else of
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def _is_plain(of: pa.DataType) -> bool:
    """A text, a number, a truth value, or a structure of these: what a cell can hold."""
    if pa.types.is_struct(of):
        return all(_is_plain(field.type) and not _is_text(field.type) for field in of)
    return _is_text(of) or bool(
        pa.types.is_integer(of)
        or pa.types.is_floating(of)
        or pa.types.is_boolean(of)
        or pa.types.is_null(of)
    )


def kind_of(value: Any) -> str:
    """What kind of JSON value it is; a number or null as it is."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return kinds.get(type(value)) or shown(value)
