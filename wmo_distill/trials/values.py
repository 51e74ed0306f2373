"""Recorded values of any type to what a column can hold; a wrong one is null and an issue."""

import math
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.trials.ending import recorded_time, zoned_time

INT32 = 2**31
INT64 = 2**63


def at(value: Any, *keys: str) -> Any:
    """The value at a path of keys, None where the path ends early."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


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

    def integer(self, value: Any, limit: int = INT32) -> int | None:
        if type(value) is int and -limit <= value < limit:
            return value
        self._note_damage(value)
        return None

    def number(self, value: Any) -> float | None:
        """A finite number as a float."""
        if isinstance(value, int | float) and not isinstance(value, bool):
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
