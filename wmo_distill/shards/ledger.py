"""The ledger: one row a trial found, what became of it, and the state its files had."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa

from wmo_distill.errors import UsageError
from wmo_distill.files import FilesState, file_sha256, whole_file
from wmo_distill.outputs.stored import DAMAGE, parquet_file, plain_cause, read_group
from wmo_distill.shards.manifest import LedgerInfo
from wmo_distill.shards.schema import LEDGER_FILE, LEDGER_SCHEMA, Outcome
from wmo_distill.shards.writer import parquet_writer


class Reason(StrEnum):
    """Why a trial found has no rows, or, for REMOVED and IO_ERROR, why it has those of before."""

    DUPLICATE_ID = "duplicate_id"
    NO_CELL = "no_cell"
    LINE_UNREADABLE = "line_unreadable"
    """A line that holds no record of its format, a torn last one among them."""
    FILE_UNREADABLE = "file_unreadable"
    """A database of its format that is damaged: which trials it holds nobody can tell."""
    FILE_TOO_LARGE = "file_too_large"
    """Its files hold more than `--max-file-size`."""
    DOCUMENT_TOO_LARGE = "document_too_large"
    """More text outside token lists, or more lists, than is held in memory."""
    TRIAL_TIMEOUT = "trial_timeout"
    """Reading took longer than `--max-trial-seconds`; read again next time."""
    READ_FAILED = "read_failed"
    WORKER_DIED = "worker_died"
    CALLS_UNBALANCED = "calls_unbalanced"
    IO_ERROR = "io_error"
    """The system did not give what is there: read again in the next build, whatever has changed."""
    REMOVED = "removed"


ENDED = frozenset((Reason.WORKER_DIED, Reason.TRIAL_TIMEOUT))
"""The process that read the trial died, or would not have ended: read again, and apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """`reasons` holds the reason for skipping, or the issue codes of the rows written."""

    path: str
    trial_id: str | None
    trial_name: str | None
    state: FilesState
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    records: int = 0
    part: str | None = None
    """POSIX path of the part relative to the dataset, as in the manifest."""
    cells: str = ""
    """Digest of the cells that the rows hold, empty where they hold the built-in grade."""

    @property
    def written(self) -> bool:
        return self.outcome is Outcome.WRITTEN

    @property
    def missing(self) -> bool:
        """Whether this is a cell whose directory was not there."""
        stateless = not self.state.bytes and not self.state.mtime_ns
        return stateless and bool(self.cells) and Reason.IO_ERROR not in self.reasons


def write_ledger(path: Path, rows: Iterable[LedgerRow]) -> LedgerInfo:
    """All rows, in order of path; gives what the manifest says of the file."""
    ordered = sorted(rows, key=lambda row: row.path.encode())
    columns = {
        "path": [row.path for row in ordered],
        "trial_id": [row.trial_id for row in ordered],
        "trial_name": [row.trial_name for row in ordered],
        "bytes": [row.state.bytes for row in ordered],
        "mtime_ns": [row.state.mtime_ns for row in ordered],
        "outcome": [row.outcome.value for row in ordered],
        "reasons": [list(row.reasons) for row in ordered],
        "records": [row.records for row in ordered],
        "part": [row.part for row in ordered],
    }
    table = pa.Table.from_arrays(
        [pa.array(columns[field.name], field.type) for field in LEDGER_SCHEMA],
        schema=LEDGER_SCHEMA,
    )
    with whole_file(path) as temporary, parquet_writer(temporary, LEDGER_SCHEMA) as writer:
        if table.num_rows:
            writer.write_table(table)
    return ledger_info(path, table.num_rows)


def ledger_info(path: Path, rows: int) -> LedgerInfo:
    """What a manifest says of a ledger of so many rows."""
    sha256, size = file_sha256(path)
    return LedgerInfo(rows=rows, bytes=size, sha256=sha256)


def read_ledger(out: Path, info: LedgerInfo, cells: Mapping[str, str]) -> dict[str, LedgerRow]:
    """The rows of a dataset's ledger by path; UsageError where it is not the manifest's.

    `cells` are the digests that the manifest holds.
    """
    file = out / LEDGER_FILE
    try:
        sha256 = ledger_info(file, info.rows).sha256
        if sha256 != info.sha256:
            raise ValueError(f"another file, of SHA-256 {sha256[:16]}…, not {info.sha256[:16]}…")
        with parquet_file(file) as opened:
            groups = range(opened.num_row_groups)
            tables = [read_group(opened, group, LEDGER_SCHEMA.names) for group in groups]
        rows = [row for table in tables for row in table.cast(LEDGER_SCHEMA).to_pylist()]
        return {row["path"]: _row(row, cells.get(row["path"], "")) for row in rows}
    except DAMAGE as error:
        found = plain_cause(error)
    raise UsageError(
        f"{file}: expected the ledger that belongs to its manifest, found: {found}; "
        "restore the file, or build again with --fresh"
    )


def _row(row: Mapping[str, Any], cells: str) -> LedgerRow:
    return LedgerRow(
        path=row["path"],
        trial_id=row["trial_id"],
        trial_name=row["trial_name"],
        state=FilesState(row["bytes"], row["mtime_ns"]),
        outcome=Outcome(row["outcome"]),
        reasons=tuple(row["reasons"]),
        records=row["records"],
        part=row["part"],
        cells=cells,
    )
