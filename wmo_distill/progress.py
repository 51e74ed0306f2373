"""How far a long run is: the one event that it emits, for whoever listens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A moment of a run. Its mappings grow with the run: copy what is kept."""

    done: int
    total: int
    unit: str
    """What `done` and `total` count, such as `trials`."""
    bytes_done: int = 0
    bytes_total: int = 0
    """Of the input; 0 where it is not known."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """What became of the units, such as `written`, `unchanged`, or why one was skipped."""
    issues: Mapping[str, int] = field(default_factory=dict)
    """The units in which each issue code occurred."""
    parts: int = 0
    """Files that are complete; they count once they are committed."""
    workers: int = 0
    """Processes that work next to this one."""


Listener = Callable[[Progress], None]
"""Called in order, maybe from another thread; it should return at once."""
