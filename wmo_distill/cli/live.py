"""A command at work: a live view on a terminal, or events on stderr; silent on a pipe."""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wmo_distill.cli.run import RUN

if TYPE_CHECKING:
    from rich.live import Live

    from wmo_distill.progress import Progress
    from wmo_distill.report.progress import Memory, Pace

# Loading rich takes 20 ms and drawing 1 ms: from then on, and so often, it is below 1 %.
FIRST_DRAWN, DRAWN_EVERY = 2.5, 0.5
FIRST_LOGGED, LOGGED_EVERY = 5.0, 5.0
_WIDEST = 72
"""Columns of the view: a terminal made narrower than a line would break it in two."""


class Working:
    """Listens to a run while it works; what it shows is taken away at the end."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._latest: Progress | None = None
        self._first: Progress | None = None
        self._began = time.monotonic()
        self._first_at = self._began
        self._live: Live | None = None
        self._ticks: _Ticks | None = None
        if quiet:
            return
        if RUN.log.format is not None:
            self._ticks = _Ticks(FIRST_LOGGED, LOGGED_EVERY, self._log)
        elif sys.stderr is not None and sys.stderr.isatty():
            self._ticks = _Ticks(FIRST_DRAWN, DRAWN_EVERY, self._draw)

    def __call__(self, event: "Progress") -> None:
        if self._first is None:
            self._first, self._first_at = event, time.monotonic()
        self._latest = event
        RUN.workers = max(RUN.workers, event.workers)

    def __enter__(self) -> "Working":
        if self._ticks is not None:
            self._ticks.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._ticks is not None:
            self._ticks.stop()
        if self._live is not None:
            with suppress(OSError):  # the terminal may be what has gone
                self._live.stop()

    def _now(self) -> "tuple[Progress, Pace, Memory, float] | None":
        from wmo_distill.report.progress import Pace

        first, latest, now = self._first, self._latest, time.monotonic()
        if first is None or latest is None:
            return None
        pace = Pace.of(first, latest, now - self._first_at)
        return latest, pace, memory(), now - self._began

    def _draw(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        from wmo_distill.report.progress import fitting, phrases

        now = self._now()
        if now is None:
            return
        if self._live is None:
            console = Console(stderr=True, highlight=False)
            self._live = Live(
                console=console, auto_refresh=False, transient=True, redirect_stdout=False
            )
            self._live.start()
            console.show_cursor(True)  # a process that is killed would leave none
        width = max(1, min(self._live.console.width, _WIDEST) - 1)
        view = "\n".join(fitting(line, width) for line in phrases(*now))
        self._live.update(Text(view, no_wrap=True, overflow="crop"), refresh=True)

    def _log(self) -> None:
        from wmo_distill.report.progress import phrases

        now = self._now()
        if now is None:
            return
        event, pace, used, seconds = now
        RUN.log.event(
            "info",
            "progress",
            "; ".join(phrases(*now)),
            command=RUN.command,
            done=event.done,
            total=event.total,
            unit=event.unit,
            bytes_done=event.bytes_done,
            bytes_total=event.bytes_total,
            outcomes=dict(event.outcomes),
            issues=dict(event.issues),
            parts=event.parts,
            seconds=round(seconds, 3),
            seconds_left=None if pace.left is None else round(pace.left, 3),
            memory=used.process,
            memory_of_workers=used.workers,
            workers=used.count,
        )


class _Ticks:
    """Does something again and again in a thread of its own, until it is stopped or fails."""

    def __init__(self, first: float, every: float, action: Callable[[], None]) -> None:
        self._first, self._every, self._action = first, every, action
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        wait = self._first
        with suppress(OSError, UnicodeError):  # nobody can see it any more
            while not self._over.wait(wait):
                self._action()
                wait = self._every


def memory() -> "Memory":
    """What this process and its children use now; zeros where the system has no /proc."""
    from wmo_distill.report.progress import Memory

    own = _resident("self")
    pids: set[str] = set()
    with suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError):
                pids.update(Path(f"/proc/self/task/{task}/children").read_text().split())
    return Memory(own, sum(map(_resident, pids)), len(pids))


def _resident(process: str) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
