"""This process as one run of a command: its id, how it ended, and what is kept of it."""

import math
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmo_distill import __version__
from wmo_distill.cli.log import RUN_ID, Level, Log, run_id_fault
from wmo_distill.errors import UsageError, fault_of, stop_says

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wmo_distill.trackers import Send, TrackerName

METRICS_VERSION = 1
_STATES = {0: "done", 1: "failed", 3: "done_with_issues", 4: "done_without_result"}
_WRONG_BEFORE_WORK = 2


class Run:
    """What is known of the run so far."""

    def __init__(self) -> None:
        given = os.environ.get(RUN_ID)
        self._fault = "" if given is None else run_id_fault(given)
        self.log = Log(sys.argv[1:], None if self._fault else given)
        self.command = ""
        self.began, self._clock = time.time(), time.monotonic()
        self.workers = 0
        """The most worker processes at once."""
        self.out: Path | None = None
        """The directory that is written to."""
        self._metrics = ""
        """The directory of its metrics, in it."""
        self.result: BaseModel | None = None
        self._tracker: TrackerName | None = None
        self._send: Send | None = None
        self._is_kept = self._ended = False

    def begin(self, command: str) -> None:
        """UsageError for a run id that is none."""
        self.command = command
        if self._fault:
            raise UsageError(f"{self._fault}; give another, or none")
        self.log.event("info", "begin", f"{command} begins", command=command, version=__version__)

    def write_to(
        self, out: Path, metrics: str, tracker: "TrackerName | None", project: str
    ) -> None:
        """The run writes to a directory; UsageError for a tracker that is not installed."""
        self.out, self._metrics = out, metrics
        if tracker is not None:
            from wmo_distill.trackers import sender

            self._tracker, self._send = tracker, sender(tracker, project)

    def end(self, code: int) -> None:
        """Keep what came of the run, and write its last event; never raises for a fault of that."""
        if self._ended or not self.command:
            return
        record = self.record(code)
        if self.out is not None and code != _WRONG_BEFORE_WORK and not self._is_kept:
            self._is_kept = True
            with stop_says(lambda: f"{self.out} holds what was committed"):
                self._keep(self.out, record)
                if self.result is not None:
                    self._track(record)
        self._ended = True
        state = record["state"]
        level: Level = "info" if code == 0 else "error"
        self.log.event(level, "end", f"{self.command}: {state}, exit code {code}", **record)

    def record(self, code: int) -> dict[str, Any]:
        """The run as a line of metrics.jsonl."""
        return {
            "version": METRICS_VERSION,
            "run_id": self.log.run_id,
            "command": self.command,
            "tool_version": __version__,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began)),
            "seconds": round(time.monotonic() - self._clock, 3),
            "exit_code": code,
            "state": "refused" if code == _WRONG_BEFORE_WORK else _STATES.get(code, "stopped"),
            "workers": self.workers,
            "peak_memory": _peak(resource.RUSAGE_SELF),
            "peak_memory_of_a_worker": _peak(resource.RUSAGE_CHILDREN) if self.workers else 0,
            "result": None if self.result is None else numbers(self.result.model_dump(mode="json")),
        }

    def _keep(self, out: Path, record: Mapping[str, Any]) -> None:
        from wmo_distill.outputs.manifest import MANIFEST
        from wmo_distill.outputs.metrics import METRICS, add_metrics

        folder = out / self._metrics
        try:
            if (out / MANIFEST).is_file():
                add_metrics(folder, record)
        except OSError as error:
            if self.result is None:  # why is said already: one fault, one message
                return
            self.log.say(
                f"wmo-distill: {folder / METRICS}: expected to add a line on this run, found: "
                f"{error.strerror or error}; what was written is as it should be"
            )

    def _track(self, record: Mapping[str, Any]) -> None:
        if self._send is None:
            return
        try:
            self._send(record)
        except BaseException as error:
            from wmo_distill.visible import visible

            fault = fault_of(error)
            said = visible(f"{type(fault).__name__}: {fault}"[:300])
            self.log.say(
                f"wmo-distill: --tracker {self._tracker}: expected it to take the numbers of this "
                f"run, found {said}; what was written is as it should be"
            )


def numbers(value: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a result under their names; texts, lists and what is not known are left out.

    >>> numbers({"found": 3, "skipped": {"no_cell": 1}, "errors": {"a/b": "x"}, "dry_run": False})
    {'found': 3, 'skipped': {'no_cell': 1}}
    """
    kept: dict[str, Any] = {}
    for name, one in value.items():
        if isinstance(one, Mapping):
            if inner := numbers(one):
                kept[name] = inner
        elif isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one):
            kept[name] = one
    return kept


def _peak(whose: int) -> int:
    """The most memory in bytes that this process, or any one of its children, has used.

    What the system counts begins with the memory of the process that started it, if it was more.
    """
    used = resource.getrusage(whose).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


RUN = Run()
