"""Rows into numbered files of bounded size, JSON lines or Parquet, each of which appears whole."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from wmo_distill.files import plain_text, whole_file
from wmo_distill.outputs import next_number

KIND = "wmo-distill export"
FILE_TOKENS = 64_000_000
GROUP_TOKENS = 1_000_000


class RowFiles:
    """`data-00000.jsonl` or `.parquet`, numbered on from those of an earlier export."""

    def __init__(self, out: Path, schema: pa.Schema | None, old: list[str]) -> None:
        self._out, self._schema = out, schema
        self._number = next_number(old)
        self._stack = ExitStack()
        self._lines: IO[bytes] | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._waiting: list[Mapping[str, Any]] = []
        self._waiting_tokens = self._file_tokens = 0
        self.names: list[str] = []

    def __enter__(self) -> "RowFiles":
        self._out.mkdir(parents=True, exist_ok=True)
        return self

    def add(self, row: Mapping[str, Any], tokens: int) -> None:
        """Add a row, which speaks of `tokens` tokens."""
        if self._file_tokens + tokens > FILE_TOKENS and self._file_tokens:
            self._close()
        self._open()
        self._file_tokens += tokens
        if self._lines is not None:
            self._lines.write(json_line(row))
            return
        self._waiting.append(row)
        self._waiting_tokens += tokens
        if self._waiting_tokens >= GROUP_TOKENS:
            self._flush()

    def _open(self) -> None:
        if self._lines is not None or self._parquet is not None:
            return
        ending = "jsonl" if self._schema is None else "parquet"
        name = f"data-{self._number:05d}.{ending}"
        self._number += 1
        temporary = self._stack.enter_context(whole_file(self._out / name))
        if self._schema is None:
            self._lines = self._stack.enter_context(temporary.open("wb"))
        else:
            writer = pq.ParquetWriter(temporary, self._schema, compression="zstd")
            self._parquet = self._stack.enter_context(writer)
        self.names.append(name)

    def _flush(self) -> None:
        if self._waiting and self._parquet is not None:
            self._parquet.write_table(arrow_table(self._waiting, self._schema))
        self._waiting, self._waiting_tokens = [], 0

    def _close(self) -> None:
        self._flush()
        self._stack.close()
        self._lines = self._parquet = None
        self._file_tokens = 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._open()
            self._close()
            return
        self._stack.__exit__(kind, error, trace)
        for name in self.names:
            (self._out / name).unlink(missing_ok=True)


def json_line(row: Mapping[str, Any]) -> bytes:
    """One line of JSON; a float that is not finite is null, a lone surrogate U+FFFD."""
    try:
        return orjson.dumps(
            row, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        )
    except orjson.JSONEncodeError:
        return _slow_json_line(row)


def _slow_json_line(row: Mapping[str, Any]) -> bytes:
    """The same for what orjson refuses: lone surrogates, integers of over 64 bits, deep values."""
    text = json.dumps(row, default=_listed, ensure_ascii=False)
    finite = json.loads(text, parse_constant=lambda _: None)
    text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
    return plain_text(text).encode() + b"\n"


def _plain(value: Any) -> Any:
    """What orjson has no form for: arrays that are not contiguous, and mappings."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value)} has no form in JSON")


def _listed(value: Any) -> Any:
    """What `json` has no form for: arrays, their numbers, and mappings."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else _plain(value)


def arrow_table(rows: list[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    """Rows of arrays and values in a schema."""
    assert schema is not None
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
