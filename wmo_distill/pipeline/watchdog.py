"""A bound on the time of one trial, by a signal, or by the end of the process.

Python looks at signals between its own steps, so a call into C that does not return is stopped by
the process's end. That is for worker processes: their death costs the trial alone.

    seconds        SIGALRM    TrialTimeout is raised in the code that reads
    1.1 times      SIGPROF    the worker process ends, if it has worked for so long
"""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

_T = TypeVar("_T")

ENDED_BY = getattr(signal, "SIGPROF", None)
"""The signal that ends a worker process."""
_GRACE = 1.1


class TrialTimeout(BaseException):
    """The time of a trial is over."""


def within(seconds: float, action: Callable[[], _T], *, apart: bool) -> _T:
    """What an action gives; TrialTimeout if it takes longer.

    `apart`: this process may be ended for it. Without limit where there are no such signals, and
    in threads other than the main one.
    """
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or not hasattr(signal, "setitimer"):
        return action()
    is_over = False

    def stop(number: int, frame: FrameType | None) -> None:
        if not is_over:
            raise TrialTimeout

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, stop)
    # Again each second: what a destructor raises is lost.
    delay, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    if apart:
        signal.setitimer(signal.ITIMER_PROF, seconds * _GRACE)
    try:
        try:
            return action()
        finally:
            is_over = True
    except TrialTimeout:
        is_over = True  # it may have been raised just before it was set
        raise
    finally:
        if apart:
            signal.setitimer(signal.ITIMER_PROF, 0)
        left = max(delay - (time.monotonic() - began), 0.001) if delay else 0
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
