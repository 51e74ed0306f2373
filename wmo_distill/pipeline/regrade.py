"""A dataset graded anew, without its trials: tokens and endings of every row stay as they are."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from wmo_distill.errors import UsageError
from wmo_distill.files import text_path
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions, RegradeOptions
from wmo_distill.outputs.parts import Parts, writing
from wmo_distill.outputs.stored import Stored
from wmo_distill.pipeline.cells import Place, load_cells
from wmo_distill.pipeline.commit import Origin, check_unchanged, commit
from wmo_distill.pipeline.dataset import CELLS_OPTION, Dataset, whole_dataset
from wmo_distill.pipeline.plan import OVERRULED, cells_digest
from wmo_distill.pipeline.roster import Roster, is_duplicate, skipped_row
from wmo_distill.pipeline.summary import Regraded
from wmo_distill.progress import Listener, Progress
from wmo_distill.records import ScoreCell, TrialRecord
from wmo_distill.shards.decode import decode
from wmo_distill.shards.ledger import LedgerRow, Reason
from wmo_distill.shards.manifest import DATASET, Manifest, PartInfo, Regrade, Totals, read_manifest
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.shards.writer import PartWriter
from wmo_distill.sources.places import relative
from wmo_distill.sources.registry import total_of
from wmo_distill.trials.cells import apply_cells, cell_of
from wmo_distill.trials.regrade import regraded, same_choice

Cells = Mapping[str, tuple[ScoreCell, ...]]
"""The cells of each trial, by its path in the ledger."""
_GRADES = ("reward_key", "reward_range", "pass_at")


def regrade(
    dataset: str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: RegradeOptions | None = None,
    *,
    progress: Listener | None = None,
    **changes: Any,
) -> Regraded:
    """Write to `out` what a build of the same trials with other grades gives.

    Rows keep their order. Trials that no cell names lose their rows, as in a build. UsageError for
    anything found wrong before work, and where the rows do not hold what a grade needs.
    """
    began = time.monotonic()
    source, out = Path(dataset).absolute(), Path(out).absolute()
    options = RegradeOptions.of(options, **changes)
    if os.path.realpath(source) == os.path.realpath(out):
        raise UsageError(f"{out}: expected another directory than the dataset; name another OUT2")
    manifest = read_manifest(source)
    rows = whole_dataset(source, manifest).rows
    before = BuildOptions.of(**{name: manifest.options[name] for name in _GRADES})
    now = options.over(before)
    cells = None if options.cells is None else _cells(options.cells, manifest, rows)
    if now == before and cells is None:
        raise UsageError(
            f"{source}: expected another grade, found the one that it has; give --cells, "
            "--reward-key, --reward-range or --pass-at"
        )
    if cells is None and manifest.options.get(CELLS_OPTION):
        raise UsageError(
            f"{source}: expected --cells, as its grades are those of cells and the verifier's are "
            "not all in it; give cells, or build again from the trials"
        )
    graded_by = {name: manifest.options.get(name) for name in (*_GRADES, CELLS_OPTION)}
    lineage = Regrade(
        dataset_hash=manifest.dataset_hash,
        options={name: value for name, value in graded_by.items() if name in manifest.options},
    )
    graded = {name: now.recorded()[name] for name in _GRADES}
    origin = Origin(
        parent=manifest.parent,
        inputs=tuple(manifest.inputs),
        options={n: v for n, v in (manifest.options | graded).items() if n != CELLS_OPTION},
        regrades=(*manifest.regrades, lineage),
    )
    run = _Run(source, manifest, rows, _Grader(before, now, cells, rows), progress)
    differs = partial(_difference, origin)
    with writing(out, DATASET, fresh=options.fresh, differs=differs) as parts:
        summary = run.finish(parts, origin)
    return summary.model_copy(update={"seconds": round(time.monotonic() - began, 3)})


def _difference(origin: Origin, before: Manifest) -> str:
    """What the dataset that is to be replaced was made of, or how it was graded, if otherwise."""
    if tuple(before.regrades) != origin.regrades:
        return "expected a regrade of the same dataset, found one of another, or a build"
    now = BuildOptions.of(**{name: origin.options[name] for name in _GRADES})
    graded = {name: before.options[name] for name in _GRADES if name in before.options}
    return now.difference(now.recorded() | graded)


def _cells(file: Path, manifest: Manifest, rows: Mapping[str, LedgerRow]) -> Cells:
    """The cells by the trials of the ledger; the trials themselves may be gone."""
    parent = text_path(manifest.parent)

    def path_of(place: Path) -> str | None:
        try:
            path = relative(Path(os.path.abspath(place)), parent)
        except UsageError:
            return None
        return path if path in rows else None

    def look(place: Path) -> Place | None:
        return None if path_of(place) is None else (place, "")

    roots = [*(parent / name for name in manifest.inputs), parent]
    cells: dict[str, list[ScoreCell]] = defaultdict(list)
    for position, one in enumerate(load_cells(file, roots, look)):
        path = one.name if one.root is None else path_of(one.root)
        if path is None or (one.root is None and not (path in rows and rows[path].missing)):
            raise UsageError(
                f"{file}: cell {position} (task {one.cell.task_id!r}, attempt {one.cell.attempt}): "
                f"artifact_dir: expected a trial of the dataset, found {one.cell.artifact_dir!r}; "
                "give it as in the column artifact_dir, or build again from the trials"
            )
        cells[path].append(one.cell)
    return {path: tuple(own) for path, own in cells.items()}


@dataclass(slots=True)
class _Grader:
    """Gives each record its new grade."""

    before: BuildOptions
    now: BuildOptions
    cells: Cells | None
    rows: Mapping[str, LedgerRow]
    missing_steps: Counter[str] = field(default_factory=Counter)
    """By the episode that bears the issue: how many cells grade a step that is not recorded."""

    def learn_steps(self, parts: Sequence[Path]) -> None:
        """See which steps the trials have whose cells name one."""
        named = {
            path: cells
            for path, cells in (self.cells or {}).items()
            if any(cell.step_name is not None for cell in cells)
        }
        steps: dict[str, list[tuple[int, TrialRecord]]] = defaultdict(list)
        columns = ["artifact_dir", "episode_id", "step_name", "step_index"]
        for part in parts if named else ():
            for row in _stored(part).read(columns, pa.RecordBatch.to_pylist):
                index = row.pop("step_index") or 0
                if row["artifact_dir"] in named:
                    steps[row["artifact_dir"]].append((index, TrialRecord(**row)))
        for path, found in steps.items():
            records = [record for _, record in sorted(found, key=lambda one: one[0])]
            first = apply_cells(records, named[path])[0]
            self.missing_steps[first.episode_id] = len(first.issues)

    def of(self, record: TrialRecord) -> TrialRecord:
        new = regraded(record, self.before, self.now, total_of(record.format))
        if self.cells is None:
            return new
        cell = cell_of(record.step_name, self.cells[record.artifact_dir])
        self._check(record, cell)
        if cell is not None:
            (new,) = apply_cells([new], [cell])
        issues = (
            *(issue for issue in new.issues if issue is not Issue.CELL_STEP_MISSING),
            *[Issue.CELL_STEP_MISSING] * self.missing_steps[record.episode_id],
        )
        return replace(new, issues=tuple(sorted(issues)))

    def _check(self, record: TrialRecord, cell: ScoreCell | None) -> None:
        """UsageError where a cell of the build before has put itself over what is needed now."""
        digest = self.rows[record.artifact_dir].cells
        if not digest:
            return
        lost = [name for name in OVERRULED if f"+{name}" in digest]
        needed = [name for name in lost if cell is None or getattr(cell, name) is None]
        if not same_choice(self.before, self.now):
            needed += lost
        if cell is None or needed:
            found = "no cell for this step" if cell is None else f"none in its cell ({needed[0]})"
            raise UsageError(
                f"{record.artifact_dir}: expected what the verifier said, found it replaced by an "
                f"earlier cell and {found}; add it to the cell, or build again from the trials"
            )


@dataclass(slots=True)
class _Run:
    """One regrade: a part becomes a part, row group by row group."""

    source: Path
    manifest: Manifest
    rows: Mapping[str, LedgerRow]
    grader: _Grader
    progress: Listener | None
    roster: Roster = field(default_factory=Roster)
    new: list[PartInfo] = field(default_factory=list)
    passed: Counter[str] = field(default_factory=Counter)
    changed: int = 0

    def finish(self, parts: Parts[Manifest], origin: Origin) -> Regraded:
        before = self.manifest
        self._settle()
        self.grader.learn_steps([self.source / part.file for part in before.parts])
        size = sum(part.bytes for part in before.parts)
        event = partial(Progress, total=before.totals.records, unit="records", bytes_total=size)
        done = read = 0
        for number, part in enumerate(before.parts):
            check_unchanged(self.source, part)
            self._write(part, parts.place / f"new-{number:05d}.parquet")
            done, read = done + part.rows, read + part.bytes
            if self.progress is not None:
                written = sum(one.rows for one in self.new)
                rows = {"written": written, "left out": done - written}
                parts_done = len(self.new)
                self.progress(event(done=done, bytes_done=read, outcomes=rows, parts=parts_done))
        manifest = commit(parts, Dataset(), self.roster, self.new, origin, before.slow_reads)
        return Regraded.model_validate(
            {
                **manifest.totals.model_dump(),
                "parts": len(manifest.parts),
                "bytes_in": size,
                "bytes_out": sum(part.bytes for part in manifest.parts),
                "changed": self.changed,
                "passed": self.passed["now"],
                "passed_before": self.passed["before"],
            }
        )

    def _settle(self) -> None:
        """What becomes of each trial of the ledger."""
        cells = self.grader.cells
        holders = {row.trial_id for path, row in self.rows.items() if row.written}
        if cells is not None:
            holders = {self.rows[path].trial_id for path in cells if self.rows[path].written}
        for path, row in self.rows.items():
            given = () if cells is None else cells.get(path, ())
            if cells is None:
                self.roster.rows[path] = row
            elif given:
                held = not is_duplicate(row) or row.trial_id in holders
                if not held or row.reasons[:1] in ((Reason.NO_CELL,), (Reason.REMOVED,)):
                    raise UsageError(
                        f"cell (task {given[0].task_id!r}, attempt {given[0].attempt}): expected a "
                        f"trial with rows in the dataset, found {path!r}, skipped as "
                        f"{row.reasons[0]}; build again from the trials with these cells"
                    )
                self.roster.rows[path] = replace(row, cells=cells_digest(given))
            elif row.missing:
                self.roster.removed += 1
            else:
                self.roster.rows[path] = skipped_row(
                    path, row.trial_id, row.trial_name, row.state, Reason.NO_CELL
                )

    def _write(self, part: PartInfo, file: Path) -> None:
        counts: Counter[str] = Counter()
        issues: dict[str, set[str]] = defaultdict(set)
        with PartWriter(file) as writer:
            for record in self._graded(self.source / part.file):
                writer.write(record)
                path, totals = record.artifact_dir, Totals.of(record)
                issues[path] |= {issue.value for issue in record.issues}
                counts[path] += totals.calls + sum(totals.calls_dropped.values())
        if not writer.info.rows:
            file.unlink()
            return
        self.new.append(writer.info)
        for path, calls in counts.items():
            row = self.roster.rows[path]
            lasting = {Reason.REMOVED.value}.intersection(row.reasons)
            reasons = tuple(sorted(issues[path] | lasting))
            self.roster.rows[path] = replace(row, part=writer.info.file, reasons=reasons)
            self.roster.calls_found[path] = calls

    def _graded(self, file: Path) -> Iterator[TrialRecord]:
        """The rows that stay, with their new grades."""
        for record in _stored(file).read(None, decode):
            row = self.roster.rows.get(record.artifact_dir)
            if row is None or not row.written:
                continue
            new = self.grader.of(record)
            self.changed += (record.reward, record.passed) != (new.reward, new.passed)
            self.passed["before"] += record.passed is True
            self.passed["now"] += new.passed is True
            yield new


def _stored(part: Path) -> Stored:
    return Stored(part, SCHEMA, DATASET.again)
