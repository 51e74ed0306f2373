"""Faults of a directory that no run is changing: one that is between two states has none."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from wmo_distill.errors import DistillError
from wmo_distill.outputs.faults import Fault
from wmo_distill.outputs.lock import is_locked
from wmo_distill.outputs.manifest import MANIFEST
from wmo_distill.outputs.parts import unfinished_commits
from wmo_distill.progress import Listener

_TRIES = 50
_PAUSE = 0.1


class Check(Protocol):
    def __call__(self, out: Path | str, /, *, progress: Listener | None = None) -> list[Fault]: ...


def settled(check: Callable[[Path, Listener | None], list[Fault]]) -> Check:
    """What `check` finds where the manifest is the same before and after, and no commit is at work.

    A commit puts parts and ledger in their places before the manifest that names them. One that
    was broken off has no writer, and what it left is a fault.
    """

    @functools.wraps(check)
    def again(out: Path | str, /, *, progress: Listener | None = None) -> list[Fault]:
        for _ in range(_TRIES):
            before = _manifest(Path(out))
            faults = check(Path(out), progress)
            if not faults or not _is_changing(Path(out), before):
                return [*_broken_off(Path(out)), *faults] if faults else []
            time.sleep(_PAUSE)
        raise _never_settled(Path(out))

    return again


def _broken_off(out: Path) -> list[Fault]:
    """That a commit was broken off, if one was: it explains what else is found."""
    return [
        Fault(
            place.name,
            None,
            "no unfinished commit",
            "one that a killed run has left; run the same command again, which finishes it",
        )
        for place in unfinished_commits(out)[:1]
    ]


def _is_changing(out: Path, before: tuple[int, int] | None) -> bool:
    committing = bool(unfinished_commits(out)) and is_locked(out)
    return committing or _manifest(out) != before


def _never_settled(out: Path) -> DistillError:
    return DistillError(
        f"{out}: expected a state that stays while it is checked, found a run that changes it "
        "again and again; wait for its end"
    )


def _manifest(out: Path) -> tuple[int, int] | None:
    """Which file the manifest is: each commit puts another in its place."""
    try:
        state = (out / MANIFEST).stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns
