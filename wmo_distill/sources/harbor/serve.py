"""Jobs of `harbor serve`: trials in `DATA/files/rollouts/ID/TRIAL`, retries in a database.

Its database, `DATA/harbor.sqlite3`, is the only place that says which rollout is a retry of which:
table `internal_rollout`, columns `id` (also the trial's own id) and `retry_of`, neither of which
changes once the row is there. Read from Harbor 0.26.0; nothing is ever written to it.
"""

from pathlib import Path
from uuid import UUID

from wmo_distill.files import TrialFiles
from wmo_distill.sources.sqlite import Unreadable, from_database

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
    """The rollout that each retry repeats, by the retry's id; None without such a database."""
    try:
        rows = from_database(TrialFiles(data), _DATABASE, lambda c: c.execute(_QUERY).fetchall())
        return {a.decode(): b.decode() for a, b in rows if type(a) is type(b) is bytes}
    except (Unreadable, UnicodeDecodeError):
        return None
