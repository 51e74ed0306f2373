"""Runs of `verifiers`: a trial is a trace, found in a line of a file of the run."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from wmo_distill.files import NO_STATE, Absent, FilesState, parse_json
from wmo_distill.limits import TEXT_BYTES, refuse_beyond, refuse_large_value
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import NOTHING, Folder, FoundTrial, Here, in_each
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.verifiers.lines import Line, Place, file_state, line_at, lines_of
from wmo_distill.sources.verifiers.outline import Kind, Outline, outline_of
from wmo_distill.sources.verifiers.rows import row_evidence
from wmo_distill.sources.verifiers.trace import episode_evidence, trace_evidence, unread_evidence

_FILES = ("results.jsonl", "traces.jsonl")
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
        now = file_state(found.root)
        if now == place.file:
            return place.state
        return NO_STATE if line_at(found.root, place) is None else place.state

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        place = found.locator
        assert isinstance(place, Place)
        refuse_beyond(place.length, TEXT_BYTES, "bytes of one line")
        line = line_at(found.root, place)
        if line is None:
            return [unread_evidence(found)]
        if place.cut is None:
            value = _loads(line)
        else:
            (start, stop), (begin, end) = place.cut, place.listed
            value = _loads(line[:begin] + b"[]" + line[end:])
            trace = _loads(line[start:stop])
            if isinstance(value, dict) and isinstance(trace, dict):
                return [trace_evidence(found, trace, value, options)]
            return []
        if not isinstance(value, dict):
            return []
        if isinstance(value.get("traces"), list):
            return [episode_evidence(found, value)]
        if isinstance(value.get("nodes"), list):
            return [trace_evidence(found, value, value, options)]
        return [row_evidence(found, value, options)] if "example_id" in value else []

    def _in_file(self, folder: Folder, name: str) -> list[FoundTrial]:
        path = folder.path / name
        state = file_state(path)
        seen: Counter[str] = Counter()
        found: list[FoundTrial] = []
        ours = False
        for number, line in enumerate(lines_of(path)):
            outline = outline_of(line.data)
            ours |= outline.kind is not None
            if not ours and number >= _STRANGE:
                return []
            for trial_id, place in _places(line, outline, state):
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
        return found if ours else []


def _places(line: Line, outline: Outline, state: FilesState) -> Iterator[tuple[str | None, Place]]:
    """(the id, the place) of each trial in a line; one without an id for a line not to be read."""
    size, digest = line.size, line.digest
    at = Place(line.offset, size, digest, state, size)
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
            yield cut.trace_id, replace(at, share=share, cut=cut[:2], listed=outline.listed)


def _loads(data: bytes) -> Any | Absent:
    """A JSON value by the one definition of readable JSON; the fast parser takes most."""
    refuse_large_value(data)
    try:
        return orjson.loads(data)
    except json.JSONDecodeError:
        return parse_json(data)
