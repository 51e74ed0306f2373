"""Writes rows into numbered parts of bounded size, each of which appears whole."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pyarrow.parquet as pq

from wmo_distill.datums.manifest import PARTS_DIR
from wmo_distill.datums.table import DATUM_SCHEMA, Row, datum_table
from wmo_distill.files import file_sha256, whole_file
from wmo_distill.shards.writer import parquet_writer

GROUP_TOKENS = 1_000_000
PART_TOKENS = 64_000_000


class DatumWriter:
    """Row groups of at most `GROUP_TOKENS` or one row, parts of about `PART_TOKENS`.

    A row group is compressed by a thread while the next one is gathered. What an unfinished build
    has written is taken away again.
    """

    def __init__(self, out: Path, number: int) -> None:
        self._out, self._number = out, number
        self._waiting: list[Row] = []
        self._waiting_tokens = self._part_tokens = 0
        self._writer: pq.ParquetWriter | None = None
        self._file = ExitStack()
        self._thread = ThreadPoolExecutor(1)
        self._written: Future[None] | None = None
        self.names: list[str] = []
        self.sha256: dict[str, str] = {}

    def __enter__(self) -> "DatumWriter":
        (self._out / PARTS_DIR).mkdir(parents=True, exist_ok=True)
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
        with self._thread:
            try:
                if error is None:
                    self._flush()
                    if not self.names:
                        self._open()
                    self._finish()
                    return
            except BaseException:
                self._abandon()
                raise
            self._abandon()

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            name = f"{PARTS_DIR}/datums-{self._number:05d}.parquet"
            self._number += 1
            temporary = self._file.enter_context(whole_file(self._out / name))
            self._writer = parquet_writer(temporary, DATUM_SCHEMA)
            self.names.append(name)
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
            self._file.close()
            self.sha256[self.names[-1]] = file_sha256(self._out / self.names[-1])[0]
        self._writer, self._part_tokens = None, 0

    def _abandon(self) -> None:
        self._thread.shutdown()
        if self._writer is not None:
            self._writer.close()
            error = RuntimeError("the build was not finished")
            self._file.__exit__(RuntimeError, error, None)
        for name in self.names:
            (self._out / name).unlink(missing_ok=True)
