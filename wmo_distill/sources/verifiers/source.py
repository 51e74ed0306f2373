"""Runs of `verifiers`: a trial is a trace, found in a line of a file of the run."""

import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles
from wmo_distill.limits import LARGE, give_back_memory
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import NOTHING, Folder, FoundTrial, Here, in_each
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.growth import pieces
from wmo_distill.sources.verifiers import document
from wmo_distill.sources.verifiers.document import value_around, value_at
from wmo_distill.sources.verifiers.lines import (
    Line,
    Place,
    is_there,
    lines_of,
)
from wmo_distill.sources.verifiers.outline import Kind, Outline, outline_of
from wmo_distill.sources.verifiers.rows import row_evidence
from wmo_distill.sources.verifiers.run import RunConfig, config_of
from wmo_distill.sources.verifiers.trace import episode_evidence, trace_evidence, unread_evidence

_TRACES = "traces.jsonl"
_FILES = ("results.jsonl", _TRACES)
_STRANGE = 16
"""Lines that are none of ours at the start of a file, after which it is not looked through."""


class Verifiers:
    """`traces.jsonl` (or `results.jsonl`): a line is an episode, a bare trace, or an older row."""

    kind = "verifiers"

    def find(self, folder: Folder) -> Here:
        names = [name for name in _FILES if name in folder.files]
        trials, faults = in_each(names, partial(self._in_file, folder))
        if not (trials or faults):
            return NOTHING
        whole = bool(trials) and "rollouts" not in folder.folders
        return Here(tuple(trials), whole, faults)

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        place = found.locator
        assert isinstance(place, Place)
        if TrialFiles(found.root.parent).state_of((found.root.name,)) == place.file:
            return place.state
        with _opened(found) as file:
            there = file is not None and is_there(file, place)
        return place.state if there else NO_STATE

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        place = found.locator
        assert isinstance(place, Place)
        evidence = self._evidence(found, place, options)
        if place.length > LARGE:
            give_back_memory()
        return evidence

    def _evidence(
        self, found: FoundTrial, place: Place, options: BuildOptions
    ) -> Sequence[Evidence]:
        with _opened(found) as file:
            read = None if file is None else _values(file, place)
        if read is None:
            return [unread_evidence(found)]
        value, trace = read
        if not isinstance(value, dict):
            return []
        run = place.run
        if trace is not None:
            is_one = isinstance(trace, dict)
            return [trace_evidence(found, trace, value, run, options)] if is_one else []
        if isinstance(value.get("traces"), list):
            return [episode_evidence(found, value, run)]
        if isinstance(value.get("nodes"), list):
            return [trace_evidence(found, value, value, run, options)]
        return [row_evidence(found, value, run, options)] if "example_id" in value else []

    def _in_file(self, folder: Folder, name: str) -> list[FoundTrial]:
        path = folder.path / name
        state = TrialFiles(folder.path).state_of((name,))
        run = config_of(path)
        seen: Counter[str] = Counter()
        found: list[FoundTrial] = []
        ours = torn = foreign = False
        number = 0
        for line in lines_of(path):
            outline = outline_of(line)
            for _ in line:  # to its end, for its digest
                pass
            if line.blank:
                continue
            ours |= outline.kind is not None
            torn |= outline.is_torn
            foreign |= outline.is_foreign
            if not ours and number >= _STRANGE:
                return []
            number += 1
            for trial_id, place in _places(line, outline, state, run):
                label = trial_id or f"line-{line.digest}"
                seen[label] += 1
                again = f"#{seen[label]}" if seen[label] > 1 else ""
                found.append(
                    FoundTrial(
                        source=self.kind,
                        root=path,
                        path=f"{folder.below(name)}#{label}{again}",
                        trial_id=trial_id,
                        trial_name=label,
                        locator=place,
                        is_sure=True,
                    )
                )
        # Of a run that was killed in its first line nothing but a torn line may be left.
        return found if ours or (torn and not foreign and name == _TRACES) else []


def _places(
    line: Line, outline: Outline, state: FilesState, run: RunConfig
) -> Iterator[tuple[str | None, Place]]:
    """(the id, the place) of each trial in a line; one without an id for a line not to be read."""
    size, digest = line.length, line.digest
    at = Place(line.offset, size, digest, state, size, run=run)
    if not outline.whole or outline.kind is None:
        yield None, at
    elif outline.kind is Kind.ROW:
        yield f"v0:{digest[:32]}", at
    elif outline.kind is Kind.TRACE:
        yield outline.own_id, at
    elif not outline.cuts:
        yield outline.own_id and f"episode:{outline.own_id}", at
    else:
        others = sum(cut.stop - cut.start for cut in outline.cuts[1:])
        for k, cut in enumerate(outline.cuts):
            share = cut.stop - cut.start if k else size - others
            yield cut.own_id, replace(at, share=share, cut=cut[:2], listed=outline.listed)


def _values(file: IO[bytes], place: Place) -> tuple[Any, Any] | None:
    """(the value of a line without its traces, its own trace or None), Absent for no JSON.

    None where the line is no longer there as it was found. A short one is read once.
    """
    try:
        if place.length <= document.LONG:
            line = b"".join(pieces(file, place.offset, place.offset + place.length))
            if hashlib.sha256(line).hexdigest() != place.digest:
                return None
            file, place = io.BytesIO(line), replace(place, offset=0)
        elif not is_there(file, place):
            return None
        whole = place.offset, place.offset + place.length
        if place.cut is None:
            return value_at(file, *whole), None
        begin, end = (place.offset + at for at in place.listed)
        start, stop = (place.offset + at for at in place.cut)
        return value_around(file, whole, (begin, end)), value_at(file, start, stop)
    except MemoryError:
        return None


@contextmanager
def _opened(found: FoundTrial) -> Iterator[IO[bytes] | None]:
    file = TrialFiles(found.root.parent).open(found.root.name)
    if isinstance(file, Absent):
        yield None
        return
    with file:
        yield file
