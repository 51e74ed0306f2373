"""A directory that a command writes: told by the kind in its manifest, and replaced whole."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wmo_distill.errors import UsageError
from wmo_distill.files import Absent, parse_json, whole_file

MANIFEST = "manifest.json"


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
    if not any(out.iterdir()):
        return []
    path = out / MANIFEST
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
