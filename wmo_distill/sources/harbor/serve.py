"""Jobs of `harbor serve`: trials in `DATA/files/rollouts/ID/TRIAL`, retries in a database.

Its database, `DATA/harbor.sqlite3`, is the only place that says which rollout is a retry of which:
table `internal_rollout`, columns `id` (also the trial's own id) and `retry_of`, neither of which
changes once the row is there. Read from Harbor 0.26.0; nothing is ever written to it.
"""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from uuid import UUID

_DATABASE = "harbor.sqlite3"
_QUERY = "SELECT id, retry_of FROM internal_rollout WHERE retry_of IS NOT NULL"


def rollout_id(root: Path) -> str | None:
    """The id in the path of a served trial, `rollouts/ID/TRIAL`; None for any other path."""
    folder = root.parent
    if folder.parent.name != "rollouts":
        return None
    try:
        return folder.name if str(UUID(folder.name)) == folder.name else None
    except ValueError:
        return None


def data_directory(root: Path) -> Path:
    """Where the database of a served trial is, if the trial still is where the server put it."""
    return root.parents[3] if len(root.parents) > 3 else root.parent


def read_retries(data: Path) -> dict[str, str] | None:
    """The rollout that each retry repeats, by the retry's id; None without a readable database."""
    file = data / _DATABASE
    if not file.is_file():
        return None
    try:
        return _retries(file)
    except (sqlite3.Error, OSError):
        return None


def _retries(file: Path) -> dict[str, str]:
    """A server that runs keeps its newest rows in files next to the database.

    Without such rows the file is opened as one that never changes, which makes no file next to it;
    with them and no shared memory next to it, a copy is read.
    """
    log, shared = (file.with_name(file.name + end) for end in ("-wal", "-shm"))
    if not log.is_file() or not log.stat().st_size:
        return _ask(file, "immutable=1")
    if shared.is_file():
        return _ask(file, "mode=ro")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / _DATABASE
        shutil.copyfile(file, copy)
        shutil.copyfile(log, copy.with_name(log.name))
        return _ask(copy, "mode=ro")


def _ask(file: Path, mode: str) -> dict[str, str]:
    name = os.fspath(file.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    with closing(sqlite3.connect(f"file:{name}?{mode}", uri=True)) as connection:
        rows = connection.execute(_QUERY).fetchall()
    return {a: b for a, b in rows if isinstance(a, str) and isinstance(b, str)}
