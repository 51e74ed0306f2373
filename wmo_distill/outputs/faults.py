"""What is wrong with a directory's files, held against its manifest."""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from wmo_distill.files import file_sha256, open_file

CHANGE_PERMISSIONS = "; change its permissions"
FAULTS_A_FILE = 100
"""A file that is broken throughout is not described row by row."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A place where a directory is not what it should be; `row` counts from 0 in its file."""

    file: str
    row: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        where = self.file if self.row is None else f"{self.file}, row {self.row}"
        return f"{where}: expected {self.expected}, found {self.found}"


class Listed(Protocol):
    """A file as a manifest lists it."""

    file: str
    rows: int
    bytes: int
    sha256: str
    footer: str | None


def differences(file: str, pairs: Iterable[tuple[str, Any, Any]]) -> Iterator[Fault]:
    for name, expected, found in pairs:
        if expected != found:
            yield Fault(file, None, f"{name} {expected}", str(found))


def first_faults(file: str, found: Iterable[Fault]) -> Iterator[Fault]:
    """The first faults of a file, and how many more there are."""
    found = iter(found)
    yield from islice(found, FAULTS_A_FILE)
    if rest := sum(1 for _ in found):
        yield Fault(file, None, "no faults", f"{rest} more")


def damage(out: Path, part: Listed) -> list[Fault]:
    """How the bytes of a part differ from those that were written."""
    try:
        sha256, size = file_sha256(out / part.file)
    except OSError as error:
        return [Fault(part.file, None, "a readable file", cause_of(error))]
    pairs = [("size", part.bytes, size), ("SHA-256", part.sha256, sha256)]
    return list(differences(part.file, pairs))


def cause_of(error: OSError) -> str:
    """Why a file cannot be read, and what to do where it need not be restored."""
    closed = isinstance(error, PermissionError)
    return f"{error.strerror or error}{CHANGE_PERMISSIONS * closed}"


def is_readable(file: Path) -> bool:
    """Whether its bytes can be read: else that is its one fault, not one of each of its rows."""
    try:
        open_file(file).close()
    except OSError:
        return False
    return True


def stray_files(out: Path, folder: str, named: Collection[str]) -> Iterator[Fault]:
    """Files among the parts that no manifest names: a reader of the folder would read them."""
    try:
        names = sorted(os.listdir(out / folder))
    except OSError:
        return
    for name in names:
        file = f"{folder}/{name}".lstrip("/")
        if file not in named and not name.startswith("."):
            yield Fault(file, None, "only parts that the manifest names", "a file that it does not")
