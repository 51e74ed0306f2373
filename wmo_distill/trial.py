"""One trial directory to records, for a caller who has a path."""

import os
from pathlib import Path

from wmo_distill.errors import UsageError
from wmo_distill.options import BuildOptions
from wmo_distill.records import TrialRecord
from wmo_distill.sources.harbor.discovery import found_at
from wmo_distill.trials.read import read_trial_dir


def read_trial(
    path: str | os.PathLike[str], options: BuildOptions | None = None
) -> tuple[TrialRecord, ...]:
    """The records of the trial in a directory, one an episode; `attempt` is None.

    UsageError if there is no directory; nothing that lies in it raises.
    """
    root = Path(path).absolute()
    if not root.is_dir():
        raise UsageError(f"{path}: expected a trial directory, found none; check the path")
    found = found_at(root, root.parent)
    return read_trial_dir(found, options or BuildOptions()).records
