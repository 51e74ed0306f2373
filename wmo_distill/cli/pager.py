"""Long text on a terminal goes through a pager, elsewhere it is printed as it is made."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress


def in_colour() -> bool:
    """Whether stdout shows colours: a terminal, unless NO_COLOR or a dumb one says otherwise."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return sys.stdout.isatty() and wanted


def put_lines(lines: Iterable[str]) -> None:
    """Lines on stdout, in `$PAGER` or less on a terminal; who reads may stop at any of them."""
    command = _pager() if sys.stdin.isatty() and sys.stdout.isatty() else None
    if command is None:
        _print(lines)
        return
    # R: colours; F: less than a screen is only printed; X: what was read stays on the screen.
    environment = {"LESS": "FRX", "LESSCHARSET": "utf-8"} | os.environ
    with (
        suppress(BrokenPipeError),  # the pager was left before the end
        _stop_is_the_pagers(),
        subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as pager,
    ):
        assert pager.stdin is not None
        for line in lines:
            pager.stdin.write(f"{line}\n".encode())


def _print(lines: Iterable[str]) -> None:
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads has enough: what is left in the buffer goes nowhere, and is no error.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _pager() -> list[str] | None:
    """The pager to start; None for none, as `PAGER=` or `PAGER=cat` asks."""
    try:
        command = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:
        return None
    found = command and command[0] != "cat" and shutil.which(command[0])
    return command if found else None


@contextmanager
def _stop_is_the_pagers() -> Iterator[None]:
    """Ctrl-C in a pager ends its own search, not the command."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
