"""Every trial that the dataset is to hold: which rows stand, which trials are still to be read."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wmo_distill.errors import UsageError
from wmo_distill.files import Absent, TrialFiles, plain_text
from wmo_distill.shards.batch import Entry, Work, state_of
from wmo_distill.shards.ledger import LedgerRow, Reason
from wmo_distill.shards.plan import Candidate, cells_digest, chosen, shared_ids
from wmo_distill.shards.schema import Outcome
from wmo_distill.sources.discovery import Found, FoundTrial, found_at
from wmo_distill.sources.documents import has_known_form, read_result
from wmo_distill.sources.state import TrialState
from wmo_distill.trials.cells import PlacedCell

# Rows that say more of the run than of the trial's files.
_READ_AGAIN = {"changed_while_reading", Reason.WORKER_DIED.value}
_LASTING = {Reason.READ_FAILED.value, Reason.CALLS_UNBALANCED.value}


@dataclass(frozen=True, slots=True)
class Pending:
    """A trial without rows that hold; it is read if its id gets rows."""

    work: Work
    cells: str
    trial_id: str | None
    is_known: bool = False
    """Whether the id is that of the whole result, not of its head."""


@dataclass(slots=True)
class Roster:
    """The ledger to be. A path is in `rows` or in `pending`."""

    rows: dict[str, LedgerRow] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Paths that are gone and keep their rows."""
    removed: int = 0
    calls_found: dict[str, int] = field(default_factory=dict)
    """Of the trials read in this run, by path."""

    def due(self) -> list[Work]:
        """The works to read now, in order of path."""
        paths = chosen(self._candidates())
        return [self.pending[path].work for path in _ordered(self.pending) if path in paths]

    def settle(self, entry: Entry, part: str | None) -> None:
        """Put what reading a trial gave in the place of what was pending."""
        pending = self.pending.pop(entry.path)
        self.calls_found[entry.path] = entry.calls_found
        reasons = entry.issues if entry.reason is None else (entry.reason.value,)
        self.rows[entry.path] = LedgerRow(
            path=entry.path,
            trial_id=entry.trial_id,
            trial_name=entry.trial_name,
            state=entry.state,
            outcome=Outcome.WRITTEN if entry.reason is None else Outcome.SKIPPED,
            reasons=reasons,
            records=entry.records,
            part=part if entry.reason is None else None,
            cells=pending.cells,
        )

    def close(self) -> None:
        """Decide about the rest: every trial has its ledger row now."""
        paths = chosen(self._candidates())
        for path, pending in self.pending.items():
            found = pending.work.found
            name = None if found is None else found.trial_name
            self.rows[path] = _skipped(
                path, pending.trial_id, name, pending.work.state, Reason.DUPLICATE_ID, pending.cells
            )
        self.pending.clear()
        for path, row in self.rows.items():
            if row.written and path not in paths:
                self.rows[path] = _skipped(
                    path, row.trial_id, row.trial_name, row.state, Reason.DUPLICATE_ID, row.cells
                )

    def skipped(self) -> dict[str, int]:
        """Trials without rows by reason."""
        counts = Counter(row.reasons[0] for row in self.rows.values() if not row.written)
        return dict(sorted(counts.items()))

    def forecast(self) -> tuple[int, dict[str, int]]:
        """(trials that would have rows, trials that would not by reason)."""
        paths = chosen(self._candidates())
        reasons = Counter(row.reasons[0] for row in self.rows.values() if not row.written)
        having = [path for path, row in self.rows.items() if row.written]
        lost = [path for path in (*having, *self.pending) if path not in paths]
        if lost:
            reasons[Reason.DUPLICATE_ID.value] += len(lost)
        return len(having) + len(self.pending) - len(lost), dict(sorted(reasons.items()))

    def _candidates(self) -> Iterator[Candidate]:
        for path, row in self.rows.items():
            if row.written:
                yield Candidate(path, row.trial_id, path in self.gone)
        for path, pending in self.pending.items():
            yield Candidate(path, pending.trial_id)

    def confirm_ids(self) -> None:
        """Where the heads of results show one id for several trials, read the ids themselves.

        An id that was read can be the one that another head shows: until none is left.
        """
        while unsure := self._unsure():
            for path, pending in unsure.items():
                found = pending.work.found
                trial_id = None if found is None else _exact_id(found)
                self.pending[path] = replace(pending, trial_id=trial_id, is_known=True)

    def _unsure(self) -> dict[str, Pending]:
        """The trials whose head shows an id that another trial has too."""
        shared = shared_ids(self._candidates())
        return {
            path: pending
            for path, pending in self.pending.items()
            if pending.trial_id in shared and not pending.is_known
        }


def roster_of(
    before: Mapping[str, LedgerRow],
    found: Found,
    placed: Sequence[PlacedCell] | None,
    *,
    sinks: Path | None,
    keep_removed: bool,
) -> Roster:
    """Hold what earlier builds wrote against what is there now.

    `placed` are the cells, None where trials are graded by the built-in scorer.
    """
    roster = Roster()
    works, without_cell = _works(found, placed, sinks)
    for work in works:
        cells = cells_digest(work.cells)
        row = before.get(work.path)
        trial_id = None if work.found is None else work.found.trial_id
        is_known = False
        if row is not None and _holds(row, work.state, cells):
            if row.written or row.reasons[0] in _LASTING:
                roster.rows[work.path] = _without_removed(row)
                continue
            if row.reasons[0] == Reason.DUPLICATE_ID:
                trial_id, is_known = row.trial_id, True
        roster.pending[work.path] = Pending(work, cells, trial_id, is_known)
    for trial in without_cell:
        state = state_of(trial, sinks)
        roster.rows[trial.path] = _skipped(
            trial.path, trial.trial_id, trial.trial_name, state, Reason.NO_CELL
        )
    _add_others(roster, before, found, sinks=sinks, keep_removed=keep_removed)
    roster.confirm_ids()
    return roster


def _works(
    found: Found, placed: Sequence[PlacedCell] | None, sinks: Path | None
) -> tuple[list[Work], list[FoundTrial]]:
    """(what can get rows, in order of path; the trials found that no cell names)."""
    if placed is None:
        return [Work(t.path, t, state_of(t, sinks)) for t in found.trials], []
    by_place = {os.path.realpath(trial.root): trial for trial in found.trials}
    trials: dict[str, FoundTrial | None] = {}
    cells: dict[str, list[tuple[int, PlacedCell]]] = {}
    for position, cell in enumerate(placed):
        trial = None
        if cell.root is not None:
            trial = by_place.get(os.path.realpath(cell.root))
            trial = trial or found_at(cell.root, found.parent)
        path = cell.name if trial is None else trial.path
        if (trials.setdefault(path, trial) is None) != (trial is None):
            raise UsageError(
                f"cell {position} (task {cell.cell.task_id!r}, attempt {cell.cell.attempt}): "
                f"artifact_dir: expected a trial that no other cell means, found {path!r}, the "
                "path of another one; correct the cell"
            )
        cells.setdefault(path, []).append((position, cell))
    works = [
        Work(
            path,
            trials[path],
            state_of(trials[path], sinks),
            tuple(cell for _, cell in cells[path]),
            tuple(position for position, _ in cells[path]),
        )
        for path in _ordered(cells)
    ]
    return works, [trial for trial in found.trials if trial.path not in cells]


def _add_others(
    roster: Roster,
    before: Mapping[str, LedgerRow],
    found: Found,
    *,
    sinks: Path | None,
    keep_removed: bool,
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
            if not row.written and row.reasons[0] == Reason.DUPLICATE_ID and not row.cells:
                _reconsider(roster, row, found.parent, sinks)
        elif keep_removed:
            roster.gone.add(path)
            reasons = row.reasons if row.written else ()
            reasons = tuple(sorted({*reasons, Reason.REMOVED.value}))
            roster.rows[path] = replace(row, reasons=reasons)
        else:
            roster.removed += 1


def _reconsider(roster: Roster, row: LedgerRow, parent: Path, sinks: Path | None) -> None:
    """A duplicate under no PATH of this run may be the one that is left.

    Its id is known only while its files are as they were; if they changed it stays as it is, with
    its old state, and the next build of its PATH reads it.
    """
    root = parent / row.path
    if root.is_dir():
        trial = replace(found_at(root, parent), path=row.path)
        work = Work(row.path, trial, state_of(trial, sinks))
        if work.state != row.state:
            return
        del roster.rows[row.path]
        roster.pending[row.path] = Pending(work, "", row.trial_id, True)


def _holds(row: LedgerRow, state: TrialState, cells: str) -> bool:
    """Whether what the ledger says of a trial still is so."""
    return row.state == state and row.cells == cells and _READ_AGAIN.isdisjoint(row.reasons)


def _without_removed(row: LedgerRow) -> LedgerRow:
    """The row of a trial that is there, or there again."""
    reasons = tuple(reason for reason in row.reasons if reason != Reason.REMOVED)
    return replace(row, reasons=reasons)


def _skipped(
    path: str,
    trial_id: str | None,
    trial_name: str | None,
    state: TrialState,
    reason: Reason,
    cells: str = "",
) -> LedgerRow:
    return LedgerRow(
        path=path, trial_id=trial_id, trial_name=trial_name, state=state,
        outcome=Outcome.SKIPPED, reasons=(reason.value,), cells=cells,
    )  # fmt: skip


def _exact_id(found: FoundTrial) -> str | None:
    read = read_result(TrialFiles(found.root))
    if isinstance(read, Absent) or not isinstance(read.value, dict):
        return None
    known = "trial_name" in read.value and has_known_form(read.value)
    value = read.value.get("id") if known else None
    return plain_text(value) if isinstance(value, str) else None


def _ordered(paths: Mapping[str, object]) -> list[str]:
    return sorted(paths, key=str.encode)
