"""SIGINT, SIGTERM and SIGHUP end a command: a line on stderr says what was kept, then it exits.

The handlers belong to the command. Library code sees a `Stopped`, or a KeyboardInterrupt where a
program of its own calls it, and adds a note that says what is kept.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """A signal asked for the end; `code` is what a shell gives for it: 128 and its number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def stoppable(run: Callable[[], None]) -> NoReturn:
    """Run a command until it ends or is asked to; a second request ends it where it is.

    A signal that is ignored at the start, as `nohup` has it, stays ignored.
    """
    sys.unraisablehook = _raised_in_vain
    _on_signals(_stop)
    try:
        run()
    except Stopped as stop:
        notes: list[str] = getattr(stop, "__notes__", [])
        kept = notes[-1] if notes else "nothing was changed; run it again"
        _say(f"stopped by {signal.Signals(stop.number).name}: {kept}", 128 + stop.number)
        os._exit(128 + stop.number)  # not to wait for threads, such as a name look-up that hangs
    sys.exit(0)


def _on_signals(act: Callable[[int, FrameType | None], NoReturn]) -> None:
    for number in _NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, act)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _on_signals(lambda number, frame: os._exit(128 + number))
    raise Stopped(number)


def _raised_in_vain(lost: "sys.UnraisableHookArgs") -> None:
    """Raise a stop again a moment later if it came in a callback, where Python drops exceptions."""
    if not isinstance(lost.exc_value, Stopped):
        sys.__unraisablehook__(lost)
        return
    stop = lost.exc_value
    signal.signal(signal.SIGALRM, lambda number, frame: _stop(stop.number, frame))
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def _say(text: str, code: int) -> None:
    """The last line, in the form of all; what is kept of the run holds the code."""
    from wmo_distill.cli.run import RUN

    with suppress(OSError):  # the terminal may be what has gone
        RUN.log.say(f"wmo-distill: {text}", "error", "stopped")
    RUN.end(code)
    RUN.log.close()
