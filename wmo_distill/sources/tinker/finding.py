"""The rollouts of a capture: which records each has, in order of time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wmo_distill.sources.captured import Roots, name_in_path
from wmo_distill.sources.tinker.capture import Capture
from wmo_distill.sources.tinker.places import (
    NONE,
    Head,
    Line,
    Place,
    Rollout,
    Summary,
    are_of_a_rollout,
    graded_key,
    rollout_name,
)
from wmo_distill.tokenjson.rows import id_row


@dataclass(slots=True)
class _Records:
    """Places with their heads; `in_time` is the order of calls, records are in that of answers."""

    found: list[tuple[Place, Head]] = field(default_factory=list)

    def in_time(self) -> list[tuple[Place, Head]]:
        return sorted(self.found, key=lambda one: math.inf if one[1].at is None else one[1].at)


def rollouts_in(
    capture: Capture, blank: Rollout, summaries: Mapping[tuple[str, ...], Summary]
) -> dict[str, Rollout]:
    """The rollouts by name; `blank` says which file they are in."""
    attributed: dict[tuple[object, ...], _Records] = {}
    loose: dict[tuple[object, ...], _Records] = {}
    unreadable = 0
    for place, head in capture.heads():
        if head is None:
            unreadable += 1
            continue
        coordinates = head.coordinates
        by = attributed if are_of_a_rollout(coordinates) else loose
        by.setdefault(coordinates, _Records()).found.append((place, head))
    graded = _graded(attributed, summaries)
    found: dict[str, Rollout] = {}
    for coordinates, records in attributed.items():
        ordered = records.in_time()
        rollout = replace(
            blank,
            coordinates=coordinates,
            places=tuple(place for place, _ in ordered),
            summary=graded.get(coordinates),
        )
        for sample in _samples(coordinates, ordered):
            found[rollout_name(coordinates, sample)] = replace(rollout, sample=sample)
    for coordinates, records in loose.items():
        for name, places in _chats(capture, records).items():
            start = "unattributed" if coordinates == NONE else rollout_name(coordinates)
            rollout = replace(blank, coordinates=coordinates, places=places, alone=True)
            found[f"{start}~{name}"] = rollout
    if unreadable:
        found["unreadable"] = replace(blank, alone=True, unreadable=unreadable)
    return found


def _samples(
    coordinates: tuple[object, ...], records: list[tuple[Place, Head]]
) -> list[int] | list[None]:
    """The alternatives that are rollouts of their own: a group of answers to one prompt each."""
    numbers = [head.n for _, head in records]
    if coordinates[4] is None or coordinates[5] is not None or min(numbers) < 2:
        return [None]
    return list(range(max(numbers)))


def _graded(
    attributed: Mapping[tuple[object, ...], _Records],
    summaries: Mapping[tuple[str, ...], Summary],
) -> dict[tuple[object, ...], Summary]:
    """The summary of each rollout; of several attempts at one the last wrote it."""
    last: dict[tuple[str, ...], tuple[float, tuple[object, ...]]] = {}
    for coordinates, records in attributed.items():
        key = graded_key(records.found[0][1].scope)
        at = max((head.at or 0.0 for _, head in records.found), default=0.0)
        if key in summaries and (key not in last or last[key][0] < at):
            last[key] = at, coordinates
    return {coordinates: summaries[key] for key, (_, coordinates) in last.items()}


def _chats(capture: Capture, records: _Records) -> dict[str, tuple[Place, ...]]:
    """Calls without coordinates by the first call that they go back to, which names them."""
    roots = Roots()
    chats: dict[int, list[Place]] = {}
    names: dict[int, str] = {}
    of_key: dict[str, int] = {}
    for number, (place, head) in enumerate(records.in_time()):
        record = capture.record(place, capture.raw(place)) or {}
        prompt = id_row(record.get("prompt_tokens")).delta
        samples = record.get("samples")
        answers = [
            id_row(sample.get("tokens")).delta
            for sample in (samples if isinstance(samples, list) else [])
            if isinstance(sample, dict)
        ]
        root = roots.add(of_key.get(head.key or "", number), prompt, answers)
        if head.key is not None:
            of_key.setdefault(head.key, root)
        chats.setdefault(root, []).append(place)
        own = place.start if isinstance(place, Line) else place
        names.setdefault(root, name_in_path(own if head.key is None else head.key))
    return {names[root]: tuple(places) for root, places in chats.items()}
