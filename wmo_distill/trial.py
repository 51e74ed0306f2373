"""One trial to records, for a caller who has a path, and for the workers of a build."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wmo_distill.credentials import without_credentials
from wmo_distill.disk import is_directory
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import ReadTrial, ScoreCell, TrialRecord
from wmo_distill.scanner import scanner_of, without_secrets
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.finding import found_at
from wmo_distill.sources.registry import source_of
from wmo_distill.trials.record import trial_records


def read_trial(
    path: str | os.PathLike[str], options: BuildOptions | None = None
) -> tuple[TrialRecord, ...]:
    """The records of the trial in a directory, one an episode; `attempt` is None.

    UsageError if there is no directory, DistillError if the system does not give what is there, or
    if it is too large; nothing in it raises otherwise.
    """
    root = Path(path).absolute()
    if not is_directory(root):
        raise UsageError(f"{path}: expected a trial directory, found none; check the path")
    found = found_at(root, root.parent)
    if found.fault:
        raise DistillError(found.fault)
    return read_found(found, options or BuildOptions()).records


def read_found(
    found: FoundTrial, options: BuildOptions, cells: Sequence[ScoreCell] = ()
) -> ReadTrial:
    """The records of a trial that a search found, graded by `cells` where given."""
    source = source_of(found.source)
    episodes = source.read(found, options)
    if found.cut:
        said = (Issue.CREDENTIAL_CUT,)
        episodes = [replace(one, issues=(*one.issues, *said)) for one in episodes]
    read = trial_records(source.kind, episodes, options, cells)
    if options.on_secret is None or options.tokenizer is None:
        return read
    scanner = scanner_of(options.tokenizer)
    records = [without_secrets(record, scanner, options.on_secret) for record in read.records]
    return replace(read, records=tuple(records))


def read_identity(found: FoundTrial) -> tuple[str | None, str]:
    """(trial_id, trial_name) as the trial's records have them."""
    identity = source_of(found.source).read(found, BuildOptions(extra=False))[0].identity
    whole = identity.trial_id
    return whole and without_credentials(whole), without_credentials(identity.trial_name)
