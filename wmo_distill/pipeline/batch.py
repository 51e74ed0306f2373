"""The unit of work: consecutive trials read into one part, row by row."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wmo_distill.credentials import without_credentials
from wmo_distill.errors import ReadFault, fault_of
from wmo_distill.files import NO_STATE, FilesState
from wmo_distill.issues import Issue
from wmo_distill.limits import LARGE, TooLarge, give_back_memory
from wmo_distill.options import BuildOptions
from wmo_distill.outputs.stored import Stored
from wmo_distill.pipeline.cells import PlacedCell
from wmo_distill.pipeline.watchdog import TrialTimeout, within
from wmo_distill.records import ReadTrial, ScoreCell, TrialRecord
from wmo_distill.shards.decode import decode
from wmo_distill.shards.ledger import Reason
from wmo_distill.shards.manifest import DATASET, PartInfo
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.shards.writer import PartWriter
from wmo_distill.sources.base import Exact, FoundTrial
from wmo_distill.sources.registry import source_of
from wmo_distill.trials.record import missing_trial

Reader = Callable[[FoundTrial, BuildOptions, Sequence[ScoreCell]], ReadTrial]


@dataclass(frozen=True, slots=True)
class Work:
    """One trial to read; `found` is None for a cell whose directory is not there."""

    path: str
    found: FoundTrial | None
    state: FilesState = NO_STATE
    """As planned: of its files before any of them is read."""
    placed: tuple[PlacedCell, ...] = ()
    positions: tuple[int, ...] = ()
    """The position of each cell among all cells."""
    fault: str = ""
    """What could not be read of it: it is not read now."""

    @property
    def cells(self) -> tuple[ScoreCell, ...]:
        return tuple(placed.cell for placed in self.placed)


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows to be written together: all of a trial, or those of some of its cells.

    A trial has several units where the cells of its steps do not follow each other.
    """

    work: Work
    cells: tuple[int, ...] = ()
    """Which of the work's cells; empty for all rows."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A part to be written: its units in order of their rows."""

    file: Path
    units: tuple[Unit, ...]
    options: BuildOptions
    reader: Reader
    apart: bool = False
    """Whether the process that reads it may end for it."""
    notice: "Callable[[Entry], None] | None" = None
    """Called after each trial; only in this process, as it is not sent to another."""

    @property
    def works(self) -> tuple[Work, ...]:
        return tuple({unit.work.path: unit.work for unit in self.units}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What became of one trial that was read; `reason` says why it has no rows."""

    path: str
    state: FilesState
    trial_id: str | None = None
    trial_name: str | None = None
    reason: Reason | None = None
    error: str = ""
    issues: tuple[str, ...] = ()
    records: int = 0
    calls_found: int = 0
    slow_reads: int = 0


@dataclass(frozen=True, slots=True)
class BatchResult:
    """`part` is None where no trial of the batch has rows."""

    part: PartInfo | None
    entries: tuple[Entry, ...]


def run_batch(batch: Batch) -> BatchResult:
    """Read the trials of a batch and write their part; a trial that cannot be read costs itself."""
    entries: dict[str, Entry] = {}
    with PartWriter(batch.file) as part:
        for unit in batch.units:
            entry = _add(unit, batch, part, entries.get(unit.work.path))
            entries[unit.work.path] = entry
            part.let_go()
            if batch.notice is not None:
                batch.notice(entry)
    info: PartInfo | None = part.info
    if not part.info.rows:
        batch.file.unlink()
        info = None
    return BatchResult(info, tuple(entries.values()))


def _add(unit: Unit, batch: Batch, part: PartWriter, before: Entry | None) -> Entry:
    """Read one trial and write its rows; `before` is the entry of its other unit."""
    entry, rows = _read(unit, batch)
    if before is not None and entry.reason is not before.reason:
        # Rows are written already; trial by trial it is read once.
        raise RuntimeError(f"{unit.work.path}: read two times with two outcomes")
    written = [part.write(record) for record in rows]
    issues = {issue.value for record in written for issue in record.issues}
    known = () if before is None else before.issues
    return replace(
        entry,
        records=len(written) + (0 if before is None else before.records),
        issues=tuple(sorted(issues.union(known))),
        state=entry.state if before is None else before.state,
    )


def _read(unit: Unit, batch: Batch) -> tuple[Entry, Sequence[TrialRecord]]:
    """Read one trial; its state is compared with the planned one after."""
    work, options = unit.work, batch.options
    if work.state.bytes > options.max_file_size:
        found, most = f"{work.state.bytes:,}", f"{options.max_file_size:,}"
        said = f"expected files of at most {most} bytes, found {found}; raise --max-file-size"
        return failed(work, Reason.FILE_TOO_LARGE, said), ()
    try:
        read = within(options.max_trial_seconds, lambda: _records(work, batch), apart=batch.apart)
        state = read.state or work.state
        is_changed = state_of(work.found, batch.options.sinks) != work.state
        if read.state is not None and work.found is not None:
            is_changed |= exact_state(work.found, read.state) != read.state
    except TrialTimeout:
        return over_time(work, options), ()
    except TooLarge as error:
        return failed(work, Reason.DOCUMENT_TOO_LARGE, str(error)), ()
    except (ReadFault, OSError) as fault:
        return failed(work, Reason.IO_ERROR, str(fault)), ()
    except BaseException as error:
        return failed(work, Reason.READ_FAILED, fault_of(error)), ()
    if work.state.bytes > LARGE:
        give_back_memory()
    records = read.records
    if not records:
        is_whole = work.found is not None and work.found.locator is None
        return failed(work, Reason.FILE_UNREADABLE if is_whole else Reason.LINE_UNREADABLE), ()
    if sum(len(r.spans) for r in records) + sum(read.calls_dropped.values()) != read.calls_found:
        return failed(work, Reason.CALLS_UNBALANCED), ()
    if is_changed:
        records = tuple(map(_changed, records))
    return (
        Entry(
            path=work.path,
            state=state,
            trial_id=records[0].trial_id,
            trial_name=records[0].trial_name,
            calls_found=read.calls_found,
            slow_reads=read.slow_reads,
        ),
        _of_cells(records, work.cells, unit.cells) if unit.cells else records,
    )


def state_of(found: FoundTrial | None, sinks: Path | None) -> FilesState:
    """Zeros for a trial that is not there, or of which nothing but its place is known."""
    if found is None or not found.source:
        return NO_STATE
    return source_of(found.source).state(found, sinks)


def exact_state(found: FoundTrial | None, known: FilesState | None = None) -> FilesState | None:
    """By all that its records hold, where the source's `state` does not tell that, else None.

    `known` is that of its records as they were read, which holds for a file that did not change.
    """
    source = source_of(found.source) if found is not None and found.source else None
    return source.exact_state(found, known) if found and isinstance(source, Exact) else None


def over_time(work: Work, options: BuildOptions) -> Entry:
    """The entry of a trial that took too long to read."""
    said = f"expected to be read in {options.max_trial_seconds} s, was not"
    return failed(work, Reason.TRIAL_TIMEOUT, f"{said}; raise --max-trial-seconds")


def failed(work: Work, reason: Reason, error: BaseException | str = "") -> Entry:
    """The entry of a trial that has no rows; `error` tells a person where it went wrong."""
    shown = error if isinstance(error, str) else ""
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)
        at = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        shown = without_credentials(f"{type(error).__name__}: {error}")[:500] + at
    return Entry(
        path=work.path,
        state=work.state,
        trial_name=None if work.found is None else without_credentials(work.found.trial_name),
        reason=reason,
        error=shown,
    )


def _records(work: Work, batch: Batch) -> ReadTrial:
    if work.found is not None:
        return batch.reader(work.found, batch.options, work.cells)
    read = [missing_trial(placed.name, placed.cell) for placed in work.placed]
    return ReadTrial(records=tuple(r for one in read for r in one.records), calls_found=0)


def _changed(record: TrialRecord) -> TrialRecord:
    return replace(record, issues=tuple(sorted((*record.issues, Issue.CHANGED_WHILE_READING))))


def _of_cells(
    records: Sequence[TrialRecord], cells: Sequence[ScoreCell], chosen: Sequence[int]
) -> list[TrialRecord]:
    """The rows that the chosen cells grade; rows that no cell grades go with the last cell."""
    by_step = {cell.step_name: index for index, cell in enumerate(cells)}
    other = by_step.get(None, len(cells) - 1)
    return [record for record in records if by_step.get(record.step_name, other) in chosen]


def copy_rows(source: Path, part: PartWriter, paths: Iterable[str]) -> None:
    """Copy the rows of these trials from one part to another, a row group at a time."""
    kept = frozenset(paths)
    for record in Stored(source, SCHEMA, DATASET.again).read(None, decode):
        if record.artifact_dir in kept:
            part.write(record)
            del record
            part.let_go()
