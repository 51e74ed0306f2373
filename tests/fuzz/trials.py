"""Directories of trials in which one file at a time is replaced, read, and held to the oracle."""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.oracle import Recorded, check, recorded
from wmo_distill.options import BuildOptions
from wmo_distill.sources.finding import discover
from wmo_distill.trial import read_found

_STORE = b"SQLite format 3\0"
_JOURNALS = ("-wal", "-shm", "-journal")


class Cell(NamedTuple):
    """One text of a database."""

    table: str
    column: str
    rowid: int


@dataclass
class Bundle:
    """A directory of trials; `check` puts another file in the place of one of its own."""

    files: Mapping[str, bytes]
    folder: Path
    whole: bool = True
    """Whether each prompt and each answer is a recorded list of its own."""
    _changed: str = ""
    _others: dict[str, Recorded] = field(default_factory=dict)

    def check(self, name: str, data: bytes) -> None:
        """Read what is there with `data` in place of a file; raises where an invariant breaks."""
        self._begin(name)
        self._put(name, data)
        known = None
        if name not in self.stores:
            known = recorded([data])
            known.update(self._rest(name))
        self._read(known, data)

    def check_cell(self, name: str, cell: Cell, data: bytes) -> None:
        """The same with another text in one cell of a store."""
        self._begin(name)
        with closing(sqlite3.connect(self.folder / name, isolation_level=None)) as store:
            store.execute("PRAGMA synchronous=OFF")
            change = f'UPDATE "{cell.table}" SET "{cell.column}"=CAST(? AS TEXT) WHERE rowid=?'
            store.execute(change, (data, cell.rowid))
        known = recorded([data])
        known.update(self._rest(name))
        known.update(recorded(text for at, text in cells(self.folder / name) if at != cell))
        self._read(known, data)

    @cached_property
    def stores(self) -> list[str]:
        """The databases, each of which can be damaged as such."""
        return [name for name, data in self.files.items() if data[:16] == _STORE]

    def _begin(self, name: str) -> None:
        """All files as they were; stores always, and what SQLite has put next to them."""
        if not self._changed:
            changed = set(self.files)
        else:
            changed = {self._changed}
            if self.stores:
                changed |= {file for file in self.files if file.startswith(tuple(self.stores))}
        for file in changed:
            self._put(file, self.files[file])
        for store in self.stores:
            for path in (self.folder / f"{store}{end}" for end in _JOURNALS):
                if path.relative_to(self.folder).as_posix() not in self.files:
                    path.unlink(missing_ok=True)
        self._changed = name

    def _read(self, known: Recorded | None, data: bytes) -> None:
        sinks = self.folder / "sink"
        options = BuildOptions(sinks=sinks if sinks.is_dir() else None, reward_files=True)
        for found in discover([self.folder]).trials:
            trial = read_found(found, options)
            check(trial, known, whole=self.whole, encoded=zlib.crc32(data) % 8 == 0)

    def _put(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _rest(self, name: str) -> Recorded:
        """What the other files hold."""
        if name not in self._others:
            rest = (data for file, data in self.files.items() if file != name)
            self._others[name] = recorded(rest)
        return self._others[name]


def cells(path: Path) -> Iterator[tuple[Cell, bytes]]:
    """The texts of a store that hold JSON."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        store.text_factory = bytes
        tables = store.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
        for name in [table.decode() for (table,) in tables]:
            rows = store.execute(f'SELECT rowid, * FROM "{name}"')
            columns = [column[0] for column in rows.description]
            for rowid, *row in rows:
                for column, value in zip(columns[1:], row, strict=True):
                    if isinstance(value, bytes) and value[:1] in (b"{", b"["):
                        yield Cell(name, column, rowid), value
