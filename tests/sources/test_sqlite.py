"""Databases of programs that run, that ended and that were killed: read, and left as they are."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.disk import PATIENCE
from wmo_distill.errors import ReadFault
from wmo_distill.files import TrialFiles
from wmo_distill.sources import growth, sqlite
from wmo_distill.sources.sqlite import Unreadable, from_database, has_tables, may_hold

NAME = "a b#?%.db"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of databases; private copies go to a place that must be empty at the end."""
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    (tmp_path / "databases").mkdir()
    yield tmp_path / "databases"
    assert list(copies.iterdir()) == []


def writer(folder: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / NAME, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE calls(x)")
    connection.execute("INSERT INTO calls VALUES ('one')")
    return connection


def rows(folder: Path) -> list[bytes]:
    found = asked(folder, "SELECT x FROM calls ORDER BY rowid")
    return [x for (x,) in found]


def asked(folder: Path, query: str, name: str = NAME) -> list[tuple[bytes, ...]]:
    return from_database(TrialFiles(folder), name, lambda c: c.execute(query).fetchall())


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time and bytes of all files, the shared memory of a log among them."""
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()}


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_while_it_is_written_to(folder: Path, mode: str) -> None:
    with closing(writer(folder, mode)) as connection:
        assert rows(folder) == [b"one"]
        connection.execute("INSERT INTO calls VALUES ('two')")
        assert rows(folder) == [b"one", b"two"]


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_nothing_of_a_database_in_use_is_written_to(folder: Path, mode: str) -> None:
    # In another process: connections of one process share what SQLite has opened.
    read = (
        "import pathlib, sys; from wmo_distill.files import TrialFiles;"
        "from wmo_distill.sources.sqlite import from_database;"
        "query = lambda c: c.execute('SELECT x FROM calls').fetchall();"
        "print(from_database(TrialFiles(pathlib.Path(sys.argv[1])), sys.argv[2], query))"
    )
    with closing(writer(folder, mode)):
        before = contents(folder)
        command = [sys.executable, "-c", read, str(folder), NAME]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "[(b'one',)]\n"
        assert contents(folder) == before


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_after_its_writer_ended(folder: Path, mode: str) -> None:
    writer(folder, mode).close()
    before = contents(folder)
    assert rows(folder) == [b"one"]
    assert contents(folder) == before


def test_a_log_without_shared_memory_is_read_from_a_copy(folder: Path) -> None:
    with closing(writer(folder, "WAL")):
        other = shutil.copytree(folder, folder.parent / "other", ignore=lambda *_: [NAME + "-shm"])
    before = {path.name for path in other.iterdir()}
    assert before == {NAME, NAME + "-wal"}
    saved = contents(other)
    assert rows(other) == rows(other) == [b"one"]
    assert {path.name for path in other.iterdir()} == before
    assert contents(other) == saved


def test_a_copy_is_made_again_when_the_log_grew(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    with closing(writer(folder, "WAL")) as connection:
        for found in ([b"one"], [b"one", b"two"]):
            for end in ("", "-wal"):
                shutil.copy(folder / (NAME + end), other / (NAME + end))
            assert rows(other) == found
            connection.execute("INSERT INTO calls VALUES ('two')")


def test_a_log_that_changes_while_it_is_copied_is_asked_for_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(writer(folder, "WAL")):
        other = shutil.copytree(folder, folder.parent / "other", ignore=lambda *_: [NAME + "-shm"])
    real, states = sqlite._Copy._key, iter(range(10))
    monkeypatch.setattr(
        sqlite._Copy, "_key", lambda *of: (*real(*of), next(states, "as it is at last"))
    )
    monkeypatch.setattr(PATIENCE, "left", 0.0)
    assert rows(other) == [b"one"]
    monkeypatch.setattr(sqlite._Copy, "_key", lambda *of: (object(),))
    with pytest.raises(ReadFault, match="changes while it is copied"):
        rows(other)


def test_a_transaction_of_a_killed_program_is_undone_in_a_copy(folder: Path) -> None:
    with closing(writer(folder, "DELETE")) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        for _ in range(500):
            connection.execute("INSERT INTO calls VALUES (?)", ("x" * 1000,))
        other = shutil.copytree(folder, folder.parent / "other")
        connection.execute("ROLLBACK")
    saved = contents(other)
    assert NAME + "-journal" in saved
    assert rows(other) == [b"one"]
    assert contents(other) == saved


def test_what_a_link_leads_to_is_not_opened(folder: Path) -> None:
    writer(folder, "WAL").close()
    with pytest.raises(Unreadable):
        asked(folder, "SELECT 1", "none.db")
    (folder / "link.db").symlink_to(folder / NAME)
    with pytest.raises(Unreadable):
        asked(folder, "SELECT 1", "link.db")
    (folder / (NAME + "-wal")).symlink_to(folder / "elsewhere")
    with pytest.raises(ReadFault, match="a link"):
        rows(folder)


def test_a_database_that_cannot_be_read_is_not_a_damaged_one(folder: Path) -> None:
    writer(folder, "DELETE").close()
    with pytest.raises(ReadFault, match="no such column"):
        asked(folder, "SELECT y FROM calls")
    with closing(sqlite3.connect(folder / NAME, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PATIENCE, "left", 0.0)
            with pytest.raises(ReadFault, match=r"a b#\?%\.db.*locked"):
                rows(folder)
    (folder / NAME).write_bytes((folder / NAME).read_bytes()[:4096] + b"\x99" * 4096)
    with pytest.raises(Unreadable):
        rows(folder)


def test_tables_are_recognised_by_their_columns(folder: Path) -> None:
    writer(folder, "WAL").close()
    files = TrialFiles(folder)
    assert may_hold(files, NAME, "calls")
    assert not may_hold(files, NAME, "other")
    for wanted, there in (
        ({"calls": {"x"}}, True),
        ({"calls": {"x", "y"}}, False),
        ({"o": set()}, False),
    ):
        assert from_database(files, NAME, partial(has_tables, wanted=wanted)) is there


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="files have no holes here")
def test_the_holes_of_a_large_database_are_not_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200 MB that nobody wrote nothing is read: who reserves space makes such files."""
    with closing(writer(folder, "WAL")) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        for end in ("", "-wal"):
            shutil.copy(folder / f"{NAME}{end}", folder / f"killed.db{end}")
    os.truncate(folder / "killed.db", 200_000_000)
    if os.stat(folder / "killed.db").st_blocks * 512 > 1_000_000:
        pytest.skip("a file system without holes")
    copied: list[int] = []

    def counted(*where: Any) -> Iterator[bytes]:
        for piece in growth.pieces(*where):
            copied.append(len(piece))
            yield piece

    monkeypatch.setattr(sqlite, "pieces", counted)
    assert asked(folder, "SELECT x FROM calls", "killed.db") == [(b"one",)]
    assert sum(copied) < 1_000_000
