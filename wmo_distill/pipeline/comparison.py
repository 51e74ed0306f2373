"""What earlier builds wrote held against what is there now: a roster of what is to be done."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from wmo_distill.errors import ReadFault, UsageError
from wmo_distill.files import FilesState, text_path
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.batch import Work, exact_state, state_of
from wmo_distill.pipeline.cells import PlacedCell, place_at, real_place
from wmo_distill.pipeline.plan import cells_digest
from wmo_distill.pipeline.roster import Pending, Roster, is_duplicate, ordered, skipped_row
from wmo_distill.pipeline.watchdog import TrialTimeout, within
from wmo_distill.shards.ledger import ENDED, LedgerRow, Reason
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.finding import Found, found_again, found_at
from wmo_distill.trial import read_identity

# Rows that say more of the run than of the trial's files.
_READ_AGAIN = {Issue.CHANGED_WHILE_READING.value, Reason.IO_ERROR.value, *ENDED}
_FAILED = {
    Reason.LINE_UNREADABLE, Reason.FILE_UNREADABLE, Reason.READ_FAILED, Reason.CALLS_UNBALANCED,
    Reason.FILE_TOO_LARGE, Reason.DOCUMENT_TOO_LARGE,
}  # fmt: skip


def roster_of(
    before: Mapping[str, LedgerRow],
    found: Found,
    placed: Sequence[PlacedCell] | None,
    *,
    inputs: Sequence[str] = (),
    options: BuildOptions,
) -> Roster:
    """Hold what earlier builds wrote, from the PATHs `inputs`, against what is there now.

    `placed` are the cells, None where trials are graded by the built-in scorer.
    """

    sinks = options.sinks

    def look(row: LedgerRow) -> Work | None:
        trial = found_again(row.path, found.parent, inputs)
        return None if trial is None else _work(row.path, trial, sinks)

    roster = Roster(look=look, confirm=partial(_confirmed, options))
    works, without_cell = _works(found, placed, sinks)
    for work in works:
        row = before.get(work.path)
        cells = cells_digest(work.cells)
        holds = row is not None and _holds(row, work, cells, options)
        if row is not None and holds and row.written:
            roster.rows[work.path] = _without_removed(row)
            if work.fault:
                roster.faults[work.path] = work.fault
        elif work.fault:
            roster.pending[work.path] = _unread(work, cells, row)
            roster.pass_over(work.path, work.fault)
        elif row is None or not holds:
            roster.pending[work.path] = _unread(work, cells, row)
        elif row.reasons[0] in _FAILED:
            roster.pending[work.path] = replace(_unread(work, cells, row), failed=row)
        elif is_duplicate(row):
            roster.pending[work.path] = Pending(work, cells, row.trial_id, row.trial_name, True)
        else:
            roster.pending[work.path] = _unread(work, cells, row)
    for trial in without_cell:
        work = _work(trial.path, trial, sinks)
        roster.rows[trial.path] = skipped_row(
            trial.path, trial.trial_id, trial.trial_name, work.state, Reason.NO_CELL
        )
        if work.fault:
            roster.faults[trial.path] = work.fault
    _add_others(roster, before, found, keep_removed=options.keep_removed)
    return roster


def _works(
    found: Found, placed: Sequence[PlacedCell] | None, sinks: Path | None
) -> tuple[list[Work], list[FoundTrial]]:
    """(what can get rows, in order of path; the trials found that no cell names)."""
    if placed is None:
        return [_work(trial.path, trial, sinks) for trial in found.trials], []
    by_place, by_root = _by_place(found)
    trials: dict[str, FoundTrial | None] = {}
    cells: dict[str, list[tuple[int, PlacedCell]]] = {}
    for position, cell in enumerate(placed):
        trial = by_place.get(cell.place)
        if trial is None and cell.root is not None and not cell.episode:
            trial = _only_one(by_root.get(cell.place, []), cell, position)
            if trial is None and not os.path.isfile(cell.root):
                trial = found_at(cell.root, found.parent)
        path = cell.name if trial is None else trial.path
        if (trials.setdefault(path, trial) is None) != (trial is None):
            raise UsageError(
                f"cell {position} (task {cell.cell.task_id!r}, attempt {cell.cell.attempt}): "
                f"artifact_dir: expected a trial that no other cell means, found {path!r}, the "
                "path of another one; correct the cell"
            )
        cells.setdefault(path, []).append((position, cell))
    works = [
        replace(
            _work(path, trials[path], sinks),
            placed=tuple(cell for _, cell in cells[path]),
            positions=tuple(position for position, _ in cells[path]),
        )
        for path in ordered(cells)
    ]
    return works, [trial for trial in found.trials if trial.path not in cells]


def _work(path: str, trial: FoundTrial | None, sinks: Path | None) -> Work:
    """A trial with the state of its files, and with what could not be read of them."""
    fault = "" if trial is None else trial.fault
    try:
        return Work(path, trial, state_of(trial, sinks), fault=fault)
    except ReadFault as error:
        return Work(path, trial, fault=fault or str(error))


def _by_place(found: Found) -> tuple[dict[str, FoundTrial], dict[str, list[FoundTrial]]]:
    """The trials by the place that a cell may name, and by the file or directory it is in."""
    by_place: dict[str, FoundTrial] = {}
    by_root: dict[str, list[FoundTrial]] = defaultdict(list)
    for trial in found.trials:
        place = place_at(found.parent / text_path(trial.path))
        if place is not None:
            by_place[real_place(*place)] = trial
            by_root[real_place(place[0], "")].append(trial)
    return by_place, by_root


def _only_one(trials: Sequence[FoundTrial], cell: PlacedCell, position: int) -> FoundTrial | None:
    """The trial of a place that a cell names without an episode."""
    if len(trials) > 1:
        raise UsageError(
            f"cell {position} (task {cell.cell.task_id!r}, attempt {cell.cell.attempt}): "
            f"artifact_dir: expected one of {len(trials)} trials in {cell.root}, found no `#` and "
            f"id; name one, such as {trials[0].path!r}"
        )
    return trials[0] if trials else None


def _add_others(
    roster: Roster, before: Mapping[str, LedgerRow], found: Found, *, keep_removed: bool
) -> None:
    """The trials of earlier builds that this one did not find: gone, or none of its business."""
    others = {
        path: row
        for path, row in before.items()
        if path not in roster.rows and path not in roster.pending
    }
    names = {trial.path.rpartition("/")[2] for trial in found.trials}
    all_covered = all(found.covers(path) for path, row in before.items() if not row.missing)
    for path, row in others.items():
        is_gone = (all_covered or path in names) if row.missing else found.covers(path)
        if not is_gone:
            roster.rows[path] = row
            if is_duplicate(row) and not row.cells:
                roster.elsewhere.add(path)
        elif keep_removed:
            roster.gone.add(path)
            roster.rows[path] = _with_removed(row)
        else:
            roster.removed += 1


def _holds(row: LedgerRow, work: Work, cells: str, options: BuildOptions) -> bool:
    """Whether what the ledger says of a trial still is so."""
    if Reason.FILE_TOO_LARGE in row.reasons and work.state.bytes <= options.max_file_size:
        return False
    if row.cells != cells or not _READ_AGAIN.isdisjoint(row.reasons):
        return False
    return row.state == work.state or row.state == _exact_state(work)


def _exact_state(work: Work) -> FilesState | None:
    """None where it cannot be read: then it is not as it was."""
    try:
        return exact_state(work.found)
    except ReadFault:
        return None


def _unread(work: Work, cells: str, row: LedgerRow | None) -> Pending:
    """A trial to be read; `row` is that of an earlier build."""
    found = work.found
    return Pending(
        work,
        cells,
        trial_id=None if found is None else found.trial_id,
        trial_name=None if found is None else found.trial_name,
        is_known=found is not None and found.is_sure,
        kept=_without_removed(row) if row is not None and row.written else None,
    )


def _with_removed(row: LedgerRow) -> LedgerRow:
    """The row of a trial that is gone and kept."""
    if is_duplicate(row):
        reasons = (row.reasons[0], *sorted({*row.reasons[1:], Reason.REMOVED.value}))
    else:
        reasons = tuple(sorted({*(row.reasons if row.written else ()), Reason.REMOVED.value}))
    return replace(row, reasons=reasons)


def _without_removed(row: LedgerRow) -> LedgerRow:
    """The row of a trial that is there, or there again."""
    reasons = tuple(reason for reason in row.reasons if reason != Reason.REMOVED)
    return replace(row, reasons=reasons)


def _confirmed(options: BuildOptions, pending: Pending) -> Pending:
    too_large = pending.work.state.bytes > options.max_file_size
    trial_id, name = _identity(None if too_large else pending.work.found, options)
    return replace(pending, trial_id=trial_id, trial_name=name or pending.trial_name, is_known=True)


def _identity(found: FoundTrial | None, options: BuildOptions) -> tuple[str | None, str | None]:
    """The recorded id and name of a trial; none where its result cannot be read."""
    if found is None:
        return None, None
    try:
        return within(options.max_trial_seconds, lambda: read_identity(found), apart=False)
    except ReadFault:
        raise
    except (Exception, TrialTimeout):  # reading the whole trial tells what is wrong with it
        return None, None
