"""A directory that a command writes: told by the kind in its manifest, and replaced whole."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wmo_distill.errors import UsageError
from wmo_distill.files import Absent, parse_json, whole_file

MANIFEST = "manifest.json"
# What runs write before their manifest: whole files, and those that were being written.
_LEFT = re.compile(
    r"(parts/)?(datums|data)-\d{5,}\.(parquet|jsonl)"
    r"|(parts/)?\.(datums-|data-|manifest)[^/]*\.tmp"
)


def kind_of(out: Path) -> str | None:
    """The kind that a directory's manifest tells, None where it tells none."""
    try:
        value = parse_json((out / MANIFEST).read_bytes())
    except OSError:
        return None
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def earlier_files(
    out: Path, kind: str, key: str, settled: Mapping[str, Any], *, fresh: bool
) -> list[str]:
    """The files under `key` in the manifest of an earlier run, none for a new directory.

    UsageError where `out` is something else, or, unless `fresh`, where a value that the manifest
    holds differs from the `settled` one of that name: nothing of it may be replaced.
    """
    what = kind.rpartition(" ")[2]
    if not out.exists():
        return []
    if not out.is_dir():
        raise UsageError(f"{out}: expected a directory for {what}, found a file; name another")
    path = out / MANIFEST
    if not path.exists() and _clear_leftovers(out):
        return []
    value = parse_json(path.read_bytes()) if path.is_file() else Absent.MISSING
    if not isinstance(value, dict) or value.get("kind") != kind:
        raise UsageError(
            f"{out}: expected an empty directory or {what} of an earlier run, "
            "found something else; name another directory"
        )
    for name, wanted in settled.items():
        found = value.get(name)
        if found != wanted and not fresh:
            raise UsageError(f"{out}: {_difference(name, wanted, found)}; name another, or --fresh")
    return [str(name) for name in value.get(key, [])]


def is_leftover(name: str, stem: str) -> bool:
    """Whether a name is that of a file which a killed run was writing."""
    return name.startswith(f".{stem}-") and name.endswith(".tmp")


def _clear_leftovers(out: Path) -> bool:
    """Take away what a killed first run left; False where something else lies there too."""
    files = [p for p in out.rglob("*") if not p.is_dir() or p.is_symlink()]
    if not all(_LEFT.fullmatch(p.relative_to(out).as_posix()) for p in files):
        return False
    if any(p.is_dir() and p.name != "parts" for p in out.iterdir()):
        return False
    for file in files:
        file.unlink(missing_ok=True)
    return True


def _difference(name: str, wanted: Any, found: Any) -> str:
    """Which of the values differs, of a mapping the first one."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in wanted:
            if wanted[key] != found.get(key):
                name, wanted, found = key, wanted[key], found.get(key)
                break
    return f"expected {name} as in the run before, {found!r}, found {wanted!r}"


def next_number(old: Iterable[str]) -> int:
    """The number after those of earlier files, such as `data-00003.jsonl`: none is overwritten."""
    numbers = [int(name.rsplit("-", 1)[1].split(".")[0]) for name in old]
    return max(numbers, default=-1) + 1


def replace_manifest(out: Path, told: Mapping[str, Any], old: Iterable[str]) -> None:
    """Put the manifest of new files in its place, whole, and then take the earlier ones away."""
    with whole_file(out / MANIFEST) as temporary:
        temporary.write_text(json.dumps(told, indent=1) + "\n")
    for name in old:
        (out / name).unlink(missing_ok=True)
