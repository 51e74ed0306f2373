"""Files that hold several episodes: the state of each is a digest of its own records.

    calls.db   a a b           found: the state of a is a digest of its two records
    calls.db   a a b b c       the file is another one: a is as it was, b and c are to be read

So a file that only grew costs what it grew by, and a record that was altered in its place is read
again, whatever its size.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles
from wmo_distill.tokenjson.window import WINDOW

Mark = tuple[str, int]
"""A digest of a record, and its size in bytes."""

NO_MARK: Mark = ("", 0)


def mark_of(*values: object) -> Mark:
    """Of a record by its values; bytes count for its size, and by their length and CRC-32.

    SHA-256 of all its bytes would take as long as to read them; only a record that was altered in
    its place, to one of the same length, is missed, once in 4,000,000,000.
    """
    parts, size = [], 0
    for value in values:
        if isinstance(value, bytes):
            size += len(value)
            parts.append(b"1 %d %d " % (len(value), zlib.crc32(value)))
        else:
            data = repr(value).encode()
            parts.append(b"0 %d %b" % (len(data), data))
    return hashlib.sha256(b"".join(parts)).hexdigest(), size


def mark_by_size(size: int, *values: object) -> Mark:
    """Of a record that is not read yet: by its size in bytes and some of its values."""
    return mark_of("size", size, *values)[0], size


def state_of(marks: Iterable[Mark], *others: object) -> FilesState:
    """Of an episode by its records and what else its rows depend on; the digest is its time."""
    known = list(marks)
    digest, _ = mark_of(others, known)
    return FilesState(sum(size for _, size in known), int(digest[:15], 16))


@dataclass(frozen=True, slots=True)
class Own:
    """The state of an episode when it was found."""

    state: FilesState = NO_STATE
    files: tuple[FilesState, ...] = (NO_STATE,)
    """Of the whole files that its records are in, from before they were looked into."""

    def now(self, files: tuple[FilesState, ...], look: Callable[[], FilesState]) -> FilesState:
        """Its state where its files are in these; `look` looks at its records again."""
        if files[0] == NO_STATE:
            return NO_STATE
        return self.state if files == self.files else look()


NO_RECORDS = Own()


@dataclass(frozen=True, slots=True)
class Section:
    """A record that is part of a file."""

    name: str
    start: int
    end: int
    mark: Mark
    whole: FilesState
    """Of the file, from before it was looked into."""

    def mark_now(self, files: TrialFiles) -> Mark:
        """Of what is there now."""
        (mark,) = marks_of(files, self.name, [(self.start, self.end)])
        return mark


def marks_of(files: TrialFiles, name: str, places: Sequence[tuple[int, int]]) -> list[Mark]:
    """Of parts of a file, each read in pieces."""
    opened = files.open(name)
    if isinstance(opened, Absent):
        return [NO_MARK] * len(places)
    with opened:
        return [mark_between(opened, start, end) for start, end in places]


def mark_between(file: IO[bytes], start: int, end: int) -> Mark:
    """Of the bytes that are there now."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces(file, start, end):
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def pieces(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from `start` to `end`, or to where it ends."""
    file.seek(start)
    while start < end and (piece := file.read(min(WINDOW, end - start))):
        start += len(piece)
        yield piece


def state_of_sections(
    files: TrialFiles, sections: Sequence[Section], *others: object
) -> FilesState:
    """Of an episode now; a record is looked at again where its file is another."""
    now = {name: files.state_of((name,)) for name in {section.name for section in sections}}
    if set(now.values()) <= {NO_STATE}:
        return NO_STATE
    marks = (s.mark if now[s.name] == s.whole else s.mark_now(files) for s in sections)
    return state_of(marks, *others)
