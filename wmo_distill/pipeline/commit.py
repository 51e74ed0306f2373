"""The end of a build: the parts without the rows that go, the ledger, the manifest."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wmo_distill.errors import DistillError
from wmo_distill.outputs.faults import damage
from wmo_distill.outputs.parts import Parts
from wmo_distill.pipeline.batch import copy_rows
from wmo_distill.pipeline.dataset import CELLS_OPTION, Dataset
from wmo_distill.pipeline.roster import Roster
from wmo_distill.shards.ledger import LedgerRow, write_ledger
from wmo_distill.shards.manifest import (
    LedgerTotals,
    Manifest,
    PartInfo,
    Regrade,
    Totals,
    dataset_hash,
)
from wmo_distill.shards.schema import LEDGER_FILE
from wmo_distill.shards.writer import PartWriter


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the builds come from and with what; what the manifest holds of them."""

    parent: str
    inputs: tuple[str, ...]
    options: Mapping[str, Any]
    regrades: tuple[Regrade, ...] = ()


def commit(
    files: Parts[Manifest],
    dataset: Dataset,
    roster: Roster,
    new: Sequence[PartInfo],
    origin: Origin,
    slow_reads: int,
) -> Manifest:
    """Put the next state of the dataset in place; its manifest comes last.

    `roster` is closed; `new` are parts in `files.place`. DistillError if an account does not
    balance, which is a fault of this program: then nothing has changed.
    """
    parts = _NextParts(files, _rows_by_part(roster.rows))
    before = dataset.manifest
    calls_found = 0
    if before is not None:
        calls_found = before.totals.calls_found
        for part in before.parts:
            kept = parts.keep_old(part)
            calls_found -= _calls(part.totals) - (0 if kept is None else _calls(kept.totals))
    for part in new:
        parts.keep_new(part)
    if not parts.kept:
        parts.keep_empty(next((p for p in before.parts if not p.rows), None) if before else None)
    rows = [
        replace(row, part=parts.names[row.part]) if row.part is not None else row
        for row in roster.rows.values()
    ]
    ledger = write_ledger(files.place / LEDGER_FILE, rows)
    calls_found += sum(roster.calls_found.get(row.path, 0) for row in rows if row.written)
    manifest = Manifest(
        parent=origin.parent,
        inputs=sorted({*origin.inputs, *(before.inputs if before else ())}, key=str.encode),
        options={**origin.options, **_cells(rows)},
        parts=parts.kept,
        ledger=ledger,
        totals=LedgerTotals(
            **Totals.sum(part.totals for part in parts.kept).model_dump(),
            found=len(rows),
            written=sum(row.written for row in rows),
            skipped=roster.skipped(),
            removed=roster.removed,
            calls_found=calls_found,
        ),
        slow_reads=slow_reads + (before.slow_reads if before else 0),
        regrades=[*(before.regrades if before else ()), *origin.regrades],
        dataset_hash=dataset_hash(parts.kept),
    )
    _check_balance(manifest, rows)
    files.commit(manifest)
    return manifest


class _NextParts:
    """The parts of the next state; a file that a manifest names is never written to.

    Where some rows of a part go, the others are copied, row group after row group, to a part with
    the next free number; the old file stays until the new manifest is in place:

        part-00000   a b c   b was read anew      part-00002   a c    (rewritten)
        part-00001   d e     nothing changed      part-00001   d e    (the same file)
        new          b                            part-00003   b
    """

    def __init__(self, files: Parts[Manifest], rows: Mapping[str, Sequence[LedgerRow]]) -> None:
        self.kept: list[PartInfo] = []
        self.names: dict[str, str] = {}
        """From the name that a ledger row holds to the name that it is to hold."""
        self._files = files
        self._rows = rows

    def keep_old(self, part: PartInfo) -> PartInfo | None:
        """Keep what of a part of the last state is to stay; None if that is nothing."""
        if part.rows and self._records(part) == part.rows:
            self.names[part.file] = part.file
            self.kept.append(part)
            return part
        if self._rows.get(part.file):
            check_unchanged(self._files.out, part)
        return self._rewritten(part, self._files.out / part.file)

    def keep_new(self, part: PartInfo) -> None:
        file = self._files.place / part.file.rpartition("/")[2]
        if self._records(part) == part.rows:
            self._add(part, file)
        else:
            self._rewritten(part, file)

    def keep_empty(self, part: PartInfo | None) -> None:
        """A dataset without rows has one part without rows."""
        if part is not None:
            self.kept.append(part)
            return
        with PartWriter(self._files.place / "empty.parquet") as writer:
            pass
        self._add(writer.info, writer.path)

    def _rewritten(self, part: PartInfo, file: Path) -> PartInfo | None:
        paths = [row.path for row in self._rows.get(part.file, ())]
        if not paths:
            return None
        copy = self._files.place / f"kept-{len(self.names):05d}.parquet"
        with PartWriter(copy) as writer:
            copy_rows(file, writer, paths)
        return self._add(writer.info, copy, part.file)

    def _records(self, part: PartInfo) -> int:
        return sum(row.records for row in self._rows.get(part.file, ()))

    def _add(self, info: PartInfo, file: Path, was: str | None = None) -> PartInfo:
        os.replace(file, self._files.begin())
        name = self._files.name()
        self.names[was or info.file] = name
        self.kept.append(info.model_copy(update={"file": name}))
        return self.kept[-1]


def check_unchanged(out: Path, part: PartInfo) -> None:
    """Rows that are copied get a new hash, which must not make damage look sound."""
    for fault in damage(out, part):
        raise DistillError(
            f"{out / str(fault)}; nothing was written; restore the file, or build again with "
            "--fresh"
        )


def _rows_by_part(rows: Mapping[str, LedgerRow]) -> dict[str, list[LedgerRow]]:
    by_part: dict[str, list[LedgerRow]] = defaultdict(list)
    for row in rows.values():
        if row.part is not None:
            by_part[row.part].append(row)
    return by_part


def _cells(rows: Iterable[LedgerRow]) -> dict[str, dict[str, str]]:
    cells = {row.path: row.cells for row in rows if row.cells}
    return {CELLS_OPTION: dict(sorted(cells.items()))} if cells else {}


def _calls(totals: Totals) -> int:
    return totals.calls + sum(totals.calls_dropped.values())


def _check_balance(manifest: Manifest, rows: Sequence[LedgerRow]) -> None:
    """Nothing vanishes: trials, rows and calls, each counted in two ways."""
    totals = manifest.totals
    records: Counter[str | None] = Counter()
    for row in rows:
        records[row.part] += row.records
    accounts = [
        ("trials found", totals.found, totals.written + sum(totals.skipped.values())),
        ("calls found", totals.calls_found, _calls(totals)),
        *((f"rows of {part.file}", part.rows, records[part.file]) for part in manifest.parts),
        ("rows of skipped trials", 0, records[None]),
    ]
    for name, one, other in accounts:
        if one != other:
            raise DistillError(
                f"{name}: expected {one:,}, accounted for {other:,}; the dataset was left as it "
                "was; please report this, and build again with --fresh"
            )
