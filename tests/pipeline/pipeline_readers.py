"""Readers with faults that no trial can cause; worker processes import them from here."""

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline_trials import touch

from wmo_distill.options import BuildOptions
from wmo_distill.records import ReadTrial, ScoreCell
from wmo_distill.sources.discovery import FoundTrial
from wmo_distill.trials.read import read_trial_dir


def raising(found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()) -> ReadTrial:
    """A fault by the trial's name."""
    name = found.root.name
    if name == "raises-memory":
        raise MemoryError("too large")
    if name == "raises-recursion":
        raise RecursionError("too deep")
    read = read_trial_dir(found, options, cells)
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
    return read_trial_dir(found, options, cells)
