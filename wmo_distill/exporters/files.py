"""Rows into numbered files of bounded size, JSON lines or Parquet."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from wmo_distill.exporters.options import ExportOptions
from wmo_distill.files import plain_text
from wmo_distill.outputs.manifest import Kind, OutputManifest
from wmo_distill.outputs.parts import Parts

KIND = "wmo-distill export"
SCHEMA_VERSION = 1
FILE_TOKENS = 64_000_000
GROUP_TOKENS = 1_000_000


class ExportManifest(OutputManifest):
    """What an export consists of; written last."""

    kind: str = KIND
    schema_version: int = SCHEMA_VERSION
    source: str
    """The hash of the dataset that the rows come from."""
    target: str
    options: dict[str, Any]
    summary: dict[str, Any]


EXPORT = Kind(
    noun="an export",
    command="export",
    model=ExportManifest,
    mark=("kind", KIND),
    version=SCHEMA_VERSION,
    folder="",
    stem="data",
    again="export again with --fresh",
)


def difference(to: str, options: ExportOptions, before: ExportManifest) -> str:
    """What an export before was asked for and this one is not, in a phrase; "" for nothing."""
    if before.target != to:
        return f"--to: expected {before.target} as in the run before, found {to}"
    return options.difference(before.options)


def commit(
    parts: Parts[ExportManifest], source: str, options: dict[str, Any], summary: BaseModel
) -> None:
    """Put the files in place, with a manifest."""
    account = summary.model_dump(mode="json")
    parts.commit(
        ExportManifest(
            source=source,
            target=account["target"],
            options=options,
            parts=parts.parts,
            summary=account,
        )
    )


class RowFiles:
    """`data-00000.jsonl` or `.parquet`, each of about `FILE_TOKENS`."""

    def __init__(self, parts: Parts[ExportManifest], schema: pa.Schema | None) -> None:
        self._parts, self._schema = parts, schema
        self._stack = ExitStack()
        self._lines: IO[bytes] | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._waiting: list[Mapping[str, Any]] = []
        self._waiting_tokens = self._file_tokens = self._rows = 0

    def __enter__(self) -> "RowFiles":
        return self

    def add(self, row: Mapping[str, Any], tokens: int) -> None:
        """Add a row of `tokens` tokens."""
        if self._file_tokens + tokens > FILE_TOKENS and self._file_tokens:
            self._close()
        self._open()
        self._file_tokens += tokens
        self._rows += 1
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
        if self._schema is None:
            path = self._parts.begin("jsonl")
            self._lines = self._stack.enter_context(path.open("wb"))
        else:
            writer = pq.ParquetWriter(
                self._parts.begin(), self._schema, compression="zstd", write_page_checksum=True
            )
            self._parquet = self._stack.enter_context(writer)

    def _flush(self) -> None:
        if self._waiting and self._parquet is not None:
            self._parquet.write_table(arrow_table(self._waiting, self._schema))
        self._waiting, self._waiting_tokens = [], 0

    def _close(self) -> None:
        self._flush()
        self._stack.close()
        self._parts.end(self._rows)
        self._lines = self._parquet = None
        self._file_tokens = self._rows = 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._stack:
            if error is None:
                self._open()
                self._close()


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
