"""A dataset directory as a build finds it: what it holds, and whether a build may go on there."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wmo_distill.errors import UsageError
from wmo_distill.files import Absent, parse_json, path_text
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.staging import is_own, part_number
from wmo_distill.shards.ledger import LedgerRow, read_ledger
from wmo_distill.shards.manifest import TOOL, Manifest, read_manifest
from wmo_distill.shards.schema import MANIFEST_FILE, PARTS_DIR

CELLS_OPTION = "cells"
"""Where the manifest's options hold the digests of the cells, by trial path."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """What earlier builds left; no manifest before the first, or where all is built anew."""

    manifest: Manifest | None = None
    rows: Mapping[str, LedgerRow] = field(default_factory=dict)
    next_number: int = 0
    """The first part number that no manifest has named."""


def check_out(out: Path, *, fresh: bool) -> None:
    """UsageError unless `out` is a dataset, what a build left unfinished, empty, or not there."""
    try:
        names = sorted(os.listdir(out))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"{out}: expected a directory for the dataset, found: {error.strerror}; "
            "name another with -o"
        ) from None
    if MANIFEST_FILE in names:
        if not (fresh and _was_ours(out)):
            read_manifest(out)
        return
    other = [name for name in names if not is_own(out, name)]
    if other:
        told = ", ".join(map(path_text, other[:3])) + (", ..." if len(other) > 3 else "")
        raise UsageError(
            f"{out}: expected a dataset or an empty directory, found other files ({told}); "
            "name another directory with -o"
        )


def open_dataset(out: Path, options: Mapping[str, Any], *, fresh: bool) -> Dataset:
    """The dataset to go on with; UsageError where it is damaged or had other options."""
    if not (out / MANIFEST_FILE).exists():
        return Dataset()
    if fresh:
        return Dataset(next_number=_next_number(out))
    manifest = read_manifest(out)
    _check_options(out, manifest.options, options)
    _check_parts(out, manifest)
    rows = read_ledger(out, manifest.ledger, _cells_before(out, manifest))
    named = {part.file for part in manifest.parts}
    lost = next((row.path for row in rows.values() if row.written and row.part not in named), None)
    if lost is not None or len(rows) != manifest.totals.found:
        raise UsageError(
            f"{out}: expected a ledger of {manifest.totals.found} trials in the manifest's parts, "
            f"found {len(rows)}"
            + ("" if lost is None else f", {lost} in another part")
            + "; restore the files, or build again with --fresh"
        )
    return Dataset(manifest, rows, 1 + max(part_number(part.file) for part in manifest.parts))


def parent_of(manifest: Manifest, places: list[Path]) -> Path:
    """The dataset's parent, as the PATHs spell it where they lie below it."""
    for place in places:
        absolute = Path(os.path.abspath(place))
        for above in (absolute, *absolute.parents):
            if path_text(above) == manifest.parent:
                return above
    return Path(manifest.parent)


def _check_options(out: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in sorted(before.keys() | now.keys()):
        if name != CELLS_OPTION and before.get(name) != now.get(name):
            flag = BuildOptions.flag(name) if name in BuildOptions.model_fields else name
            raise UsageError(
                f"{out / MANIFEST_FILE}: {flag}: expected {_told(name, before.get(name))} as in "
                f"the builds before, found {_told(name, now.get(name))}; give the same, or build "
                "all anew with --fresh"
            )


def _cells_before(out: Path, manifest: Manifest) -> Mapping[str, str]:
    cells = manifest.options.get(CELLS_OPTION, {})
    if isinstance(cells, dict):
        return cells
    raise UsageError(
        f"{out / MANIFEST_FILE}: options.{CELLS_OPTION}: expected digests by path, "
        f"found {cells!r:.80}; restore the file, or build again with --fresh"
    )


def _told(name: str, value: Any) -> str:
    unset = BuildOptions().recorded().get(name)
    if value == unset and (isinstance(value, bool) or not value):
        return "it not given"
    return "it given" if isinstance(value, bool) else repr(value)


def _check_parts(out: Path, manifest: Manifest) -> None:
    for part in manifest.parts:
        try:
            size: int | None = (out / part.file).stat().st_size
        except OSError:
            size = None
        if size != part.bytes:
            found = "no such file" if size is None else f"{size:,} bytes"
            raise UsageError(
                f"{out / part.file}: expected {part.bytes:,} bytes as the manifest says, "
                f"found {found}; restore the file, or build again with --fresh"
            )


def _was_ours(out: Path) -> bool:
    """Whether a manifest was written by this tool, in whatever version or state."""
    try:
        value = parse_json((out / MANIFEST_FILE).read_bytes())
    except OSError:
        return False
    if isinstance(value, dict):
        return value.get("tool") == TOOL
    return isinstance(value, Absent) and all(is_own(out, name) for name in os.listdir(out))


def _next_number(out: Path) -> int:
    """A number that no part has, named by a manifest that may be damaged or not."""
    parts = out / PARTS_DIR
    names = os.listdir(parts) if parts.is_dir() else []
    return 1 + max(map(part_number, names), default=-1)
