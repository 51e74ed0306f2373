"""Rollouts of NeMo Gym: captures and rows of rollouts files, each rollout one trial."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles, path_text
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import Folder, FoundTrial, Here
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.growth import NO_MARK, mark_of, state_of
from wmo_distill.sources.nemo_gym.episode import Place, read_episode
from wmo_distill.sources.nemo_gym.index import RowPlace
from wmo_distill.sources.nemo_gym.joining import CAPTURE_FILES, Directory, Runs

_FAILURES = re.compile(r"_failures$")
Doubtful = tuple[FoundTrial, tuple[str, ...]]
"""A trial, and what could not be read that may be of it."""


@dataclass(slots=True)
class NemoGym:
    """`*.tokens.*` and rollouts files; what belongs together is one trial."""

    _runs: Runs = field(default_factory=Runs)

    @property
    def kind(self) -> str:
        return "nemo_gym"

    def find(self, folder: Folder) -> Here:
        place = self._runs.visit(folder)
        if not place.holds_any:
            return Here(faults=place.faults)
        sure, faults = [], dict.fromkeys(place.faults)
        for trial, doubts in [*self._rows(place), *self._captures(place)]:
            # What cannot be read may be its row or its capture, or another's that is nearer.
            faults |= dict.fromkeys(doubts)
            sure += [] if doubts else [trial]
        return Here(tuple(sure), faults=tuple(faults))

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        place = found.locator
        assert isinstance(place, Place)
        files = TrialFiles(place.base)
        captured = (f"{place.capture}{suffix}" for suffix in CAPTURE_FILES if place.capture)
        capture = files.state_of(captured)
        if place.row is None or (whole := files.state_of((place.row,))) == NO_STATE:
            return capture
        mark = place.mark
        if whole != place.whole:
            data = files.read(place.row, place.size, place.start)
            mark = mark_of(b"" if isinstance(data, Absent) else data)
        return state_of([mark, ("", capture.bytes)], capture)

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        assert isinstance(found.locator, Place)
        return [read_episode(found, found.locator, extra=options.extra)]

    def _rows(self, place: Directory) -> Iterator[Doubtful]:
        """A trial for each line of the rollouts files, with the capture that belongs to it."""
        seen: set[str] = set()
        for row in place.rows:
            rollout = row.rollout
            capture = None
            if rollout is not None and place.by_rollout.get(rollout) is row:
                capture = self._runs.capture(place, rollout)
            name = rollout or f"@{row.number}"
            path = f"{place.relative}/{path_text(row.file)}#{name}"
            # Gym's ids hold no "@".
            path = f"{path}@{row.number}" if path in seen else path
            seen.add(path)
            doubts = self._runs.row_doubts(place, rollout)
            yield self._found(place, path, name, row, capture), doubts

    def _captures(self, place: Directory) -> Iterator[Doubtful]:
        """A trial for each capture that belongs to no row, or may belong to none."""
        for rollout in sorted(place.captures):
            doubts = self._runs.capture_doubts(place, rollout)
            owner = self._runs.owner(place, rollout)
            if doubts or owner is None or self._runs.capture(owner, rollout) is not place:
                path = f"{place.relative}#{rollout}"
                yield self._found(place, path, rollout, None, place), doubts

    def _found(
        self,
        place: Directory,
        path: str,
        rollout: str,
        row: RowPlace | None,
        capture: Directory | None,
    ) -> FoundTrial:
        base = Path(os.path.commonpath([place.path, (capture or place).path]))
        run = place if row else self._runs.run(place)
        scope = run.relative
        if row is not None:
            scope = f"{scope}/{path_text(_FAILURES.sub('', Path(row.file).stem))}"
        # The same before and after the row is there.
        trial_id = path if capture is None else f"{capture.relative}#{rollout}"
        return FoundTrial(
            source=self.kind,
            root=place.path if row is None else place.path / row.file,
            path=path,
            trial_id=trial_id,
            trial_name=rollout,
            locator=Place(
                base=base,
                rollout=rollout,
                trial_id=trial_id,
                scope=scope,
                job=path_text(run.path.name) or None,
                row=None if row is None else _below(base, place.path / row.file),
                start=0 if row is None else row.start,
                size=0 if row is None else row.size,
                mark=NO_MARK if row is None else row.mark,
                whole=NO_STATE if row is None else row.whole,
                capture=None if capture is None else _below(base, capture.path / rollout),
            ),
        )


def _below(base: Path, path: Path) -> str:
    return path.relative_to(base).as_posix()
