"""A command on a terminal: what it draws, and what is on the screen in the end."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.project.conftest import ROOT

_PIECE = re.compile(
    r"\x1b\[(?P<number>\d*)(?P<act>[A-HJKm])|\x1b\[\?25(?P<cursor>[hl])|(?P<text>[^\x1b])"
)


@dataclass
class Screen:
    """A terminal that knows what rich uses to draw lines again; anything else is an error."""

    columns: int
    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0
    cursor: bool = True

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            piece = _PIECE.match(text, at)
            assert piece, f"not known: {text[at : at + 20]!r}"
            at = piece.end()
            if piece["cursor"]:
                self.cursor = piece["cursor"] == "h"
            elif piece["text"]:
                self._put(piece["text"])
            elif piece["act"] == "A":
                self.row = max(0, self.row - int(piece["number"] or 1))
            elif piece["act"] == "K":
                whole = piece["number"] == "2"
                kept = "" if whole else self.lines[self.row][: self.column]
                self.lines[self.row] = kept
            else:
                assert piece["act"] == "m", piece[0]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._down()
        else:
            assert character.isprintable(), repr(character)
            if self.column >= self.columns:
                self.column = 0
                self._down()
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")


@dataclass(frozen=True)
class Shown:
    """What came of a command whose stderr was a terminal."""

    drawn: str
    screen: Screen
    code: int


def on_terminal(
    code: str,
    arguments: Sequence[object],
    *,
    columns: int = 80,
    environment: Mapping[str, str] = {},
) -> Shown:
    """Run Python code whose stdin and stderr are a terminal, and whose stdout is none."""
    pid, terminal = pty.fork()
    if not pid:
        fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        known = {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        words = [sys.executable, "-c", code, *map(str, arguments)]
        os.execve(sys.executable, words, kept | known | dict(environment))
    pieces = []
    try:
        while piece := os.read(terminal, 1 << 16):
            pieces.append(piece)
    except OSError:  # the other end is closed
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    drawn = b"".join(pieces).decode()
    screen = Screen(columns)
    screen.feed(drawn)
    return Shown(drawn, screen, os.waitstatus_to_exitcode(status))
