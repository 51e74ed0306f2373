"""SQLite databases of other programs, opened to read: nothing is written to them or next to them.

A program that runs, or was killed, keeps its newest rows in a write-ahead log next to the file:

    traces.db                       WAL mode, whole: opened as a file that never changes
    traces.db, -wal                 a private copy of both is read
    traces.db, -wal, -shm           opened read-only; a copy where that cannot be done
    traces.db                       rollback mode: the same; a copy if a journal is left over
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles

MAGIC = b"SQLite format 3\0"
_SUFFIXES = (".db", ".db3", ".sqlite", ".sqlite3")
_START = 1 << 20
_HEADER = 100
_MODE = 18
"""Place of the file format's write version, which is 2 in WAL mode."""
_TRIES = 3
_FILES = ("", "-wal", "-journal")

FAULTS = (sqlite3.Error, OSError, MemoryError, OverflowError, UnicodeDecodeError)
"""What reading a row of a faulty database may raise; messages of SQLite's may be no UTF-8."""


class Unreadable(Exception):  # noqa: N818 - what was found, not an error of this program
    """`closed`: locked or not to be opened, now; else damaged."""

    def __init__(self, closed: bool) -> None:
        super().__init__("closed" if closed else "damaged")
        self.closed = closed


def may_hold(files: TrialFiles, name: str, table: str) -> bool:
    """Whether a file may be a database with such a table: by its name, and its first bytes.

    A schema is at the start of the file, or of the log.
    """
    if not name.endswith(_SUFFIXES):
        return False
    starts = [files.read(name, _START), files.read(f"{name}-wal", _START)]
    if starts[0] is Absent.UNREADABLE and files.stat(name) is not None:
        raise Unreadable(closed=True)
    return any(not isinstance(start, Absent) and table.encode() in start for start in starts)


@contextmanager
def database(files: TrialFiles, name: str) -> Iterator[sqlite3.Connection]:
    """A connection to a database below `files`, its texts as bytes.

    Unreadable where it cannot be opened, and for every fault while it is read.
    """
    try:
        connection = _connected(files, name)
        try:
            yield connection
        finally:
            if connection is not _copy.connection:
                connection.close()
    except sqlite3.OperationalError:
        raise Unreadable(closed=True) from None
    except FAULTS as error:
        raise Unreadable(closed=isinstance(error, OSError | MemoryError)) from None


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


def database_state(files: TrialFiles, name: str, *, openable: bool = False) -> FilesState:
    """Size and time of a database and its write-ahead log."""
    states = [files.stat(name), files.stat(f"{name}-wal")]
    if states[0] is None or (openable and not os.access(files.root / name, os.R_OK)):
        return NO_STATE
    known = [state for state in states if state is not None]
    return FilesState(sum(s.st_size for s in known), max(s.st_mtime_ns for s in known))


def _ordinary(sql: bytes) -> bool:
    return sql.upper().split()[:2] == [b"CREATE", b"TABLE"]


def _connected(files: TrialFiles, name: str) -> sqlite3.Connection:
    header = files.read(name, _HEADER)
    if isinstance(header, Absent):
        raise Unreadable(closed=header is Absent.UNREADABLE)
    if len(header) < _HEADER or not header.startswith(MAGIC):
        raise Unreadable(closed=False)
    sizes = {end: _size(files, name + end) for end in ("-wal", "-shm", "-journal")}
    file = files.root / name
    if sizes["-wal"] and sizes["-shm"] is None:
        return _copy.of(files, name)
    if header[_MODE] == 2 and not sizes["-wal"]:
        return _ask(file, "immutable=1")
    try:
        return _ask(file, "mode=ro")
    except sqlite3.OperationalError:
        # A log that needs recovery in a folder that is read-only, or a journal of a killed program.
        if sizes["-wal"] or sizes["-journal"]:
            return _copy.of(files, name)
        raise


def _size(files: TrialFiles, name: str) -> int | None:
    """None where nothing is there; SQLite would follow a link."""
    state = files.stat(name)
    if state is None and os.path.lexists(files.root / name):
        raise Unreadable(closed=True)
    return None if state is None else state.st_size


def _ask(file: Path, mode: str) -> sqlite3.Connection:
    name = quote(os.fsencode(file.absolute()))
    connection = sqlite3.connect(f"file:{name}?{mode}", uri=True, check_same_thread=False)
    try:
        connection.text_factory = bytes
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
        raise Unreadable(closed=True)

    def _key(self, files: TrialFiles, name: str) -> tuple[object, ...]:
        states = [files.stat(name + end) for end in _FILES]
        return (files.root, name, *((s.st_size, s.st_mtime_ns) if s else None for s in states))


_copy = _Copy()


def _copied(files: TrialFiles, name: str, to: str) -> None:
    opened = files.open(name)
    if not isinstance(opened, Absent):
        with opened, open(to, "wb") as copy:
            shutil.copyfileobj(opened, copy, 1 << 20)


def _folded(file: Path) -> sqlite3.Connection:
    """A connection to one file, into which its log was folded."""
    with closing(_ask(file, "mode=rw")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return _ask(file, "immutable=1")
