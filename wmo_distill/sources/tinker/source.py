"""tinker-cookbook's `capture/`: every call of the sampling client, as JSON lines or in a store."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import NOTHING, Folder, FoundTrial, Here
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.sqlite import (
    Unreadable,
    database,
    database_state,
    has_tables,
    may_hold,
)
from wmo_distill.sources.tinker.capture import TABLES, opened, own_record
from wmo_distill.sources.tinker.finding import rollouts_in
from wmo_distill.sources.tinker.places import Line, Rollout
from wmo_distill.sources.tinker.reading import evidence_of
from wmo_distill.sources.tinker.rewards import read_summary, summaries_in

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
        files = TrialFiles(folder.path)
        names = sorted(folder.files)
        if _FOLDER in folder.folders:
            names += [f"{_FOLDER}/{name}" for name in files.names(_FOLDER)]
        found: list[FoundTrial] = []
        closed = False
        for name in names:
            if folder.path / name in self._seen:
                continue
            try:
                if self._is_capture(files, name):
                    self._seen.add(folder.path / name)
                    found += self._trials(folder, files, name)
            except Unreadable as fault:
                closed |= fault.closed
            except OSError:
                closed = True
        return Here(tuple(found), closed=closed) if found or closed else NOTHING

    def state(self, found: FoundTrial, sinks: Path | None, *, openable: bool = False) -> FilesState:
        """The size is that of the rollout's own records, the time that of the whole files."""
        rollout = _rollout(found)
        files = _files(found, rollout)
        states = [
            database_state(files, name, openable=openable)
            for name in (rollout.file, rollout.summary.file if rollout.summary else "")
            if name
        ]
        if not states or states[0] == NO_STATE:
            return NO_STATE
        own = sum(place.size for place in rollout.places if isinstance(place, Line))
        if rollout.of_rows:
            own = states[0].bytes * len(rollout.places) // rollout.of_rows
        if rollout.summary is not None and len(states) > 1 and states[1] != NO_STATE:
            own += rollout.summary.line.size
        return FilesState(own, max(state.mtime_ns for state in states))

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        """One episode."""
        rollout = _rollout(found)
        files = _files(found, rollout)
        summary = {} if rollout.summary is None else read_summary(files, rollout.summary)
        try:
            with opened(files, rollout.file, is_store=bool(rollout.of_rows)) as capture:
                if isinstance(capture, Absent):
                    raise Unreadable(closed=True)
                records = (own_record(capture, place, rollout) for place in rollout.places)
                return [evidence_of(found, rollout, records, summary, extra=options.extra)]
        except Unreadable:
            gone = [None] * len(rollout.places)
            return [evidence_of(found, rollout, gone, summary, extra=options.extra)]

    def _is_capture(self, files: TrialFiles, name: str) -> bool:
        if name.rpartition("/")[2] != _LINES:
            if not may_hold(files, name, "wire_rows"):
                return False
            with database(files, name) as connection:
                return has_tables(connection, TABLES)
        start = files.read(name, _START)
        if isinstance(start, Absent):
            raise Unreadable(closed=start is Absent.UNREADABLE and files.stat(name) is not None)
        return all(mark.search(start) for mark in _MARKS)

    def _trials(self, folder: Folder, files: TrialFiles, name: str) -> list[FoundTrial]:
        up = name.count("/") + 1 + (folder.path.name == _FOLDER and "/" not in name)
        within = up > name.count("/") + 1
        is_store = not name.endswith(_LINES)
        with opened(files, name, is_store=is_store) as capture:
            if isinstance(capture, Absent):
                raise Unreadable(closed=True)
            summaries = {} if within else summaries_in(files)
            rollouts = rollouts_in(capture, Rollout(name, up), summaries)
        rows = sum(len(one.places) for one in rollouts.values()) or 1
        return [
            FoundTrial(
                source=self.kind,
                root=folder.path / name,
                path=(path := f"{folder.below(name)}#{rollout_name}"),
                trial_id=path,
                trial_name=rollout_name,
                locator=replace(rollout, of_rows=rows) if is_store else rollout,
            )
            for rollout_name, rollout in rollouts.items()
        ]


def _rollout(found: FoundTrial) -> Rollout:
    assert isinstance(found.locator, Rollout)
    return found.locator


def _files(found: FoundTrial, rollout: Rollout) -> TrialFiles:
    """The directory that `rollout.file` is below."""
    return TrialFiles(found.root.parents[rollout.file.count("/")])
