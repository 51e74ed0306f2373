"""A dataset directory as a build finds it: what it holds, and whether a build may go on there."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wmo_distill.disk import asked, is_there
from wmo_distill.errors import UsageError
from wmo_distill.files import path_text, text_path
from wmo_distill.options import BuildOptions
from wmo_distill.outputs.manifest import MANIFEST
from wmo_distill.shards.ledger import LedgerRow, read_ledger
from wmo_distill.shards.manifest import Manifest, read_manifest

CELLS_OPTION = "cells"
"""Where the manifest's options hold the digests of the cells, by trial path."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """What earlier builds left; no manifest before the first, or where all is built anew."""

    manifest: Manifest | None = None
    rows: Mapping[str, LedgerRow] = field(default_factory=dict)


def open_dataset(out: Path, options: BuildOptions) -> Dataset:
    """The dataset to go on with; UsageError where it is damaged or had other options."""
    if options.fresh or not is_there(out / MANIFEST):
        return Dataset()
    manifest = read_manifest(out)
    before = {name: value for name, value in manifest.options.items() if name != CELLS_OPTION}
    if other := options.difference(before):
        raise UsageError(
            f"{out / MANIFEST}: {other}; give the same, or build all anew with --fresh"
        )
    return whole_dataset(out, manifest)


def whole_dataset(out: Path, manifest: Manifest) -> Dataset:
    """The dataset of a manifest; UsageError where a part is not there, or the ledger is another."""
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
    return Dataset(manifest, rows)


def parent_of(manifest: Manifest, places: list[Path]) -> Path:
    """The dataset's parent, as the PATHs spell it where they are below it."""
    for place in places:
        absolute = Path(os.path.abspath(place))
        for above in (absolute, *absolute.parents):
            if path_text(above) == manifest.parent:
                return above
    return text_path(manifest.parent)


def _cells_before(out: Path, manifest: Manifest) -> Mapping[str, str]:
    cells = manifest.options.get(CELLS_OPTION, {})
    if isinstance(cells, dict):
        return cells
    raise UsageError(
        f"{out / MANIFEST}: options.{CELLS_OPTION}: expected digests by path, "
        f"found {cells!r:.80}; restore the file, or build again with --fresh"
    )


def _check_parts(out: Path, manifest: Manifest) -> None:
    for part in manifest.parts:
        state = asked(os.stat, out / part.file)
        if state is None or state.st_size != part.bytes:
            found = "no such file" if state is None else f"{state.st_size:,} bytes"
            raise UsageError(
                f"{out / part.file}: expected {part.bytes:,} bytes as the manifest says, "
                f"found {found}; restore the file, or build again with --fresh"
            )
