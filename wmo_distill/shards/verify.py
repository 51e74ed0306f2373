"""Checks a dataset against its manifest, its ledger and the invariants of its rows."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wmo_distill.errors import UsageError
from wmo_distill.outputs.faults import Fault, cause_of, differences, first_faults, is_readable
from wmo_distill.outputs.manifest import MANIFEST
from wmo_distill.outputs.settled import settled
from wmo_distill.progress import Listener
from wmo_distill.shards.faults import Seen, part_faults, row_groups
from wmo_distill.shards.invariants import Rules
from wmo_distill.shards.ledger import Reason, ledger_info
from wmo_distill.shards.manifest import (
    DATASET,
    LedgerInfo,
    Manifest,
    Totals,
    dataset_hash,
)
from wmo_distill.shards.schema import (
    LEDGER_FILE,
    LEDGER_SCHEMA,
    Outcome,
)


@settled
def verify(out: Path, progress: Listener | None) -> list[Fault]:
    """Every fault found; UsageError where there is no manifest to check against.

    Reads every part once, a row group at a time.
    """
    manifest = DATASET.read(out, sealed=False)
    seen = Seen()
    rules = _rules(out, manifest)
    faults = list(
        DATASET.faults(
            out, manifest.parts, lambda part: part_faults(out, part, rules, seen), progress
        )
    )
    # A part that cannot be read is one fault, not one for each of its rows and each total.
    missing = {part.file for part in manifest.parts if not is_readable(out / part.file)}
    faults += first_faults(LEDGER_FILE, _ledger_faults(out, manifest, seen, missing))
    if not missing:
        faults += _manifest_faults(manifest, seen)
    return faults


def _rules(out: Path, manifest: Manifest) -> Rules:
    try:
        return Rules.model_validate(manifest.options)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{out / MANIFEST}: options.{first['loc'][0]}: {first['msg']}, "
            f"found {first['input']!r:.80}; restore the file, or build again with --fresh"
        ) from None


def _ledger_faults(
    out: Path, manifest: Manifest, seen: Seen, missing: Collection[str]
) -> Iterator[Fault]:
    try:
        real = ledger_info(out / LEDGER_FILE, manifest.ledger.rows)
    except OSError as error:
        yield Fault(LEDGER_FILE, None, "a readable file", cause_of(error))
        return
    other = [
        (f"{name} as in the manifest,", getattr(manifest.ledger, name), getattr(real, name))
        for name in LedgerInfo.model_fields
    ]
    if real != manifest.ledger:  # and what is not what was written is not parsed
        yield from differences(LEDGER_FILE, other)
        return
    rows: list[dict[str, Any]] = []
    for table in row_groups(out, LEDGER_FILE, LEDGER_SCHEMA):
        if isinstance(table, Fault):
            yield table
            return
        rows += table.to_pylist()
    files = {part.file for part in manifest.parts}
    outcomes: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    paths: set[str] = set()
    yield from _id_faults(rows, seen)
    for at, row in enumerate(rows):
        outcomes[row["outcome"]] += 1
        path = row["path"]
        if path in paths:
            yield Fault(LEDGER_FILE, at, "each path once", path)
        paths.add(path)
        if row["outcome"] == Outcome.WRITTEN:
            held = dict(seen.rows.get(path, {}))
            if row["part"] in missing:
                continue
            if row["part"] not in files or held != {row["part"]: row["records"]}:
                expected = f"{row['records']} rows of {path} in {row['part']}"
                yield Fault(LEDGER_FILE, at, expected, str(held))
        elif row["outcome"] == Outcome.SKIPPED:
            skipped.update(row["reasons"][:1])
            if not row["reasons"]:
                yield Fault(LEDGER_FILE, at, "a reason for a skipped trial", "none")
            if row["records"] or row["part"] is not None or path in seen.rows:
                yield Fault(LEDGER_FILE, at, f"no rows of {path}, which was skipped", str(row))
        else:
            yield Fault(LEDGER_FILE, at, "outcome written or skipped", repr(row["outcome"]))
    for path in sorted(seen.rows.keys() - paths):
        yield Fault(LEDGER_FILE, None, f"a row for {path}, which has records", "none")
    totals = manifest.totals
    stated = manifest.ledger.rows
    yield from differences(LEDGER_FILE, [("rows as in the manifest,", stated, len(rows))])
    yield from differences(
        MANIFEST,
        [
            ("found, from the ledger,", sum(outcomes.values()), totals.found),
            ("written, from the ledger,", outcomes[Outcome.WRITTEN], totals.written),
            ("skipped, from the ledger,", dict(skipped), totals.skipped),
        ],
    )


def _id_faults(rows: Sequence[dict[str, Any]], seen: Seen) -> Iterator[Fault]:
    """One written trial an id, that of its rows; a duplicate has one that is written."""
    written: dict[str, str] = {}
    for at, row in enumerate(rows):
        if row["outcome"] != Outcome.WRITTEN:
            continue
        path, trial_id = row["path"], row["trial_id"]
        if seen.ids.get(path, trial_id) != trial_id:
            yield Fault(LEDGER_FILE, at, f"the id of the rows, {seen.ids[path]}", str(trial_id))
        if trial_id is not None and written.setdefault(trial_id, path) != path:
            expected = f"trial {trial_id} written once, from {written[trial_id]}"
            yield Fault(LEDGER_FILE, at, expected, path)
    for at, row in enumerate(rows):
        # With a second reason the ledger itself says why the trial has not taken over.
        if row["reasons"] == [Reason.DUPLICATE_ID] and row["trial_id"] not in written:
            expected = f"a written trial with the id of the duplicate {row['path']}"
            yield Fault(LEDGER_FILE, at, expected, f"none with id {row['trial_id']}")


def _manifest_faults(manifest: Manifest, seen: Seen) -> Iterator[Fault]:
    totals = manifest.totals
    really = Totals.sum([Totals(), *(part.totals for part in seen.parts)])
    found = {name: getattr(totals, name) for name in Totals.model_fields}
    expected = {name: getattr(really, name) for name in Totals.model_fields}
    names = [part.file for part in manifest.parts]
    skipped = sum(totals.skipped.values())
    calls = totals.calls + sum(totals.calls_dropped.values())
    yield from differences(
        MANIFEST,
        [
            ("each part once,", sorted(set(names)), sorted(names)),
            *((f"{name}, from the rows,", expected[name], found[name]) for name in found),
            ("found, written + skipped,", totals.written + skipped, totals.found),
            ("calls_found, calls + calls_dropped,", calls, totals.calls_found),
            ("dataset_hash", dataset_hash(seen.parts), manifest.dataset_hash),
        ],
    )
