"""Readers with faults that no trial can cause; worker processes import them from here."""

import errno
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pipeline_trials import touch

from wmo_distill.options import BuildOptions
from wmo_distill.records import ReadTrial, ScoreCell
from wmo_distill.shards.writer import PartWriter
from wmo_distill.sources.base import FoundTrial
from wmo_distill.trial import read_found


def raising(found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()) -> ReadTrial:
    """A fault by the trial's name."""
    name = found.root.name
    if name == "raises-memory":
        raise MemoryError("too large")
    if name == "raises-recursion":
        raise RecursionError("too deep")
    once = found.root / "change-once"
    if once.exists():
        once.rename(found.root / "result.json")
    read = read_found(found, options, cells)
    if name == "changes":
        touch(found.root / "result.json")
    if name == "unbalanced":
        return replace(read, calls_found=read.calls_found + 1)
    if name == "unwritable":
        broken: Any = ("no span",) * read.calls_found
        return replace(read, records=(replace(read.records[0], spans=broken),))
    return read


def dying(found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()) -> ReadTrial:
    """Kills its process at a trial whose name says so, or that has a file that says so, once."""
    once = found.root / "kill-once"
    if once.exists():
        once.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if "kills" in found.root.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return read_found(found, options, cells)


def counted(read: list[str]) -> Callable[..., ReadTrial]:
    """Notes the names of the trials it reads; for this process only."""

    def reader(
        found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()
    ) -> ReadTrial:
        read.append(found.root.name)
        return read_found(found, options, cells)

    return reader


def waiting(found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()) -> ReadTrial:
    """At t4 leaves a sign next to the trial, and does not come to an end."""
    if found.root.name == "t4":
        (found.root.parent / "waiting").touch()
        time.sleep(600)
    return read_found(found, options, cells)


def interrupted(
    found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()
) -> ReadTrial:
    """The user presses Control-C."""
    raise KeyboardInterrupt


def full_disk(
    found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()
) -> ReadTrial:
    """From here on the part writer finds no room."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    PartWriter.write = fail  # type: ignore[method-assign]
    return read_found(found, options, cells)


def failing_later(name: str) -> Callable[..., ReadTrial]:
    """Reads a trial of this name once; for this process only."""
    read: list[str] = []

    def reader(
        found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()
    ) -> ReadTrial:
        if found.root.name in read:
            raise ValueError("not again")
        if found.root.name == name:
            read.append(name)
        return read_found(found, options, cells)

    return reader


def slow(found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()) -> ReadTrial:
    """A trial named so is over its time: the signals come at once, and are not heard in C."""
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    if "python" in found.root.name:
        try:
            signal.raise_signal(signal.SIGALRM)
        except Exception:
            return read_found(found, options, cells)
    if "in-c" in found.root.name and signal.getitimer(signal.ITIMER_PROF)[0] > 0:
        signal.raise_signal(signal.SIGPROF)
    return read_found(found, options, cells)
