"""New files of a dataset, kept apart until all are there, then put in place in one go.

A staging directory with a manifest in it is a decision: everything before it is synced, and who
finds it after a crash finishes the move. One without a manifest is worth nothing.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wmo_distill.errors import UsageError
from wmo_distill.files import sync_directory
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.schema import LEDGER_FILE, MANIFEST_FILE, PARTS_DIR

_PREFIX = ".staging-"
_PART = re.compile(r"part-(\d{5,})\.parquet")


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def part_number(file: str) -> int:
    """The number of a part by its path; -1 for a file of another name."""
    match = _PART.fullmatch(file.rpartition("/")[2])
    return int(match[1]) if match else -1


def is_own(out: Path, name: str) -> bool:
    """Whether an entry of a dataset directory is one that a build leaves there."""
    if name == PARTS_DIR:
        try:
            names = os.listdir(out / name)
        except OSError:
            return False
        return all(part_number(n) >= 0 or n.endswith(".tmp") for n in names)
    return name in (MANIFEST_FILE, LEDGER_FILE, ".lock") or name.startswith(
        (_PREFIX, f".{LEDGER_FILE}.", f".{MANIFEST_FILE}.")
    )


@contextmanager
def staging(out: Path) -> Iterator[Path]:
    """A directory for new files; what was not committed is gone afterwards.

    UsageError where none can be made.
    """
    try:
        place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=out))
    except OSError as error:
        raise UsageError(
            f"{out}: expected a directory that can be written to, found: {error.strerror}; "
            "change its permissions, or name another with -o"
        ) from None
    try:
        (place / PARTS_DIR).mkdir()
        yield place
    finally:
        if (place / MANIFEST_FILE).exists():
            _move(place, out)
        shutil.rmtree(place, ignore_errors=True)


def recover(out: Path) -> None:
    """Finish the commit that a crash broke off; drop the files of builds that had none."""
    for place in sorted(out.glob(f"{_PREFIX}*")):
        if (place / MANIFEST_FILE).exists():
            _move(place, out)
        shutil.rmtree(place, ignore_errors=True)


def _move(place: Path, out: Path) -> None:
    """Parts first, the manifest last; each step can be done again."""
    parts = out / PARTS_DIR
    parts.mkdir(exist_ok=True)
    for file in sorted((place / PARTS_DIR).iterdir()):
        os.replace(file, parts / file.name)
    sync_directory(parts)
    if (place / LEDGER_FILE).exists():
        os.replace(place / LEDGER_FILE, out / LEDGER_FILE)
    os.replace(place / MANIFEST_FILE, out / MANIFEST_FILE)
    sync_directory(out)
    drop_unnamed(out, (part.file for part in read_manifest(out).parts))


def drop_unnamed(out: Path, named: Iterable[str]) -> None:
    """Remove the parts that the manifest does not name."""
    kept = {file.rpartition("/")[2] for file in named}
    parts = out / PARTS_DIR
    for name in os.listdir(parts) if parts.is_dir() else ():
        if name not in kept and (part_number(name) >= 0 or name.endswith(".tmp")):
            (parts / name).unlink(missing_ok=True)
