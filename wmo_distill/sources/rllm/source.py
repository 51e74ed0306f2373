"""rLLM's model gateway: an SQLite store of traces, one a call, each in a session.

Wheel and git have one version number and two layouts: of git are `weight_version` and
`routing_matrices`. Rows are written by background tasks, so `timestamp` gives the order.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from wmo_distill.files import NO_STATE, FilesState, TrialFiles
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import Folder, FoundTrial, Here, in_each
from wmo_distill.sources.captured import Roots, damaged_store, episode_in, name_in_path
from wmo_distill.sources.evidence import (
    Evidence,
)
from wmo_distill.sources.growth import NO_MARK, Own, mark_by_size
from wmo_distill.sources.rllm.reading import Reading, Session, mark, seconds
from wmo_distill.sources.sqlite import (
    Unreadable,
    database_state,
    from_database,
    has_tables,
    may_hold,
    row_of,
    size_of,
    text_of,
)
from wmo_distill.tokenjson.reader import parsed
from wmo_distill.tokenjson.rows import id_row

_TABLES = {"traces": {"trace_id", "data"}, "trace_sessions": {"trace_id", "session_id"}}
_SESSIONS = """SELECT s.session_id, {run}, t.rowid FROM trace_sessions s
    LEFT JOIN traces t ON t.trace_id = s.trace_id ORDER BY s.rowid"""
_WITHOUT = """SELECT rowid FROM traces t
    WHERE NOT EXISTS (SELECT 1 FROM trace_sessions s WHERE s.trace_id = t.trace_id)"""
_TRACE = "SELECT trace_id FROM traces WHERE rowid = ?"
_OF_A_TASK = re.compile(r"(.+):(\d{1,9})")


class RllmGateway:
    """The source `rllm_gateway`."""

    kind = "rllm_gateway"

    def find(self, folder: Folder) -> Here:
        """The sessions of the stores in a directory."""
        files = TrialFiles(folder.path)
        found, faults = in_each(sorted(folder.files), partial(self._in_store, folder, files))
        return Here(tuple(found), faults=faults)

    def _in_store(self, folder: Folder, files: TrialFiles, name: str) -> list[FoundTrial]:
        if not may_hold(files, name, "trace_sessions"):
            return []
        whole = database_state(files, name)
        try:
            sessions = from_database(files, name, _sessions)
        except Unreadable:
            return [damaged_store(self.kind, folder, name)]
        return [
            episode_in(self.kind, folder, name, label, replace(session, own=Own(state, (whole,))))
            for label, (session, state) in sessions.items()
        ]

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        """That of the session's own traces."""
        session = found.locator
        files, name = TrialFiles(found.root.parent), found.root.name
        if not isinstance(session, Session):
            return database_state(files, name)

        def look() -> FilesState:
            with suppress(Unreadable):
                return from_database(files, name, lambda connection: _state(connection, session))
            return NO_STATE

        return session.own.now((database_state(files, name),), look)

    def exact_state(self, found: FoundTrial, known: FilesState | None) -> FilesState:
        """By the texts of the traces that are there now."""
        session = found.locator
        files, name = TrialFiles(found.root.parent), found.root.name
        if not isinstance(session, Session):
            return database_state(files, name)
        if known is not None and (database_state(files, name),) == session.own.files:
            return known

        def look(connection: sqlite3.Connection) -> FilesState:
            return session.state_of({row: mark(_record(connection, row)) for row in session.rows})

        with suppress(Unreadable):
            return from_database(files, name, look)
        return NO_STATE

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        """One episode; none of a store that is damaged as a whole."""
        session = found.locator
        if not isinstance(session, Session):
            return []

        def read(connection: sqlite3.Connection) -> Reading:
            reading = Reading(extra=options.extra)
            for row in session.rows:
                record = _record(connection, row)
                reading.add(row, _trace(record, reading.parse), mark(record))
            return reading

        try:
            reading = from_database(TrialFiles(found.root.parent), found.root.name, read)
        except Unreadable:
            reading = Reading(extra=options.extra)
            reading.damaged = len(session.rows)
        return [reading.evidence(found, session)]


def _state(connection: sqlite3.Connection, session: Session) -> FilesState:
    """By the sizes of the traces that are there now."""
    marks = {}
    for row in session.rows:
        found = row_of(connection, _TRACE, row)
        size = None if found is None else size_of(connection, "traces", "data", row)
        own = b"" if found is None or not isinstance(found[0], bytes) else found[0]
        marks[row] = NO_MARK if size is None else mark_by_size(len(own) + size, row, own)
    return session.state_of(marks)


def _sessions(connection: sqlite3.Connection) -> dict[str, tuple[Session, FilesState]]:
    """The sessions by their name in a path; none in a database of another program."""
    if not has_tables(connection, _TABLES):
        return {}
    # A later layout also has the gateway's run, in which another session may have the same name.
    has_runs = has_tables(connection, {"trace_sessions": {"run_id"}})
    query = _SESSIONS.format(run="s.run_id" if has_runs else "NULL")
    rows: dict[tuple[str, str], list[int]] = {}
    lost: Counter[tuple[str, str]] = Counter()
    for name, run, row in connection.execute(query):
        key = _text(name), _text(run)
        of_session = rows.setdefault(key, [])
        if row is None:
            lost[key] += 1
        else:
            of_session.append(row)
    loose = [row for (row,) in connection.execute(_WITHOUT)]
    tasks = {name: _OF_A_TASK.fullmatch(name) for name, _ in rows}
    named = all(tasks.values())
    found: dict[str, Session] = {}
    for (name, run), of_session in rows.items():
        session = Session(name, run, tuple(of_session), lost[name, run])
        task = tasks[name]
        if named and task is not None:
            session = replace(session, task=task[1], attempt=int(task[2]))
        found[name_in_path(*name.split(":")) + (f"@{name_in_path(run)}" if run else "")] = session
    for start, of_root in _chats(connection, loose).items():
        found[f"unattributed~{start}"] = Session(rows=tuple(of_root))
    return {name: (session, _state(connection, session)) for name, session in found.items()}


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _chats(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, list[int]]:
    """Traces without a session by the row of the first one that they go back to."""
    roots = Roots()
    chats: dict[int, list[int]] = {}
    times = {row: seconds(_trace(_record(connection, row)) or {}) for row in rows}
    for row in sorted(rows, key=lambda row: (times[row], row)):
        trace = _trace(_record(connection, row)) or {}
        prompt = id_row(trace.get("prompt_token_ids")).delta
        answer = id_row(trace.get("completion_token_ids")).delta
        chats.setdefault(roots.add(row, prompt, [answer]), []).append(row)
    return chats


def _record(connection: sqlite3.Connection, row: int) -> tuple[Any, bytes] | None:
    """(id, text) of a trace; None if it is gone or damaged."""
    found = row_of(connection, _TRACE, row)
    data = None if found is None else text_of(connection, "traces", "data", row)
    return None if found is None or data is None else (found[0], data)


def _trace(
    found: tuple[Any, bytes] | None, parse: Callable[[bytes], Any] = parsed
) -> Mapping[str, Any] | None:
    """The trace of a record, None if it is damaged."""
    value = None if found is None else parse(found[1])
    if found is None or not isinstance(value, dict):
        return None
    own = found[0].decode("utf-8", "replace") if isinstance(found[0], bytes) else found[0]
    return value if value.get("trace_id", own) == own else None
