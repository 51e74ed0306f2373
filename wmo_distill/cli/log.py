"""What goes to stderr: plain lines for people, or one event a line, as text or as JSON.

Events are written from the command's start on, so the format is taken from its arguments before
they are parsed: what they have wrong is an event too.
"""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Literal

from wmo_distill.credentials import without_credentials
from wmo_distill.visible import visible

FLAG = "--log-format"
RUN_ID = "WMO_DISTILL_RUN_ID"
_PREFIX = "wmo-distill: "


class LogFormat(StrEnum):
    """How events are written to stderr."""

    TEXT = "text"
    JSON = "json"


Level = Literal["info", "warning", "error"]
"""How much an event matters."""


class Log:
    """The stderr of one run."""

    def __init__(self, arguments: Sequence[str], run_id: str | None = None) -> None:
        self.format = format_in(arguments)
        self.run_id = run_id or os.urandom(8).hex()
        self._stderr = 2
        self._strays: threading.Thread | None = None

    def say(self, text: str, level: Level = "warning", event: str = "message") -> None:
        """A line for people, which may repeat an address that somebody gave."""
        text = without_credentials(text)
        if self.format is None:
            with suppress(AttributeError):  # a process without stderr
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
        else:
            self.event(level, event, text.removeprefix(_PREFIX))

    def event(self, level: Level, event: str, message: str, **fields: object) -> None:
        """A line for programs; nothing where none were asked for."""
        if self.format is None:
            return
        now = time.time()
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        if self.format is LogFormat.TEXT:
            line = f"{at} {level} {self.run_id} {event}: {visible(message)}"
        else:
            value = {
                "time": at,
                "level": level,
                "run_id": self.run_id,
                "event": event,
                "message": message,
                "fields": fields,
            }
            line = json.dumps(value, default=str)
        rest = line.encode("utf-8", "backslashreplace") + b"\n"
        with suppress(OSError):  # nobody reads it any more
            while rest:
                rest = rest[os.write(self._stderr, rest) :]

    def take_strays(self) -> None:
        """Make events of what libraries and worker processes write to stderr."""
        if self.format is None:
            return
        self._stderr = os.dup(2)
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        self._strays = threading.Thread(target=self._read_strays, args=(reading,), daemon=True)
        self._strays.start()

    def close(self) -> None:
        """Write what is left, and give stderr back."""
        if self._strays is None:
            return
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        os.dup2(self._stderr, 2)
        self._strays.join(1.0)  # a process that outlives this one may hold the other end

    def _read_strays(self, reading: int) -> None:
        with open(reading, "rb") as pipe:
            for line in pipe:
                text = line.decode("utf-8", "backslashreplace").rstrip("\n")
                if text.strip():
                    self.event("warning", "stderr", text)


def format_in(arguments: Sequence[str]) -> LogFormat | None:
    """The format that arguments ask for; None for none, and for one that there is not."""
    given = None
    for at, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == FLAG:
            given = next(iter(arguments[at + 1 :]), None)
        elif argument.startswith(f"{FLAG}="):
            given = argument.removeprefix(f"{FLAG}=")
    return LogFormat(given) if given in list(LogFormat) else None


def run_id_fault(run_id: str) -> str:
    """What is wrong with a run id, "" for nothing."""
    if re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", run_id):
        return ""
    return f"{RUN_ID}: expected 1 to 128 letters, digits, dots, colons and dashes, found others"
