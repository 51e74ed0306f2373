"""Recorded values of any type to what a column can hold; a wrong one is null and an issue."""

import hashlib
import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, TypeGuard

from wmo_distill.credentials import without_credentials
from wmo_distill.files import plain_text
from wmo_distill.issues import Issue

INT32 = 2**31
INT64 = 2**63
_GROUP = re.compile("[0-9a-f]{16}")
_EPOCH = (10**9, 10**11)
"""Seconds from 2001 to 5138."""


def at(value: Any, *keys: str) -> Any:
    """The value at a path of keys, None where the path ends early."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def object_in(value: Any) -> dict[str, Any]:
    """An object as it is, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


@dataclass(slots=True)
class Values:
    """Takes values and remembers how many were damaged, and whether a time had no zone."""

    issues: list[Issue] = field(default_factory=list)
    naive: bool = False
    """Whether a time without a zone was taken as UTC."""

    def text(self, value: Any) -> str | None:
        if isinstance(value, str):
            return plain_text(value)
        self._note_damage(value)
        return None

    def without_credentials(self, text: str | None) -> str | None:
        cut = None if text is None else without_credentials(text)
        self.issues += [Issue.CREDENTIAL_CUT] * (cut != text)
        return cut

    def integer(self, value: Any, limit: int = INT32) -> int | None:
        if type(value) is int and -limit <= value < limit:
            return value
        self._note_damage(value)
        return None

    def number(self, value: Any) -> float | None:
        """A finite number as a float."""
        if is_number(value):
            with suppress(OverflowError):
                number = float(value)
                if math.isfinite(number):
                    return number
        self._note_damage(value)
        return None

    def time(self, value: Any) -> datetime | None:
        """A time in UTC; one without a zone is taken as UTC."""
        time = recorded_time(value)
        if time is not None:
            self.naive |= time.tzinfo is None
            with suppress(OverflowError):
                return time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
        self._note_damage(value)
        return None

    def seconds(self, phase: Any) -> float | None:
        """The length of a recorded phase, None unless both ends are known and in order.

        It is known of two times with a zone, and of two without one, which are of one clock.
        """
        if not isinstance(phase, dict):
            self._note_damage(phase)
            return None
        ends = phase.get("started_at"), phase.get("finished_at")
        start, end = map(self.time, ends)
        if start is None or end is None:
            return None
        if (zoned_time(ends[0]) is None) != (zoned_time(ends[1]) is None):
            return None
        seconds = (end - start).total_seconds()
        if seconds >= 0:
            return seconds
        self._note_damage(seconds)
        return None

    def _note_damage(self, value: Any) -> None:
        if value is not None:
            self.issues.append(Issue.VALUE_DAMAGED)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a JSON number; true and "1" are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def zoned_time(value: Any) -> datetime | None:
    """An ISO 8601 time that names its zone; None for any other value."""
    time = recorded_time(value)
    return None if time is None or time.tzinfo is None else time


def recorded_time(value: Any) -> datetime | None:
    """An ISO 8601 date and time of day, with or without a zone; None for any other value."""
    if not isinstance(value, str):
        return None
    with suppress(ValueError):
        date.fromisoformat(value)
        return None  # a date alone, which `datetime` would read as its midnight
    with suppress(ValueError):
        return datetime.fromisoformat(value)
    return None


def moment(value: Any) -> datetime | None:
    """An ISO 8601 time, or seconds, milli-, micro- or nanoseconds since 1970."""
    if not is_number(value):
        return recorded_time(value)
    for scale in (1, 1000, 1_000_000, 1_000_000_000):
        if _EPOCH[0] * scale <= value < _EPOCH[1] * scale:
            return datetime.fromtimestamp(value / scale, UTC)
    return None


def group_id(parts: list[Any]) -> str:
    """The first 16 hex digits of SHA-256 over the JSON text of what names a group."""
    try:
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    except RecursionError:  # arguments nested too deeply to be written name no group
        text = json.dumps(parts[:-1], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def group_of(kind: str, named: str, path: str) -> str:
    """A source's name of a group as an id; an id stays, a trial without one is its own group."""
    return named if _GROUP.fullmatch(named) else group_id([kind, named or path])
