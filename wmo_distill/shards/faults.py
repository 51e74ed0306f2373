"""Checks the parts of a dataset: files, schema, and the invariants of every row."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wmo_distill.outputs.faults import Fault, Listed, differences
from wmo_distill.outputs.stored import DAMAGE, first_odd, parquet_file, plain_cause, read_group
from wmo_distill.shards.decode import SpanColumns, plain_list, record_of
from wmo_distill.shards.digest import MODULUS, row_digest
from wmo_distill.shards.encode import stored_ids
from wmo_distill.shards.invariants import (
    Breach,
    Rules,
    count_breaches,
    grade_breaches,
    identity_breaches,
    sampling_breaches,
    span_breaches,
    time_breaches,
    word_breaches,
)
from wmo_distill.shards.manifest import PartInfo, Totals
from wmo_distill.shards.schema import SCHEMA, SCHEMA_VERSION


@dataclass(slots=True)
class Seen:
    """What the parts hold, to be compared with the ledger and the manifest."""

    episodes: set[bytes] = field(default_factory=set)
    rows: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Rows of each trial path, by part."""
    ids: dict[str, str | None] = field(default_factory=dict)
    """The `trial_id` of each trial path's rows."""
    parts: list[PartInfo] = field(default_factory=list)
    """The manifest's parts as they really are."""


def part_faults(out: Path, part: PartInfo, rules: Rules, seen: Seen) -> Iterator[Fault]:
    real = _RowSums()
    yield from batch_faults(
        out,
        part,
        SCHEMA,
        lambda batch, first: _batch_faults(part.file, batch, first, rules, seen, real),
    )
    found = {
        "tokens": real.tokens,
        "row_sum": f"{real.digests % MODULUS:064x}",
        "totals": real.totals,
    }
    seen.parts.append(part.model_copy(update={"rows": real.rows, **found}))
    yield from differences(
        part.file,
        [(f"{name} as in the manifest,", getattr(part, name), found[name]) for name in found],
    )


def batch_faults(
    out: Path,
    part: Listed,
    schema: pa.Schema,
    check: Callable[[pa.RecordBatch, int], Iterable[Fault]],
) -> Iterator[Fault]:
    """What `check` finds in each batch, given with the number of its first row.

    What cannot be read, or is of another schema, is a fault that ends the file.
    """
    rows = 0
    for group, table in enumerate(row_groups(out, part.file, schema, part.footer)):
        if isinstance(table, Fault):
            yield table
            return
        if not table.num_rows:
            yield Fault(part.file, rows, "no row group without rows", f"group {group}")
        for batch in table.to_batches():
            try:
                yield from check(batch, rows)
            except DAMAGE as error:
                yield Fault(part.file, rows, "rows that can be read", plain_cause(error))
                return
            rows += batch.num_rows
    yield from differences(part.file, [("rows as in the manifest,", part.rows, rows)])


def row_groups(
    out: Path, name: str, schema: pa.Schema, footer: str | None = None
) -> Iterator[pa.Table | Fault]:
    """The row groups of a Parquet file; a fault ends them, where they cannot be read."""
    rows = 0
    try:
        with parquet_file(out / name, footer) as file:
            if not file.schema_arrow.equals(schema, check_metadata=True):
                expected = f"the columns of schema version {SCHEMA_VERSION}"
                yield Fault(name, None, expected, first_odd(file.schema_arrow, schema))
                return
            for group in range(file.num_row_groups):
                try:
                    table = read_group(file, group)
                except DAMAGE as error:
                    yield Fault(name, rows, "a readable row group", plain_cause(error))
                    return
                rows += table.num_rows
                yield table
    except DAMAGE as error:
        yield Fault(name, None, "a readable Parquet file", plain_cause(error))


@dataclass(slots=True)
class _RowSums:
    rows: int = 0
    tokens: int = 0
    digests: int = 0
    place: tuple[bytes, int] = (b"", -1)
    """Path and step of the row before, where no cell decides the order."""
    totals: Totals = field(default_factory=Totals)


def _batch_faults(
    file: str, batch: pa.RecordBatch, first: int, rules: Rules, seen: Seen, real: _RowSums
) -> Iterator[Fault]:
    spans = SpanColumns.of(batch.column("spans"), check=False)
    plain = {name: plain_list(batch.column(name)) for name in SCHEMA.names if name != "spans"}
    for at in range(batch.num_rows):
        row = {name: column[at] for name, column in plain.items()}
        for breach in _row_breaches(row, spans, at, rules, seen, real):
            yield Fault(file, first + at, breach.expected, breach.found)
        seen.rows[row["artifact_dir"]][file] += 1
        seen.ids.setdefault(row["artifact_dir"], row["trial_id"])
        real.rows += 1
    for at in _rows_with_non_finite(batch.column("spans")):
        yield Fault(file, first + at, "finite log-probabilities or null", "one that is neither")


def _row_breaches(
    row: dict[str, Any],
    spans: SpanColumns,
    at: int,
    rules: Rules,
    seen: Seen,
    real: _RowSums,
) -> Iterator[Breach]:
    breaches = [*word_breaches(row), *time_breaches(row), *span_breaches(row, spans, at, rules)]
    yield from breaches
    yield from identity_breaches(row)
    yield from grade_breaches(row, rules)
    yield from sampling_breaches(row)
    episode = hashlib.sha256(row["episode_id"].encode()).digest()[:16]
    if episode in seen.episodes:
        yield Breach("each episode_id once", row["episode_id"])
    seen.episodes.add(episode)
    if row["artifact_dir"] not in rules.cells:
        place = row["artifact_dir"].encode(), -1 if row["step_index"] is None else row["step_index"]
        if place < real.place:
            path, step = real.place
            yield Breach(f"a row after step {step} of {path.decode()}", row["artifact_dir"])
        real.place = place
    if breaches:
        return  # a record can be built, and its counts mean something, only without these
    record = record_of(row, spans.row(at))
    yield from count_breaches(row, record.counts)
    real.tokens += stored_ids(record)
    real.digests += int.from_bytes(row_digest(record))
    real.totals = Totals.sum([real.totals, Totals.of(record)])


def _rows_with_non_finite(spans: pa.ListArray) -> list[int]:
    """The rows that hold NaN or an infinity where only a number or null may be."""
    logprobs = spans.flatten().field("sampled_logprobs")
    numbers = logprobs.flatten()
    bad = pc.fill_null(pc.invert(pc.is_finite(numbers)), False).to_numpy(zero_copy_only=False)
    if not bad.any():
        return []
    span_of = pc.list_parent_indices(logprobs).to_numpy()[bad]
    row_of = pc.list_parent_indices(spans).to_numpy()[span_of]
    return [int(row) for row in np.unique(row_of)]
