"""tinker-cookbook's `capture/`: every call of the sampling client, as JSON lines or in a store."""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from wmo_distill.errors import ReadFault
from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import NOTHING, Folder, FoundTrial, Here, in_each
from wmo_distill.sources.captured import damaged_store, episode_in
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.growth import NO_MARK, Mark, Own, mark_of
from wmo_distill.sources.sqlite import (
    Unreadable,
    database_state,
    from_database,
    has_tables,
    may_hold,
)
from wmo_distill.sources.tinker.capture import (
    TABLES,
    Capture,
    from_capture,
    own_record,
    reader,
)
from wmo_distill.sources.tinker.finding import rollouts_in
from wmo_distill.sources.tinker.places import Place, Rollout, rollout_state
from wmo_distill.sources.tinker.reading import evidence_of
from wmo_distill.sources.tinker.rewards import marked_now, read_summary, summaries_in

_FOLDER = "capture"
_LINES = "sample.jsonl"
_START = 1 << 16
_MARKS = (re.compile(rb'"kind"\s*:\s*"sample"'), re.compile(rb'"scope"\s*:\s*\{'))


class TinkerCapture:
    """The source `tinker_capture`; a capture is found from its run's directory, else from its own.

    The rewards are in the run's directory, and nothing outside of the PATHs is opened.
    """

    kind = "tinker_capture"

    def __init__(self) -> None:
        self._seen: set[Path] = set()

    def find(self, folder: Folder) -> Here:
        """The rollouts of the captures in a directory, and in its `capture/`."""
        if folder.path in self._seen:
            return NOTHING
        files = TrialFiles(folder.path)
        names = sorted(folder.files)
        if _FOLDER in folder.folders:
            self._seen.add(folder.path / _FOLDER)
            try:
                names += [f"{_FOLDER}/{name}" for name in files.names(_FOLDER)]
            except ReadFault as fault:
                return Here(faults=(str(fault),))
        found, faults = in_each(names, partial(self._in_file, folder, files))
        return Here(tuple(found), faults=faults)

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        """That of the rollout's own records, by their sizes, and of its summary."""
        rollout = found.locator
        if not isinstance(rollout, Rollout):
            return database_state(TrialFiles(found.root.parent), found.root.name)
        look = partial(_state, found, rollout, lambda one: one.size_mark)
        return rollout.own.now(_file_states(found, rollout), look)

    def exact_state(self, found: FoundTrial, known: FilesState | None) -> FilesState:
        """By the texts of the records that are there now."""
        rollout = found.locator
        if not isinstance(rollout, Rollout):
            return database_state(TrialFiles(found.root.parent), found.root.name)
        if known is not None and _file_states(found, rollout) == rollout.own.files:
            return known
        return _state(found, rollout, lambda one: lambda place: mark_of(*one.raw(place)))

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        """One episode; none of a store that is damaged as a whole."""
        rollout = found.locator
        if not isinstance(rollout, Rollout):
            return []
        files = _files(found, rollout)
        summary = {} if rollout.summary is None else read_summary(files, rollout.summary)

        def read(capture: Capture) -> Evidence:
            parse = reader().read
            raws = ((place, capture.raw(place)) for place in rollout.places)
            records = (
                (mark_of(*raw), own_record(capture.record(place, raw, parse), rollout))
                for place, raw in raws
            )
            return evidence_of(found, rollout, records, summary, extra=options.extra)

        try:
            return [from_capture(files, rollout.file, read, is_store=rollout.is_store)]
        except Unreadable:
            gone = [(NO_MARK, None)] * len(rollout.places)
            return [evidence_of(found, rollout, gone, summary, extra=options.extra)]

    def _in_file(self, folder: Folder, files: TrialFiles, name: str) -> list[FoundTrial]:
        try:
            return self._trials(folder, files, name) if self._is_capture(files, name) else []
        except Unreadable:  # of lines: a file that is gone
            is_store = not name.endswith(_LINES)
            return [damaged_store(self.kind, folder, name)] if is_store else []

    def _is_capture(self, files: TrialFiles, name: str) -> bool:
        if name.rpartition("/")[2] != _LINES:
            return may_hold(files, name, "wire_rows") and from_database(
                files, name, lambda connection: has_tables(connection, TABLES)
            )
        start = files.read(name, _START)
        return not isinstance(start, Absent) and all(mark.search(start) for mark in _MARKS)

    def _trials(self, folder: Folder, files: TrialFiles, name: str) -> list[FoundTrial]:
        up = name.count("/") + 1 + (folder.path.name == _FOLDER and "/" not in name)
        within = up > name.count("/") + 1
        is_store = not name.endswith(_LINES)
        whole = database_state(files, name)
        summaries = {} if within else summaries_in(files)

        def read(capture: Capture) -> dict[str, Rollout]:
            blank = Rollout(name, up, is_store=is_store)
            mark = cache(capture.size_mark)  # a record may be of several rollouts
            return {
                rollout_name: replace(one, own=_own(whole, one, map(mark, one.places)))
                for rollout_name, one in rollouts_in(capture, blank, summaries).items()
            }

        rollouts = from_capture(files, name, read, is_store=is_store)
        return [
            episode_in(self.kind, folder, name, label, rollout)
            for label, rollout in rollouts.items()
        ]


def _own(whole: FilesState, rollout: Rollout, marks: Iterable[Mark]) -> Own:
    files = (whole, *([rollout.summary.whole] if rollout.summary else []))
    return Own(rollout_state(rollout, marks), files)


def _file_states(found: FoundTrial, rollout: Rollout) -> tuple[FilesState, ...]:
    """Of the whole files that a rollout's records and its summary are in."""
    files, summary = _files(found, rollout), rollout.summary
    graded = (files.state_of((summary.file,)),) if summary else ()
    return database_state(files, rollout.file), *graded


def _state(
    found: FoundTrial, rollout: Rollout, marks: Callable[[Capture], Callable[[Place], Mark]]
) -> FilesState:
    """By the marks of the records that are there now."""
    files, summary = _files(found, rollout), rollout.summary
    graded = replace(rollout, summary=summary and marked_now(files, summary))

    def look(capture: Capture) -> FilesState:
        return rollout_state(graded, map(marks(capture), rollout.places))

    with suppress(Unreadable):
        return from_capture(files, rollout.file, look, is_store=rollout.is_store)
    return NO_STATE


def _files(found: FoundTrial, rollout: Rollout) -> TrialFiles:
    """The directory that `rollout.file` is below."""
    return TrialFiles(found.root.parents[rollout.file.count("/")])
