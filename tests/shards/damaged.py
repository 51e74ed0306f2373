"""Datasets that break an invariant on disk, where records in memory could not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests import sealed
from wmo_distill.arrays import as_ids
from wmo_distill.records import TrialRecord
from wmo_distill.segment import Coded, Segment
from wmo_distill.shards.encode import encode
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.shards.verify import verify
from wmo_distill.shards.writer import parquet_writer
from wmo_distill.tokens import TokenSpan, spans_of

from .generated import lawful, write_dataset

PART = "parts/part-00000.parquet"


def reported(out: Path) -> str:
    return "\n".join(map(str, verify(out)))


def forged(*calls: tuple[int, list[int], list[int]]) -> tuple[TokenSpan, ...]:
    """Calls of (prefix_len, prompt_suffix, sampled ids), whether they fit each other or not."""
    coded = [
        Coded(at, prefix_len, as_ids(suffix), as_ids(sampled))
        for at, (prefix_len, suffix, sampled) in enumerate(calls)
    ]
    return tuple(spans_of(Segment.of(0, coded)))


def rewritten(out: Path, rows: list[TrialRecord]) -> None:
    """Write rows that break invariants: totals are taken only of rows that can be counted."""
    write_dataset(out, [[lawful("0")]])
    with parquet_writer(out / PART) as writer:
        writer.write_table(encode(rows))
    sealed.take_over(out)


def edit_table(out: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    with pq.ParquetFile(out / PART) as file:
        table = file.read()
    with parquet_writer(out / PART) as writer:
        writer.write_table(change(table))
    sealed.take_over(out)


def set_column(name: str, values: list[Any]) -> Callable[[pa.Table], pa.Table]:
    i = SCHEMA.get_field_index(name)
    return lambda table: table.set_column(
        i, SCHEMA.field(i), pa.array(values, SCHEMA.field(i).type)
    )


def change_span(field: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """The table with a field of the first row's second span changed."""

    def change(table: pa.Table) -> pa.Table:
        rows = table["spans"].to_pylist()
        rows[0][1][field] = value
        return set_column("spans", rows)(table)

    return change
