"""What can end the work early: errors, each with the exit code of the command, and a stop."""

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class DistillError(Exception):
    """The work could not be done. The message says where, expected, found, next."""

    exit_code = 1


class UsageError(DistillError):
    """An option, a path or a manifest was found wrong before any work."""

    exit_code = 2


class ReadFault(DistillError):  # noqa: N818 - what the file system answered
    """What is there could not be read now: it says nothing of what a file holds.

    No reader takes it for a missing or a damaged file; what needed the file is read again later.
    """

    def __init__(self, path: str | os.PathLike[str], found: str) -> None:
        super().__init__(os.fspath(path), found)
        self.path, self.found = os.fspath(path), found

    @classmethod
    def of(cls, path: str | os.PathLike[str], error: OSError) -> "ReadFault":
        """What the system said about a path, by the name of its error and in words."""
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        return cls(path, f"{name} ({error.strerror or error})")

    def __str__(self) -> str:
        path = os.fsencode(self.path).decode("utf-8", "backslashreplace")
        return f"{path}: expected to read what is there, found {self.found}"


def fault_of(error: BaseException) -> Exception:
    """The error that was caught; what is a stop and no error is raised again.

    A panic in a library's Rust code is an error, but of no type that derives from Exception.
    """
    if isinstance(error, Exception):
        return error
    if type(error).__name__ == "PanicException":
        return RuntimeError(f"a panic: {error}")
    raise error


def extra_missing(what: str, extra: str, error: ImportError) -> UsageError:
    """What is said where the packages of an extra are not installed."""
    return UsageError(
        f"{what}: expected the packages of the extra `{extra}`, found no {error.name}; "
        f'pip install "wmo-distill[{extra}]"'
    )


def shown(value: object) -> str:
    """A value as JSON on one short line."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."


def names_like(name: str, names: Iterable[str], kind: str = "columns") -> str:
    """What to give in place of an unknown name: similar ones, else any."""
    known = list(names)
    like = get_close_matches(name, known)
    return f"did you mean {' or '.join(like)}?" if like else f"the {kind} are {', '.join(known)}"


@contextmanager
def stop_says(kept: Callable[[], str]) -> Iterator[None]:
    """Where Ctrl-C or a signal ends the work, a note on the exception says what is kept."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        stop.add_note(kept())
        raise
