"""The file in which a caller keeps grades: JSON, JSON lines or Parquet, by what it holds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from wmo_distill.errors import UsageError, shown
from wmo_distill.files import Absent, parse_json

REQUIRED = ("task_id", "attempt", "reward", "passed", "artifact_dir")
OPTIONAL = ("note", "infra_failed", "tests", "step_name")
_EXPECTED = "expected a JSON list of cells, an object with `cells`, JSON lines, or Parquet"


def read_cell_rows(file: Path) -> list[Any]:
    """The raw cells in order, of any type; UsageError for a file that holds no cells."""
    try:
        data = file.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            f"{file}: expected a readable file of cells, found: {reason}; check --cells"
        ) from None
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
        kept = [name for name in names if name in REQUIRED + OPTIONAL]
        rows: list[Any] = [] if lacking else parquet.read(columns=kept).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
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


def kind_of(value: Any) -> str:
    """What kind of JSON value it is; a number or null as it is."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return kinds.get(type(value)) or shown(value)
