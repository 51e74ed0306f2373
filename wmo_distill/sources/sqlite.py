"""SQLite databases of other programs, opened to read: nothing is written to them or next to them.

A program that runs, or was killed, keeps its newest rows in a write-ahead log next to the file:

    traces.db                       WAL mode, whole: opened as a file that never changes
    traces.db, -wal                 a private copy of both is read, holes left out
    traces.db, -wal, -shm           all opened read-only; a copy where that cannot be done
    traces.db                       rollback mode: the same; a copy if a journal is left over
"""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from wmo_distill.disk import PATIENCE, RegularFile, answered, asked
from wmo_distill.errors import ReadFault
from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles
from wmo_distill.limits import TEXT_BYTES
from wmo_distill.sources.growth import pieces

_T = TypeVar("_T")

MAGIC = b"SQLite format 3\0"
_SUFFIXES = (".db", ".db3", ".sqlite", ".sqlite3")
_START = 1 << 20
_HEADER = 100
_MODE = 18
"""Place of the file format's write version, which is 2 in WAL mode."""
_TRIES = 3
_LOCKED = 5.0
"""Seconds to wait for a program that has locked its database."""
_FILES = ("", "-wal", "-journal")
_READ_ONLY = "mode=ro&readonly_shm=1"
"""The shared memory of a log too: SQLite else writes into it how far a reader has come."""

_DAMAGE = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""What reading a row of a faulty database may raise; messages of SQLite's may be no UTF-8."""
_PASSING = {
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM,
}  # fmt: skip
_WAITED_FOR = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
"""Results of SQLite that say nothing of what a database holds."""


class Unreadable(Exception):  # noqa: N818 - what was found, not an error of this program
    """A database that is damaged, or none."""


def may_hold(files: TrialFiles, name: str, table: str) -> bool:
    """Whether a file may be a database with such a table: by its name, and its first bytes.

    A schema is at the start of the file, or of the log.
    """
    if not name.endswith(_SUFFIXES):
        return False
    starts = [files.read(name, _START), files.read(f"{name}-wal", _START)]
    return any(not isinstance(start, Absent) and table.encode() in start for start in starts)


def from_database(files: TrialFiles, name: str, read: Callable[[sqlite3.Connection], _T]) -> _T:
    """What `read` finds in a database below `files`, its texts as bytes; it may be called again.

    Unreadable where the database is damaged, ReadFault where it is locked or cannot be read.
    """
    return answered(files.root / name, partial(_read, files, name, read))


def _read(files: TrialFiles, name: str, read: Callable[[sqlite3.Connection], _T]) -> _T:
    try:
        connection = _connected(files, name)
        try:
            return read(connection)
        finally:
            if connection is not _copy.connection:
                connection.close()
    except MemoryError:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from None
    except _DAMAGE as error:
        if _code(error) in _PASSING:
            raise OSError(errno.EIO, f"SQLite: {error}") from None
        if _code(error) in _WAITED_FOR:
            PATIENCE.spend(_LOCKED)
        if isinstance(error, sqlite3.OperationalError):
            raise ReadFault(files.root / name, f"SQLite: {error}") from None
        raise Unreadable from None


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def row_of(connection: sqlite3.Connection, query: str, key: int) -> tuple[Any, ...] | None:
    """The row of a key, None where there is none or it is damaged."""
    try:
        found: tuple[Any, ...] | None = connection.execute(query, (key,)).fetchone()
    except _DAMAGE as error:
        if _code(error) in _PASSING | _WAITED_FOR:
            raise
        return None
    return found


def text_of(connection: sqlite3.Connection, table: str, column: str, key: int) -> bytes | None:
    """The bytes of a large text in an ordinary table, read at once; None as for `row_of`.

    What a row holds on pages of its own is read from the file into them, not through a cache.
    """
    try:
        with connection.blobopen(table, column, key, readonly=True) as blob:
            return blob.read() if len(blob) <= TEXT_BYTES else None
    except _DAMAGE as error:
        if _code(error) in _PASSING | _WAITED_FOR:
            raise
        return None


def size_of(connection: sqlite3.Connection, table: str, column: str, key: int) -> int | None:
    """The bytes of such a text, of which none is read; None where there is none."""
    try:
        with connection.blobopen(table, column, key, readonly=True) as blob:
            return len(blob)
    except _DAMAGE as error:
        if _code(error) in _PASSING | _WAITED_FOR:
            raise
        return None


def has_tables(connection: sqlite3.Connection, wanted: dict[str, set[str]]) -> bool:
    """Whether there are ordinary tables of these names with at least these columns."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    tables = {name for name, sql in rows if isinstance(sql, bytes) and _ordinary(sql)}
    if not {name.encode() for name in wanted} <= tables:
        return False
    for name, columns in wanted.items():
        found = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
        if not {column.encode() for column in columns} <= found:
            return False
    return True


def database_state(files: TrialFiles, name: str) -> FilesState:
    """Size and time of a database and its write-ahead log."""
    if files.stat(name) is None:
        return NO_STATE
    return files.state_of((name, f"{name}-wal"))


def _ordinary(sql: bytes) -> bool:
    return sql.upper().split()[:2] == [b"CREATE", b"TABLE"]


def _connected(files: TrialFiles, name: str) -> sqlite3.Connection:
    header = files.read(name, _HEADER)
    if isinstance(header, Absent) or len(header) < _HEADER or not header.startswith(MAGIC):
        raise Unreadable
    sizes = {end: _size(files, name + end) for end in ("-wal", "-shm", "-journal")}
    file = files.root / name
    if sizes["-wal"] and sizes["-shm"] is None:
        return _copy.of(files, name)
    if header[_MODE] == 2 and not sizes["-wal"]:
        return _ask(file, "immutable=1")
    try:
        return _ask(file, _READ_ONLY)
    except sqlite3.OperationalError:
        # A log that needs recovery in a folder that is read-only, or a journal of a killed program.
        if sizes["-wal"] or sizes["-journal"]:
            return _copy.of(files, name)
        raise


def _size(files: TrialFiles, name: str) -> int | None:
    """None where nothing is there; SQLite would follow a link."""
    state = files.stat(name)
    if state is None and asked(os.lstat, files.root / name) is not None:
        raise ReadFault(files.root / name, "a link, or no regular file")
    return None if state is None else state.st_size


def _ask(file: Path, mode: str) -> sqlite3.Connection:
    name = quote(os.fsencode(file.absolute()))
    connection = sqlite3.connect(
        f"file:{name}?{mode}", min(_LOCKED, PATIENCE.left), uri=True, check_same_thread=False
    )
    try:
        connection.text_factory = bytes
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, TEXT_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


class _Copy:
    """The private copy that this process made last: the episodes of a file are read in a row.

    Its file is gone once it is open, so that nothing is left however the process ends.
    """

    key: tuple[object, ...] = ()
    connection: sqlite3.Connection | None = None

    def of(self, files: TrialFiles, name: str) -> sqlite3.Connection:
        key = self._key(files, name)
        if self.connection is not None and key == self.key:
            return self.connection
        if self.connection is not None:
            self.connection.close()
        self.key, self.connection = (), None
        for _ in range(_TRIES):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                for end in _FILES:
                    _copied(files, name + end, f"{folder}/copy{end}")
                if self._key(files, name) == key:
                    self.connection = _folded(Path(folder) / "copy")
                    self.key = key
                    return self.connection
            key = self._key(files, name)
        # Its program commits: the next try may read it where it is, without a copy.
        raise OSError(errno.EBUSY, "a database that changes while it is copied")

    def _key(self, files: TrialFiles, name: str) -> tuple[object, ...]:
        states = [files.stat(name + end) for end in _FILES]
        return (files.root, name, *((s.st_size, s.st_mtime_ns) if s else None for s in states))


_copy = _Copy()


def _copied(files: TrialFiles, name: str, to: str) -> None:
    """What was written of a file; its holes stay holes."""
    opened = files.open(name)
    if not isinstance(opened, Absent):
        with opened, open(to, "wb") as copy:
            for start, end in _written(opened):
                copy.seek(start)
                for piece in pieces(opened, start, end):
                    copy.write(piece)
            copy.truncate(opened.size)


def _written(file: RegularFile) -> Iterator[tuple[int, int]]:
    """The parts of a file that are no holes; all of it where the system does not tell."""
    end = 0
    while end < file.size:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        except (AttributeError, OSError) as error:
            if getattr(error, "errno", None) != errno.ENXIO:  # there: a hole to the end
                yield end, file.size
            return
        yield start, end


def _folded(file: Path) -> sqlite3.Connection:
    """A connection to one file, into which its log was folded."""
    with closing(_ask(file, "mode=rw")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return _ask(file, "immutable=1")
