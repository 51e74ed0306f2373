"""How far a run is, in a few short phrases for a terminal or a log."""

from collections.abc import Mapping
from dataclasses import dataclass

from wmo_distill.progress import Progress
from wmo_distill.report.tables import ranked, size, words
from wmo_distill.visible import visible

_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of memory in use: of this process, and of its workers together."""

    process: int = 0
    workers: int = 0
    count: int = 0
    """Workers that are alive."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a run is since its first event, in units and bytes a second."""

    units: float
    bytes: float
    left: float | None
    """Seconds until the end at this pace, None where there is none yet."""

    @classmethod
    def of(cls, first: Progress, now: Progress, seconds: float) -> "Pace":
        """From two events of one run, and the time between them."""
        done, read = now.done - first.done, now.bytes_done - first.bytes_done
        if not done or seconds <= 0:
            return cls(0.0, 0.0, None)
        # Trials differ in size: where bytes are known, they tell better how much is left.
        todo, pace = (now.bytes_total - now.bytes_done, read) if read else (0, 0)
        if not now.bytes_total or not pace:
            todo, pace = now.total - now.done, done
        return cls(done / seconds, read / seconds, max(todo, 0) * seconds / pace)


def phrases(event: Progress, pace: Pace, memory: Memory, seconds: float) -> list[str]:
    """Such as `120 of 400 trials, 0:12, 0:28 left`, `written 110, unchanged 10`, …"""
    left = "" if pace.left is None else f"{clock(pace.left)} left"
    read = f"{size(event.bytes_done)} of {size(event.bytes_total)}" if event.bytes_total else ""
    lines = [
        words(f"{event.done:,} of {event.total:,} {event.unit}", clock(seconds), left),
        words(read, f"{size(pace.bytes)}/s" if read else "", f"{pace.units:,.1f} {event.unit}/s"),
        top(event.outcomes),
        f"issues: {top(event.issues)}" if event.issues else "",
    ]
    workers = f"{memory.count} workers {size(memory.workers)}" if memory.count else ""
    used = f"memory {size(memory.process)}" if memory.process else ""
    lines.append(words(used, workers, f"{event.parts:,} parts" if event.parts else ""))
    return [line for line in lines if line]


def fitting(line: str, width: int) -> str:
    """The phrases of a line that fit: a number that is cut would be another."""
    while len(line) > width and ", " in line:
        line, _, _ = line.rpartition(", ")
    return line[:width]


def top(numbers: Mapping[str, int]) -> str:
    """The largest numbers with their names, and how many more names there are."""
    some = [(name, n) for name, n in ranked(dict(numbers)) if n]
    named = ", ".join(f"{visible(name)} {n:,}" for name, n in some[:_MOST_NAMED])
    return named + (f", {len(some) - _MOST_NAMED} more" if len(some) > _MOST_NAMED else "")


def clock(seconds: float) -> str:
    """Such as `0:07`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
