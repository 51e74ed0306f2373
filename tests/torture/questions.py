"""Every question that this process asks the file system below a directory, and faults for answers.

The functions of `os` that readers use are replaced by ones that count, and fail where they are
asked to; what SQLite asks cannot be seen from here, so its `connect` is for it.
"""

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

BY_PATH = ("stat", "lstat", "open", "listdir", "scandir")
BY_FILE = ("fstat", "pread", "preadv")


class Question(NamedTuple):
    call: str
    path: str


Answer = Callable[[int, Question], int | None]
"""An errno for the n-th question, or None."""


@dataclass
class Questions:
    """Those asked so far below `root`; `answer` gives an errno in place of an answer."""

    root: Path
    answer: Answer = lambda number, question: None
    asked: list[Question] = field(default_factory=list)
    most: int | None = None
    """The most bytes that one read gives."""
    _files: dict[int, str] = field(default_factory=dict)

    def ask(self, call: str, path: object) -> None:
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
        if not name.startswith(f"{self.root}"):
            return
        question = Question(call, name)
        self.asked.append(question)
        code = self.answer(len(self.asked) - 1, question)
        if code is not None and call == "connect":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        if code is not None:
            raise OSError(code, os.strerror(code), name)

    @contextmanager
    def watched(self) -> Iterator["Questions"]:
        with pytest.MonkeyPatch.context() as patch:
            for call in BY_PATH:
                patch.setattr(os, call, self._by_path(call, getattr(os, call)))
            for call in BY_FILE:
                patch.setattr(os, call, self._by_file(call, getattr(os, call)))
            connect = sqlite3.connect

            def connected(name: str, *args: Any, **options: Any) -> sqlite3.Connection:
                self.ask("connect", name.removeprefix("file:").partition("?")[0])
                return connect(name, *args, **options)

            patch.setattr(sqlite3, "connect", connected)
            yield self

    def _by_path(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def asked(path: Any = ".", *args: Any, **options: Any) -> Any:
            self.ask(call, path)
            found = real(path, *args, **options)
            if call == "open":
                self._files[found] = os.fsdecode(path)
            return _Entries(self, path, found) if call == "scandir" else found

        return asked

    def _by_file(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def asked(file: int, *args: Any) -> Any:
            self.ask(call, self._files.get(file, ""))
            if self.most is not None and call == "pread":
                args = (min(args[0], self.most), *args[1:])
            if self.most is not None and call == "preadv":
                args = ([memoryview(args[0][0])[: self.most]], *args[1:])
            return real(file, *args)

        return asked


class _Entries:
    """A directory that is listed, in which the next name may be a fault."""

    def __init__(self, questions: Questions, path: Any, found: Any) -> None:
        self._questions, self._path, self._found = questions, path, found

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *_: object) -> None:
        self._found.close()

    def __iter__(self) -> Iterator[Any]:
        for number, entry in enumerate(self._found):
            if number == 1:
                self._questions.ask("next", self._path)
            yield entry

    def close(self) -> None:
        self._found.close()


def once(number: int, code: int) -> Answer:
    """The n-th question fails, and no other."""
    return lambda n, question: code if n == number else None


def always(bad: Question, code: int) -> Answer:
    """A question fails however often it is asked."""
    return lambda n, question: code if question == bad else None


PASSING = (errno.EIO, errno.ESTALE, errno.EMFILE, errno.ETIMEDOUT, errno.EAGAIN)
LASTING = (errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE, errno.EPERM)
