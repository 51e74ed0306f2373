"""Writes one part: rows gathered into row groups of bounded size, in the declared encodings."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wmo_distill.files import file_sha256, sync_file
from wmo_distill.issues import Issue
from wmo_distill.limits import give_back_memory
from wmo_distill.outputs.stored import footer_sha256
from wmo_distill.records import TrialRecord
from wmo_distill.shards.columns import TEXT
from wmo_distill.shards.digest import MODULUS, row_digest
from wmo_distill.shards.encode import encode, row_values, stored_ids
from wmo_distill.shards.manifest import PartInfo, Totals
from wmo_distill.shards.schema import PARTS_DIR, SCHEMA
from wmo_distill.tokens import in_order

GROUP_TOKENS = 1_000_000
GROUP_EXTRA_BYTES = 256_000_000
GROUP_ROWS = 10_000
"""Bounds the memory of rows that hold no tokens."""
ROW_EXTRA_BYTES = 1_000_000_000


def _leaves(of: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType]]:
    """The Parquet columns below a column, as (dotted path, type)."""
    if pa.types.is_list(of):
        yield from _leaves(of.value_type, f"{path}.list.element")
    elif pa.types.is_struct(of):
        for field in of:
            yield from _leaves(field.type, f"{path}.{field.name}")
    else:
        yield path, of


def leaves(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Every Parquet column of a schema, by dotted path."""
    return dict(leaf for field in schema for leaf in _leaves(field.type, field.name))


PER_TOKEN_FLOATS = ("logprobs.list.element", "advantages.list.element")
EXTRA_LEAF = "spans.list.element.extra"


def parquet_writer(path: Path, schema: pa.Schema = SCHEMA) -> pq.ParquetWriter:
    """A writer with the declared encodings: plain ids, byte-stream-split log-probabilities."""
    columns = leaves(schema)
    # No two extras are alike: a dictionary of them would only cost time.
    words = [name for name, of in columns.items() if of == TEXT and name != EXTRA_LEAF]
    return pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=1,
        use_dictionary=words,
        # No reader skips row groups by what their lists hold.
        write_statistics=[name for name in columns if ".list." not in name],
        use_byte_stream_split=[name for name in columns if name.endswith(PER_TOKEN_FLOATS)],
        use_compliant_nested_type=True,
        # A flipped bit in a page is found wherever the page is read.
        write_page_checksum=True,
    )


def _on_disk(table: pa.Table, path: Path) -> pa.Table:
    """The same table in a file without a name: a column takes memory from when it is read on."""
    try:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    finally:
        path.unlink(missing_ok=True)


class PartWriter:
    """A part, complete when it is closed; an exception before that removes it.

    >>> with PartWriter(out / "parts/part-00000.parquet") as part:
    ...     part.write(record)
    >>> part.info
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[TrialRecord] = []
        self._values: list[dict[str, Any]] = []
        self._tokens = self._extra = 0
        self._rows = self._all_tokens = self._row_sum = 0
        self._totals: list[Totals] = []
        self._info: PartInfo | None = None

    def __enter__(self) -> "PartWriter":
        return self

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = parquet_writer(self.path)
        return self._writer

    def write(self, record: TrialRecord) -> TrialRecord:
        """Add a row; gives the record as written, which may have lost its extras."""
        extra = sum(_extra_bytes(e) for chat in record.chats.values() for e in chat.extra)
        if extra > ROW_EXTRA_BYTES:
            record, extra = without_extra(record), 0
        tokens = stored_ids(record)
        if self._waiting and (
            self._tokens + tokens > GROUP_TOKENS
            or self._extra + extra > GROUP_EXTRA_BYTES
            or len(self._waiting) >= GROUP_ROWS
        ):
            self._flush()
        values = row_values(record)
        self._waiting.append(record)
        self._values.append(values)
        self._tokens += tokens
        self._extra += extra
        self._all_tokens += tokens
        self._rows += 1
        self._row_sum = (self._row_sum + int.from_bytes(row_digest(record, values))) % MODULUS
        self._totals.append(Totals.of(record))
        return record

    def let_go(self) -> None:
        """Write a large row now, which else waits for the next one and is in memory next to it.

        What the caller still holds of it stays in memory.
        """
        if self._is_large:
            self._flush()

    @property
    def _is_large(self) -> bool:
        """Whether what waits is a row that has a row group to itself."""
        return self._tokens > GROUP_TOKENS or self._extra > GROUP_EXTRA_BYTES

    def _flush(self) -> None:
        waiting, values = self._waiting, self._values
        self._waiting, self._values = [], []
        if rows := len(waiting):
            table = encode(waiting, values)
            del waiting, values  # what they hold is in the table now, and can be large
            if self._is_large:
                table = _on_disk(table, self.path.with_suffix(".row"))
                give_back_memory()
            self._open().write_table(table, row_group_size=rows)
        self._tokens = self._extra = 0

    def close(self) -> PartInfo:
        """Complete the part, and sync it."""
        if self._info is not None:
            return self._info
        writer = self._open()
        self._flush()
        writer.close()
        sync_file(self.path)
        sha256, size = file_sha256(self.path)
        self._info = PartInfo(
            file=f"{PARTS_DIR}/{self.path.name}",
            rows=self._rows,
            tokens=self._all_tokens,
            bytes=size,
            sha256=sha256,
            footer=footer_sha256(self.path),
            row_sum=f"{self._row_sum:064x}",
            totals=Totals.sum(self._totals),
        )
        return self._info

    def discard(self) -> None:
        """Remove the part."""
        if self._writer is not None:
            try:
                self._writer.close()
            finally:
                self.path.unlink(missing_ok=True)

    @property
    def info(self) -> PartInfo:
        """What the closed part holds."""
        assert self._info is not None, "the part is not closed yet"
        return self._info

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.close()
        finally:
            if self._info is None:
                self.discard()


def _extra_bytes(extra: str | None) -> int:
    if extra is None:
        return 0
    return len(extra) if extra.isascii() else len(extra.encode("utf-8", "replace"))


def without_extra(record: TrialRecord) -> TrialRecord:
    """The record without its extras, and the issue that says so."""
    bare = {k: replace(chat, extra=[None] * len(chat)) for k, chat in record.chats.items()}
    issues = tuple(sorted([*record.issues, Issue.EXTRA_TOO_LARGE]))
    spans = in_order((span.segment for span in record.spans), bare)
    return replace(record, spans=spans, issues=issues)
