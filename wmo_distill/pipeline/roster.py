"""Every trial that the dataset is to hold: which rows stay, which trials are still to be read.

A ledger row pairs an id with the state of the files that this id was read from, never with another
state: so an id of the ledger holds as long as the state does. Example: trials a and b have id 7.

    earlier build   a written, b skipped as its duplicate
    now             a's result has changed: its rows no longer hold, so both are pending
    `due`           a has id 8 now, so b is the only trial with id 7: both are read
    elsewhere       were b below no PATH of this run, `_take_over` would look for it and read it
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from wmo_distill.errors import ReadFault
from wmo_distill.files import FilesState
from wmo_distill.issues import Issue
from wmo_distill.pipeline.batch import Entry, Work
from wmo_distill.pipeline.plan import Candidate, chosen, shared_ids
from wmo_distill.shards.ledger import LedgerRow, Reason
from wmo_distill.shards.schema import Outcome


@dataclass(frozen=True, slots=True)
class Pending:
    """A trial without rows that hold; it is read if its id gets rows."""

    work: Work
    cells: str
    trial_id: str | None
    trial_name: str | None
    is_known: bool = False
    """Whether id and name are those of the whole result, not of its head."""
    failed: LedgerRow | None = None
    """The row of a trial that could not be read, in this run or, unchanged, in an earlier one."""
    kept: LedgerRow | None = None
    """The row of an earlier build with its records: they stay where the system gives no others."""


def _not_there(row: LedgerRow) -> Work | None:
    return None


def _known(pending: Pending) -> Pending:
    return replace(pending, is_known=True)


@dataclass(slots=True)
class Roster:
    """The ledger to be. A path is in `rows` or in `pending`."""

    rows: dict[str, LedgerRow] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    """Of `rows`, duplicates below no PATH of this run: one takes over if its id has no row."""
    look: Callable[[LedgerRow], Work | None] = _not_there
    """Finds such a duplicate in its directory; None if it is no longer there."""
    confirm: Callable[[Pending], Pending] = _known
    """Reads id and name of a trial from its whole result."""
    gone: set[str] = field(default_factory=set)
    """Paths that are gone and kept."""
    removed: int = 0
    calls_found: dict[str, int] = field(default_factory=dict)
    """Of the trials read in this run, by path."""
    faults: dict[str, str] = field(default_factory=dict)
    """What the system did not give in this run, by the trial's path."""

    def due(self) -> list[Work]:
        """The works to read now, in order of path."""
        while True:
            self._confirm_ids()
            paths = chosen(self._candidates())
            free = ordered(self.elsewhere & paths)
            if not free:
                waiting = {path: p.work for path, p in self.pending.items() if p.failed is None}
                return [waiting[path] for path in ordered(waiting) if path in paths]
            for path in free:
                self._take_over(path)

    def settle(self, entry: Entry, part: str | None) -> None:
        """Put what reading a trial gave in the place of what was pending."""
        if entry.reason is Reason.IO_ERROR:
            self.pass_over(entry.path, entry.error)
            return
        pending = self.pending.pop(entry.path)
        self.calls_found[entry.path] = entry.calls_found
        reasons = entry.issues if entry.reason is None else (entry.reason.value,)
        row = LedgerRow(
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
        if row.written:
            self.rows[entry.path] = row
        else:
            self.pending[entry.path] = replace(pending, failed=row)

    def pass_over(self, path: str, fault: str) -> None:
        """A pending trial that cannot be read now keeps its rows, and is read in the next build.

        Its id is not known: one that its first bytes showed must not make it a duplicate.
        """
        self.faults[path] = fault
        pending = self.pending[path]
        if pending.kept is not None:
            del self.pending[path]
            self.rows[path] = _with_io_error(pending.kept)
            return
        row = skipped_row(
            path, None, pending.trial_name, pending.work.state, Reason.IO_ERROR, pending.cells
        )
        self.pending[path] = replace(pending, trial_id=None, failed=row)

    def close(self) -> None:
        """Decide about the rest: every trial has its ledger row now."""
        paths = chosen(self._candidates())
        for path, pending in self.pending.items():
            if pending.failed is not None and path in paths:
                self.rows[path] = pending.failed
                continue
            self.rows[path] = skipped_row(
                path, pending.trial_id, pending.trial_name, pending.work.state,
                Reason.DUPLICATE_ID, pending.cells,
            )  # fmt: skip
        self.pending.clear()
        for path, row in self.rows.items():
            if row.written and path not in paths:
                self.rows[path] = _without_rows(row)
        self._mark_unheld()

    def skipped(self) -> dict[str, int]:
        """Trials without rows by reason."""
        counts = Counter(row.reasons[0] for row in self.rows.values() if not row.written)
        return dict(sorted(counts.items()))

    def forecast(self) -> tuple[int, dict[str, int]]:
        """(trials that would have rows, trials that would not by reason)."""
        paths = chosen(self._candidates())
        failed = [p.failed for path, p in self.pending.items() if p.failed and path in paths]
        without = [row for row in self.rows.values() if not row.written] + failed
        reasons = Counter(row.reasons[0] for row in without)
        having = [path for path, row in self.rows.items() if row.written]
        lost = [path for path in (*having, *self.pending) if path not in paths]
        if lost:
            reasons[Reason.DUPLICATE_ID.value] += len(lost)
        written = len(having) + len(self.pending) - len(lost) - len(failed)
        return written, dict(sorted(reasons.items()))

    def _candidates(self) -> Iterator[Candidate]:
        """Every trial that has rows, or could have them."""
        for path, row in self.rows.items():
            if row.written or path in self.elsewhere:
                yield Candidate(path, row.trial_id, row.written and Reason.REMOVED in row.reasons)
        for path, pending in self.pending.items():
            yield Candidate(path, pending.trial_id, fails=pending.failed is not None)

    def _confirm_ids(self) -> None:
        """Where the heads of results show one id for several trials, read the ids themselves.

        The id that is read may again be shared with one that only a head shows.
        """
        while True:
            shared = shared_ids(self._candidates())
            unsure = [
                path
                for path, pending in self.pending.items()
                if pending.trial_id in shared and not pending.is_known
            ]
            if not unsure:
                return
            for path in unsure:
                try:
                    self.pending[path] = self.confirm(self.pending[path])
                except ReadFault as fault:
                    self.pass_over(path, str(fault))

    def _take_over(self, path: str) -> None:
        """Read a duplicate below no PATH of this run, whose id no other trial has any more.

        Its files may have changed since the ledger's row: only reading tells its id.
        """
        self.elsewhere.discard(path)
        work = self.look(self.rows[path])
        if work is not None and work.fault:
            self.faults[path] = work.fault
            self.rows[path] = _with_io_error(self.rows[path])
        elif work is not None:
            row = self.rows.pop(path)
            is_known = row.state == work.state
            self.pending[path] = Pending(work, "", row.trial_id, row.trial_name, is_known)

    def _mark_unheld(self) -> None:
        """Say of a duplicate whose id no written row has why it could not take over."""
        held = {row.trial_id for row in self.rows.values() if row.written}
        for path, row in self.rows.items():
            unread = Reason.IO_ERROR in row.reasons
            if is_duplicate(row) and row.trial_id not in held and not unread:
                why = Reason.NO_CELL if row.cells else Reason.REMOVED
                reasons = sorted({*row.reasons[1:], why.value})
                self.rows[path] = replace(row, reasons=(row.reasons[0], *reasons))


def is_duplicate(row: LedgerRow) -> bool:
    return not row.written and row.reasons[0] == Reason.DUPLICATE_ID


def skipped_row(
    path: str,
    trial_id: str | None,
    trial_name: str | None,
    state: FilesState,
    reason: Reason,
    cells: str = "",
) -> LedgerRow:
    return LedgerRow(
        path=path, trial_id=trial_id, trial_name=trial_name, state=state,
        outcome=Outcome.SKIPPED, reasons=(reason.value,), cells=cells,
    )  # fmt: skip


def _with_io_error(row: LedgerRow) -> LedgerRow:
    """The row of a trial that cannot be read now."""
    first, others = (0, row.reasons) if row.written else (1, row.reasons[1:])
    return replace(row, reasons=(*row.reasons[:first], *sorted({*others, Reason.IO_ERROR.value})))


def ordered(paths: Mapping[str, object] | set[str]) -> list[str]:
    """Paths compare as UTF-8 bytes."""
    return sorted(paths, key=str.encode)


def _without_rows(row: LedgerRow) -> LedgerRow:
    """The row of a trial that had rows, whose id another trial has now."""
    # Files that changed while they were read are read again: then state and id belong together.
    lasting = {Reason.REMOVED.value, Reason.IO_ERROR.value, Issue.CHANGED_WHILE_READING.value}
    reasons = [reason for reason in row.reasons if reason in lasting]
    return replace(
        row,
        outcome=Outcome.SKIPPED,
        reasons=(Reason.DUPLICATE_ID.value, *sorted(reasons)),
        records=0,
        part=None,
    )
