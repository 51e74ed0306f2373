"""The lines of a file, found in windows of fixed size; one line is in memory at a time."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles
from wmo_distill.limits import TEXT_BYTES
from wmo_distill.tokenjson.window import WINDOW

_SPACE = b" \t\r"


class Line(NamedTuple):
    """One line that is not blank, without its line break; of one that is too long its start."""

    offset: int
    data: bytes
    size: int
    """In bytes, of all of it."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


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

    @property
    def state(self) -> FilesState:
        """Length and digest in the place of size and time: other lines may come and go."""
        return FilesState(self.share, int(self.digest[:15], 16))


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a file in order; none where no regular file is there."""
    file = TrialFiles(path.parent).open(path.name)
    if isinstance(file, Absent):
        return
    with file:
        pieces: list[bytes] = []
        offset = size = 0
        while window := file.read(WINDOW):
            at = 0
            while (end := window.find(b"\n", at)) >= 0:
                pieces.append(window[at:end])
                line = Line(offset, b"".join(pieces), size + end - at)
                pieces, size = [], 0
                offset += line.size + 1
                at = end + 1
                if line.data.strip(_SPACE):
                    yield line
            size += len(window) - at
            pieces.append(window[at:])
            if size > TEXT_BYTES:
                del pieces[1:]
        line = Line(offset, b"".join(pieces), size)
        if line.data.strip(_SPACE):
            yield line


def line_at(path: Path, place: Place) -> bytes | None:
    """The line as it was found; None where other bytes are there now, and for one too long."""
    if place.length > TEXT_BYTES:
        return None
    file = TrialFiles(path.parent).open(path.name)
    if isinstance(file, Absent):
        return None
    with file:
        try:
            file.seek(place.offset)
            data = file.read(place.length)
        except MemoryError:
            return None
    return data if hashlib.sha256(data).hexdigest() == place.digest else None


def file_state(path: Path) -> FilesState:
    state = TrialFiles(path.parent).stat(path.name)
    return NO_STATE if state is None else FilesState(state.st_size, state.st_mtime_ns)
