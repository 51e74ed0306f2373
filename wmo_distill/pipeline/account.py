"""What a build reports while it reads: trials by what became of them, their issues, parts."""

from collections import Counter
from collections.abc import Sequence

from wmo_distill.pipeline.batch import BatchResult, Entry, Work
from wmo_distill.pipeline.roster import Roster
from wmo_distill.progress import Listener, Progress


class Account:
    """Sums as they grow, for a listener: after each trial that this process reads, else each part.

    `done` of `total` are trials read of those to read; `unchanged` ones are not among them.
    """

    def __init__(self, listener: Listener | None, roster: Roster) -> None:
        self._listener = listener
        self._done = self._total = self._bytes_done = self._bytes_total = self._parts = 0
        self._workers = 0
        self._issues = Counter[str]()
        self._outcomes = Counter[str]()
        self._ahead: set[str] = set()
        """Trials of a part that is not complete."""
        if listener is not None:
            self._outcomes.update(
                "unchanged" if row.written else row.reasons[0] for row in roster.rows.values()
            )

    def expect(self, works: Sequence[Work]) -> None:
        """These are read next."""
        self._total += len(works)
        self._bytes_total += sum(work.state.bytes for work in works)
        self._report()

    def step(self, entry: Entry) -> None:
        """A trial was read, its part is not complete."""
        if self._listener is not None and entry.path not in self._ahead:
            self._ahead.add(entry.path)
            self._count(entry)
            self._report()

    def add(self, result: BatchResult, workers: int) -> None:
        """A part is complete, or nothing was left for one."""
        for entry in result.entries:
            if entry.path not in self._ahead:
                self._count(entry)
        self._ahead.clear()
        self._parts += result.part is not None
        self._workers = workers
        self._report()

    def _count(self, entry: Entry) -> None:
        self._done += 1
        self._bytes_done += entry.state.bytes
        self._outcomes["written" if entry.reason is None else entry.reason.value] += 1
        self._issues.update(entry.issues)

    def _report(self) -> None:
        if self._listener is not None:
            self._listener(
                Progress(
                    done=self._done,
                    total=self._total,
                    unit="trials",
                    bytes_done=self._bytes_done,
                    bytes_total=self._bytes_total,
                    outcomes=self._outcomes,
                    issues=self._issues,
                    parts=self._parts,
                    workers=self._workers,
                )
            )
