"""Where the calls of one rollout are in a capture: the locators, and the names of rollouts."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wmo_distill.files import NO_STATE, FilesState, parse_json
from wmo_distill.sources.captured import name_in_path
from wmo_distill.sources.growth import NO_MARK, NO_RECORDS, Mark, Own, state_of

COORDINATES = (
    "run_id",
    "run_attempt",
    "split",
    "iteration",
    "group_idx",
    "traj_idx",
    "purpose",
)
NONE: tuple[object, ...] = (None,) * len(COORDINATES)
_GRADED = ("split", "iteration", "group_idx", "traj_idx")
_LISTS = (b', "prompt_tokens": [', b', "tags": [')


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, in bytes."""

    start: int
    size: int


Place = Line | int
"""A line, or a cursor of a store's `wire_rows`; of its `annotations` with the sign changed."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The line that a rollout's reward is in, of a file below the run's directory."""

    file: str
    line: Line
    mark: Mark = NO_MARK
    whole: FilesState = NO_STATE
    """Of the file, from before it was looked into."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The locator of one rollout: its calls in order of time."""

    file: str
    """Below the run's directory, as the summaries are."""
    up: int
    """How many levels the run's directory is above the file."""
    coordinates: tuple[object, ...] = NONE
    places: tuple[Place, ...] = ()
    is_store: bool = False
    """Whether the file is a store, and not JSON lines."""
    sample: int | None = None
    """The one alternative of each prompt that is this rollout's."""
    alone: bool = False
    """Whether no coordinates say which rollout it is."""
    unreadable: int = 0
    """Records that are damaged, and cannot be attributed to another rollout."""
    summary: Summary | None = None
    own: Own = NO_RECORDS


@dataclass(frozen=True, slots=True)
class Head:
    """What the start of a record says, before the first list of tokens."""

    scope: Mapping[str, Any]
    at: float | None
    n: int
    """Sequences asked for."""
    key: str | None

    @property
    def coordinates(self) -> tuple[object, ...]:
        return coordinates_of(self.scope)


def rollout_state(rollout: Rollout, marks: Iterable[Mark]) -> FilesState:
    """By its records and its summary."""
    summary = () if rollout.summary is None else (rollout.summary.mark,)
    named = rollout.coordinates, rollout.sample, rollout.alone, rollout.unreadable
    return state_of((*marks, *summary), len(summary), *named)


def coordinates_of(scope: Mapping[str, Any]) -> tuple[object, ...]:
    """Those of a scope, as text where they are no null; `1` and `"1"` are one."""
    return tuple(_text(scope.get(name)) for name in COORDINATES)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value) if isinstance(value, str | int | float) else type(value).__name__


def are_of_a_rollout(coordinates: tuple[object, ...]) -> bool:
    """Whether coordinates name a rollout, and not only the run or the step that it is of."""
    return coordinates[4] is not None or coordinates[5] is not None


def rollout_name(coordinates: tuple[object, ...], sample: int | None = None) -> str:
    """A rollout's name in its file."""
    *parts, purpose = coordinates
    return name_in_path(*parts, *(() if purpose is None and sample is None else (purpose,))) + (
        "" if sample is None else f"~{sample}"
    )


def graded_key(values: Mapping[str, Any]) -> tuple[str, ...]:
    """What a capture and a rollout summary have in common."""
    return tuple(str(_text(values.get(name))) for name in _GRADED)


def parsed_head(record: bytes) -> Mapping[str, Any] | None:
    """A record without its lists where those come last, else whole; None if it is no object."""
    end = len(record)
    for mark in _LISTS:
        found = record.find(mark, 0, end)
        end = found if found > 0 else end
    if end < len(record):
        try:
            value = json.loads(record[:end] + b"}")
            if isinstance(value, dict):
                return value
        except (ValueError, RecursionError):
            pass
    value = parse_json(record)
    return value if isinstance(value, dict) else None


def head_of(value: Mapping[str, Any] | None) -> Head | None:
    """What a record of a call says of itself, None if that is damaged."""
    if value is None or not isinstance(value.get("scope"), dict):
        return None
    n = value.get("num_samples")
    return Head(
        value["scope"],
        seconds_of(value.get("created_at")),
        n if type(n) is int else 1,
        key_of(value),
    )


def seconds_of(value: Any) -> float | None:
    """A finite number of seconds."""
    return float(value) if type(value) in (int, float) and abs(value) < 1e15 else None


def key_of(record: Mapping[str, Any]) -> str | None:
    """What the SDK calls one request by; None if it is not recorded."""
    session, number = record.get("sampling_session_id"), record.get("seq_id")
    if type(number) is not int:
        return None
    return f"{session if isinstance(session, str) else ''}:{number}"
