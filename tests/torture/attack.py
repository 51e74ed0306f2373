"""What an attack is: a module of this folder with a function `attack`, which the runner calls.

    def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
        for n in range(times(200, effort)):
            fault = ...  # None where the promise was kept
            yield Try("read faults, build", fault)

`effort` 1.0 is a share of an hour over all attacks; the tries of a smaller effort are among those
of a larger one, and the same effort makes the same tries. `place` is an empty directory of the
attack's own, on a disk. An attack never raises for what it finds: that is a `Try` with a fault.
"""

from typing import NamedTuple


class Try(NamedTuple):
    """One try, done."""

    kind: str
    """The row of the table that it is counted in, such as `kill, build`."""
    fault: str | None = None
    """Which promise was broken and how to see it again; None where none was."""


class LeftOut(NamedTuple):
    """What could not be tried on this machine."""

    kind: str
    why: str


def times(most: int, effort: float) -> int:
    """How often to try: at least once, `most` times with an effort of 1.0."""
    return max(1, round(most * effort))
