"""A build: plan, engine, manifest. The only orchestrator."""

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wmo_distill.credentials import CUT
from wmo_distill.engines.local import Local
from wmo_distill.engines.outcome import Engines
from wmo_distill.errors import ReadFault
from wmo_distill.files import path_text
from wmo_distill.options import BuildOptions
from wmo_distill.outputs.parts import Parts, check_out, writing
from wmo_distill.pipeline.account import Account
from wmo_distill.pipeline.batch import Reader, Work
from wmo_distill.pipeline.cells import load_cells
from wmo_distill.pipeline.commit import Origin, commit
from wmo_distill.pipeline.comparison import roster_of
from wmo_distill.pipeline.dataset import Dataset, open_dataset, parent_of
from wmo_distill.pipeline.reading import Limits, Reading
from wmo_distill.pipeline.roster import Roster
from wmo_distill.pipeline.summary import UNUSED_NAMED, Summary
from wmo_distill.progress import Listener
from wmo_distill.scanner import checked_tokenizer
from wmo_distill.shards.ledger import ENDED, Reason
from wmo_distill.shards.manifest import DATASET, LedgerTotals, Manifest, PartInfo
from wmo_distill.sources.finding import Found, discover
from wmo_distill.sources.harbor.state import unused_sinks
from wmo_distill.sources.places import AnyPaths, checked_sinks, places_of
from wmo_distill.trial import read_found

__all__ = ["Summary", "build"]

_LIMITS = Limits()


def build(
    paths: AnyPaths,
    out: str | os.PathLike[str],
    options: BuildOptions | None = None,
    *,
    engines: Engines | None = None,
    progress: Listener | None = None,
    **changes: Any,
) -> Summary:
    """Make the dataset in `out`, or bring it up to date, from the trials below the PATHs.

    `changes` are fields of `BuildOptions`; `engines` says where trials are read, else this machine
    with `workers` processes. UsageError for anything found wrong before work;
    DistillError where the work cannot be done. A trial is never a reason for either.
    """
    return build_with(
        read_found, paths, out, options, engines=engines, progress=progress, **changes
    )


def build_with(
    reader: Reader,
    paths: AnyPaths,
    out: str | os.PathLike[str],
    options: BuildOptions | None = None,
    *,
    engines: Engines | None = None,
    progress: Listener | None = None,
    limits: Limits = _LIMITS,
    **changes: Any,
) -> Summary:
    """`build` with the function that reads one trial, and the sizes of parts."""
    began = time.monotonic()
    out = Path(out).absolute()
    options = BuildOptions.of(options, **changes)
    absolute = {"sinks": checked_sinks(options.sinks), "tokenizer": checked_tokenizer(options)}
    options = options.model_copy(update=absolute)
    fresh, dry_run = options.fresh, options.dry_run
    places = places_of(paths)
    check_out(out, DATASET, fresh=fresh)
    placed = None if options.cells is None else load_cells(options.cells, places)
    with nullcontext() if dry_run else writing(out, DATASET, fresh=fresh) as parts:
        dataset = open_dataset(out, options)
        before = dataset.manifest
        found = discover(places, None if before is None else parent_of(before, places))
        roster = roster_of(
            dataset.rows,
            found,
            placed,
            inputs=() if before is None else before.inputs,
            options=options,
        )
        run = _Run(dataset, found, roster, options, progress)
        reading = Reading(options, reader, engines or Local(options.workers), limits)
        summary = run.forecast() if parts is None else run.finish(parts, reading)
    return summary.model_copy(update={"seconds": round(time.monotonic() - began, 3)})


@dataclass(slots=True)
class _Run:
    """One build after its plan."""

    dataset: Dataset
    found: Found
    roster: Roster
    options: BuildOptions
    progress: Listener | None = None
    parts: list[PartInfo] = field(default_factory=list)
    read: int = 0
    slow_reads: int = 0
    errors: dict[str, str] = field(default_factory=dict)

    def forecast(self) -> Summary:
        """What a build would read and write, without what only reading can tell."""
        most = self.options.max_file_size
        due = [work for work in self.roster.due() if work.state.bytes <= most]
        self.read = len(due)
        bytes_read = sum(work.state.bytes for work in due)
        written, skipped = self.roster.forecast()
        totals = LedgerTotals(
            found=written + sum(skipped.values()),
            written=written,
            skipped=skipped,
            removed=self.roster.removed,
        )
        return self._summary(totals, (), bytes_read=bytes_read, dry_run=True)

    def finish(self, parts: Parts[Manifest], reading: Reading) -> Summary:
        """Read what is due, and put the next state of the dataset in place if it differs."""
        manifest = self.dataset.manifest
        if not self.roster.due():
            self.roster.close()
            if manifest is not None and self.roster.rows == self.dataset.rows:
                return self._summary(manifest.totals, manifest.parts, removed=0)
        account = Account(self.progress, self.roster)
        # What is read can show other ids than expected; then other trials may be due.
        while works := self.roster.due():
            self._read(reading, parts.place, works, account)
        self.roster.close()
        origin = Origin(
            parent=path_text(self.found.parent),
            inputs=self.found.paths,
            options=self.options.recorded(),
        )
        manifest = commit(parts, self.dataset, self.roster, self.parts, origin, self.slow_reads)
        return self._summary(manifest.totals, manifest.parts)

    def _read(self, reading: Reading, place: Path, works: list[Work], account: Account) -> None:
        before = [self.dataset.rows.get(work.path) for work in works]
        apart = any(row is not None and not ENDED.isdisjoint(row.reasons) for row in before)
        account.expect(works)
        for result in reading.read(place, works, apart=apart, notice=account.step):
            if result.part is not None:
                self.parts.append(result.part)
            for entry in result.entries:
                self.roster.settle(entry, None if result.part is None else result.part.file)
                self.read += entry.reason is not Reason.FILE_TOO_LARGE
                self.slow_reads += entry.slow_reads
                if entry.error:
                    self.errors[entry.path] = entry.error
            account.add(result, reading.workers)

    def _summary(self, totals: LedgerTotals, parts: Sequence[PartInfo], **more: object) -> Summary:
        rows = self.roster.rows.values()
        names = {row.trial_name for row in rows if row.trial_name is not None}
        # Harbor names a trial's directory after it: that name is never cut.
        names |= {row.path.rpartition("/")[2] for row in rows if CUT in (row.trial_name or "")}
        unused = self._unused_sinks(names)
        states = [row.state for row in rows]
        states += [pending.work.state for pending in self.roster.pending.values()]
        read = [
            row.state
            for row in map(self.roster.rows.__getitem__, self.roster.calls_found)
            if Reason.FILE_TOO_LARGE not in row.reasons
        ]
        account: dict[str, object] = {
            "parts": len(parts),
            "bytes_in": sum(state.bytes for state in states),
            "bytes_out": sum(part.bytes for part in parts),
            "read": self.read,
            "bytes_read": sum(state.bytes for state in read),
            "kept_removed": len(self.roster.gone),
            "slow_reads": self.slow_reads,
            "unused_sinks": len(unused),
            "unused_sink_files": unused[:UNUSED_NAMED],
            "unread": len(self.found.unlisted) + len(self.roster.faults),
            "unlisted": list(self.found.unlisted),
            "errors": {**self.found.unlisted, **self.roster.faults, **self.errors},
        }
        return Summary.model_validate({**totals.model_dump(), **account, **more})

    def _unused_sinks(self, names: set[str]) -> list[str]:
        sinks = self.options.sinks
        try:
            return [] if sinks is None else list(unused_sinks(sinks, names))
        except ReadFault as fault:  # the dataset is in place, and does not need these names
            self.errors[path_text(str(sinks))] = str(fault)
            return []
