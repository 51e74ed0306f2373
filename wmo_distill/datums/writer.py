"""Writes rows into numbered parts of bounded size."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import pyarrow.parquet as pq

from wmo_distill.datums.manifest import DatumManifest
from wmo_distill.datums.table import DATUM_SCHEMA, Row, datum_table
from wmo_distill.outputs.parts import Parts
from wmo_distill.shards.writer import parquet_writer

GROUP_TOKENS = 1_000_000
PART_TOKENS = 64_000_000


class DatumWriter:
    """Row groups of at most `GROUP_TOKENS` or one row, parts of about `PART_TOKENS`.

    A row group is compressed by a thread while the next one is gathered.
    """

    def __init__(self, parts: Parts[DatumManifest]) -> None:
        self._parts = parts
        self._waiting: list[Row] = []
        self._waiting_tokens = self._part_tokens = self._part_rows = 0
        self._writer: pq.ParquetWriter | None = None
        self._thread = ThreadPoolExecutor(1)
        self._written: Future[None] | None = None

    def __enter__(self) -> "DatumWriter":
        return self

    def add(self, rows: list[Row]) -> None:
        for row in rows:
            tokens = row.datum.token_ids.size
            if self._waiting and self._waiting_tokens + tokens > GROUP_TOKENS:
                self._flush()
            self._waiting.append(row)
            self._waiting_tokens += tokens

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._flush()
                if not self._parts.parts:
                    self._open()
                self._finish()
        finally:
            self._thread.shutdown()
            if self._writer is not None:
                self._writer.close()

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = parquet_writer(self._parts.begin(), DATUM_SCHEMA)
        return self._writer

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._part_tokens + self._waiting_tokens > PART_TOKENS:
            self._finish()
        table = datum_table(self._waiting)
        self._settle()
        self._written = self._thread.submit(
            self._open().write_table, table, row_group_size=len(self._waiting)
        )
        self._part_tokens += self._waiting_tokens
        self._part_rows += len(self._waiting)
        self._waiting, self._waiting_tokens = [], 0

    def _settle(self) -> None:
        """Wait for the row group that is being written, and raise what went wrong there."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def _finish(self) -> None:
        self._settle()
        if self._writer is not None:
            self._writer.close()
            self._parts.end(self._part_rows)
        self._writer, self._part_tokens, self._part_rows = None, 0, 0
