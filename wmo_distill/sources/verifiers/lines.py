"""The lines of a file, read in windows of fixed size: no line is in memory whole."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from wmo_distill.files import Absent, FilesState, TrialFiles
from wmo_distill.sources.growth import mark_between
from wmo_distill.sources.verifiers.run import NO_CONFIG, RunConfig
from wmo_distill.tokenjson.window import WINDOW

_SPACE = b" \t\r"


@dataclass(slots=True)
class Line:
    """One line without its line break: its bytes can be gone through once."""

    offset: int
    _windows: "_Windows"
    length: int = 0
    """Of what was gone through, as the digest."""
    blank: bool = True
    _hash: Any = field(default_factory=hashlib.sha256)
    _rest: Iterator[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._rest = self._once()

    def __iter__(self) -> Iterator[bytes]:
        """What nobody has gone through yet."""
        return self._rest

    def _once(self) -> Iterator[bytes]:
        for piece in self._windows.line():
            self.length += len(piece)
            self.blank = self.blank and not piece.strip(_SPACE)
            self._hash.update(piece)
            yield piece

    @property
    def digest(self) -> str:
        return str(self._hash.hexdigest())


@dataclass(frozen=True, slots=True)
class Place:
    """Where an episode, a trace or a row is: in a line, whose SHA-256 tells a change."""

    offset: int
    length: int
    digest: str
    file: FilesState
    """Of the whole file when the line was found."""
    share: int
    """Bytes of the line that are this trial's: those of all its trials are its length."""
    cut: tuple[int, int] | None = None
    """The trace's own bytes in the line of an episode."""
    listed: tuple[int, int] = (0, 0)
    """The bytes of the list of all traces in that line."""
    run: RunConfig = NO_CONFIG

    @property
    def state(self) -> FilesState:
        """Length and digest in the place of size and time: other lines may come and go.

        What the run says of all its rollouts is in their rows too.
        """
        digest = self.digest
        if run := self.run.digest:
            digest = hashlib.sha256(f"{digest} {run}".encode()).hexdigest()
        return FilesState(self.share, int(digest[:15], 16))


@dataclass(slots=True)
class _Windows:
    file: IO[bytes]
    data: bytes = b""
    at: int = 0

    def left(self) -> bool:
        """Whether the file goes on."""
        if self.at == len(self.data):
            self.data, self.at = self.file.read(WINDOW), 0
        return bool(self.data)

    def line(self) -> Iterator[bytes]:
        """What comes before the next line break, which is taken too."""
        while self.left():
            start, end = self.at, self.data.find(b"\n", self.at)
            self.at = len(self.data) if end < 0 else end + 1
            if end != start:
                yield self.data[start : None if end < 0 else end]
            if end >= 0:
                return


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a file in order; none where no regular file is there."""
    file = TrialFiles(path.parent).open(path.name)
    if isinstance(file, Absent):
        return
    with file:
        windows = _Windows(file)
        offset = 0
        while windows.left():
            line = Line(offset, windows)
            yield line
            for _ in line:
                pass
            offset += line.length + 1


def is_there(file: IO[bytes], place: Place) -> bool:
    """Whether the line is in the file as it was found."""
    digest, _ = mark_between(file, place.offset, place.offset + place.length)
    return digest == place.digest
