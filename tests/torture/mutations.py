"""Recorded files damaged as they are in the field: pure functions from bytes to bytes.

A file is a text of JSON lines, one JSON document, an SQLite database or its log, or anything else;
which changes there are for it is decided by its content. `AWAY` are changes of its directory.
"""

import json
import os
import random
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import mutated

Change = Callable[[bytes, random.Random], bytes]
STORE = b"SQLite format 3\0"
_LOG = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_JOINT = re.compile(rb"[{}\[\],:\n]|\"")
_OTHERS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 5.0, 0.25, -0.0, 2**31 - 1, 2**31, 2**63, 2**64, 10**400, "", "x",
    "0", "a/b", "../../x", "a#b", "\ud800", "\u2028\0", [], {}, [None], [[]], [1, 2, 3], {"a": 1},
    float("nan"), float("inf"), -9999.0,
)  # fmt: skip
"""Values of every type for the place of one."""


def changes(data: bytes) -> list[Change]:
    """The ways to damage a file of this content."""
    if data.startswith(STORE):
        return [*_PAGES, cell_retyped, row_removed, row_doubled]
    if data.startswith(_LOG):
        return [*_PAGES]
    return _TEXT + _LINES * (data.count(b"\n") > 1)


def bit_flipped(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def cut_at_a_joint(data: bytes, rng: random.Random) -> bytes:
    """Right after or before a place where JSON has structure."""
    at = rng.choice([match.end() for match in _JOINT.finditer(data)] or [len(data) // 2])
    return data[: max(0, at - rng.randrange(2))]


def cut_anywhere(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def tokens_changed(data: bytes, rng: random.Random) -> bytes:
    return mutated(data, rng)


def value_retyped(data: bytes, rng: random.Random) -> bytes:
    """A value by its path: another type, gone, under another key, twice in its list."""
    lines = data.split(b"\n") if _is_lines(data) else [data]
    at = rng.choice([n for n, line in enumerate(lines) if line.strip()] or [0])
    with suppress(ValueError, RecursionError):
        value = json.loads(lines[at])
        return b"\n".join([*lines[:at], _text(_changed(value, rng)), *lines[at + 1 :]])
    return tokens_changed(data, rng)


def marked(data: bytes, rng: random.Random) -> bytes:
    """Bytes before or after, of other programs, editors and half-written pages."""
    mark = rng.choice([b"\xef\xbb\xbf", b"\0" * 512, b"\n\n", b"\r\n", b"null\n", b"{}\n", b"\xff"])
    return mark + data if rng.random() < 0.5 else data + mark


def of_windows(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", b"\r\n")


def twice(data: bytes, rng: random.Random) -> bytes:
    return data + data


def line_removed(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def line_doubled(data: bytes, rng: random.Random) -> bytes:
    """Next to itself, or at the end."""
    lines = data.splitlines(keepends=True)
    line = rng.choice(lines)
    lines.insert(rng.choice([lines.index(line), len(lines)]), line)
    return b"".join(lines)


def lines_shuffled(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines)


def lines_joined(data: bytes, rng: random.Random) -> bytes:
    at = rng.choice([n for n, byte in enumerate(data) if byte == 10])
    return data[:at] + data[at + 1 :]


def line_torn_inside(data: bytes, rng: random.Random) -> bytes:
    """A line cut off, and the next begun on it, as two writers leave it."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines) - 1)
    torn = lines[at][: rng.randrange(len(lines[at]) + 1)] + lines[at + 1]
    return b"\n".join([*lines[:at], torn, *lines[at + 1 :]])


def page_zeroed(data: bytes, rng: random.Random) -> bytes:
    size = _page(data)
    at = rng.randrange(-(-len(data) // size)) * size
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def pages_cut(data: bytes, rng: random.Random) -> bytes:
    size = _page(data)
    return data[: rng.randrange(-(-len(data) // size)) * size]


def cell_retyped(data: bytes, rng: random.Random) -> bytes:
    """A value of a table, or one inside the JSON text that it holds."""

    def change(store: sqlite3.Connection, table: str, key: int) -> None:
        row = store.execute(f'SELECT * FROM "{table}" WHERE rowid=?', (key,))
        names, values = [column[0] for column in row.description], row.fetchone()
        at = rng.randrange(len(names))
        new: Any = rng.choice([None, -1, 0.5, "", "x", b"\xff\0", 2**62])
        if isinstance(values[at], str) and rng.random() < 0.8:
            new = value_retyped(values[at].encode(), rng)
        query = f'UPDATE OR REPLACE "{table}" SET "{names[at]}"=? WHERE rowid=?'
        cast = query.replace("=?", "=CAST(? AS TEXT)", 1) if isinstance(new, bytes) else query
        store.execute(cast, (new, key))

    return _in_store(data, rng, change)


def row_removed(data: bytes, rng: random.Random) -> bytes:
    def change(store: sqlite3.Connection, table: str, key: int) -> None:
        store.execute(f'DELETE FROM "{table}" WHERE rowid=?', (key,))

    return _in_store(data, rng, change)


def row_doubled(data: bytes, rng: random.Random) -> bytes:
    """Under another key where the table has one."""

    def change(store: sqlite3.Connection, table: str, key: int) -> None:
        columns = [f'"{row[1]}"' for row in store.execute(f'PRAGMA table_info("{table}")')]
        others = ", ".join(
            f"{name} || '-2'" if name in ('"trace_id"', '"seq_id"') else name
            for name in columns
            if name != '"cursor"'
        )
        names = ", ".join(name for name in columns if name != '"cursor"')
        store.execute(
            f'INSERT OR IGNORE INTO "{table}" ({names}) SELECT {others} FROM "{table}"'
            " WHERE rowid=?",
            (key,),
        )

    return _in_store(data, rng, change)


_TEXT: list[Change] = [
    bit_flipped, cut_at_a_joint, cut_anywhere, tokens_changed, tokens_changed, value_retyped,
    value_retyped, value_retyped, value_retyped, marked, of_windows, twice,
]  # fmt: skip
_LINES: list[Change] = [
    line_removed, line_doubled, lines_shuffled, lines_joined, line_torn_inside,
]  # fmt: skip
_PAGES: list[Change] = [bit_flipped, bit_flipped, page_zeroed, pages_cut, cut_anywhere]


def removed(path: Path, others: list[Path]) -> None:
    path.unlink()


def emptied(path: Path, others: list[Path]) -> None:
    path.write_bytes(b"")


def renamed(path: Path, others: list[Path]) -> None:
    path.rename(path.with_name(f"{path.name}.bak"))


def named_as_another(path: Path, others: list[Path]) -> None:
    """In the place of another file of its directory."""
    files = [other for other in others if other.is_file()]
    path.replace(files[0] if files else path.with_suffix(".json"))


def is_a_directory(path: Path, others: list[Path]) -> None:
    path.unlink()
    path.mkdir()


def is_a_link(path: Path, others: list[Path]) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def is_a_broken_link(path: Path, others: list[Path]) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def is_a_pipe(path: Path, others: list[Path]) -> None:
    path.unlink()
    os.mkfifo(path)


AWAY: dict[str, Callable[[Path, list[Path]], None]] = {
    change.__name__: change
    for change in (removed, emptied, renamed, named_as_another, is_a_directory, is_a_link,
                   is_a_broken_link, is_a_pipe)
}  # fmt: skip
"""Each takes a file out of its place; it is given the other files of the directory."""


def _is_lines(data: bytes) -> bool:
    """Whether the first line is a document of its own."""
    with suppress(ValueError, RecursionError):
        json.loads(data.partition(b"\n")[0])
        return b"\n" in data.rstrip(b"\n")
    return False


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _changed(value: Any, rng: random.Random) -> Any:
    """The value with one of its parts changed, each key and element as likely as another."""
    places = list(_places(value))
    if not places:
        return rng.choice(_OTHERS)
    holder, key = rng.choice(places)
    way = rng.random()
    if way < 0.6:
        holder[key] = rng.choice(_OTHERS)
    elif way < 0.75:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), holder[key])
    else:
        holder[f"{key}_"] = holder.pop(key)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(holder, key) of all that a value holds; of long lists of numbers some."""
    waiting = [value] if isinstance(value, list | dict) else []
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        flat = isinstance(holder, list) and not any(isinstance(x, list | dict) for x in holder)
        for key in keys if not flat else [k for k in keys if k in (0, 1, len(holder) - 1)]:
            yield holder, key
            if isinstance(holder[key], list | dict):
                waiting.append(holder[key])


def _page(data: bytes) -> int:
    size = int.from_bytes(data[16:18], "big") if data.startswith(STORE) else 4096 + 24
    return 65536 if size == 1 else size or 4096


def _in_store(
    data: bytes, rng: random.Random, change: Callable[[sqlite3.Connection, str, int], None]
) -> bytes:
    """A database in which something was done to one row."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        path.write_bytes(data)
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as store:
            names = "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite%'"
            tables = [name for (name,) in store.execute(names)]
            rows = [(t, k) for t in tables for (k,) in store.execute(f'SELECT rowid FROM "{t}"')]
            if rows:
                change(store, *rng.choice(rows))
            store.commit()
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return path.read_bytes()
