"""Reading a dataset: every row that counts, with its attempt, as a frame or as records."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa

from wmo_distill.records import TrialRecord
from wmo_distill.shards.columns import INT32
from wmo_distill.shards.decode import decode
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.part import read_part
from wmo_distill.shards.regrades import ATTEMPT_SQL, regrades_of

__all__ = ["ATTEMPT_SQL", "iter_batches", "iter_records", "passed_over", "scan"]


def scan(out: Path | str) -> pl.LazyFrame:
    """The rows that count, with `attempt` filled; UsageError where there is no dataset."""
    parts = _parts(out)
    regrades = regrades_of(parts)
    # No globbing: a directory's name may hold brackets or stars.
    frame = pl.scan_parquet(parts, glob=False, hive_partitioning=False)
    if regrades.superseded:
        frame = frame.filter(~pl.col("episode_id").is_in(sorted(regrades.superseded)))
    if regrades.attempts:
        attempt = pl.col("episode_id").replace_strict(
            pl.Series(list(regrades.attempts), dtype=pl.String),
            pl.Series(list(regrades.attempts.values()), dtype=pl.Int32),
            default=None,
            return_dtype=pl.Int32,
        )
        frame = frame.with_columns(attempt.alias("attempt"))
    return frame


def passed_over(out: Path | str) -> int:
    """How many trials `scan` leaves out because another grading of their rollout counts."""
    return regrades_of(_parts(out)).trials_passed_over


def iter_records(out: Path | str, *, superseded: bool = False) -> Iterator[TrialRecord]:
    """The same rows as records, row group by row group, in the order of the parts.

    With `superseded` all rows; those that do not count keep the attempt that was recorded.
    """
    parts = _parts(out)
    regrades = regrades_of(parts)
    return _records(parts, regrades.attempts, superseded)


def _records(
    parts: list[Path], attempts: dict[str, int | None], superseded: bool
) -> Iterator[TrialRecord]:
    for part in parts:
        for table in read_part(part):
            for record in decode(table):
                if record.episode_id in attempts:
                    attempt = attempts[record.episode_id]
                    same = attempt == record.attempt
                    yield record if same else replace(record, attempt=attempt)
                elif superseded:
                    yield record


def iter_batches(out: Path | str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The same rows as Arrow batches of these columns, `episode_id` and `attempt` among them."""
    parts = _parts(out)
    regrades = regrades_of(parts)
    for part in parts:
        for table in read_part(part, columns):
            for batch in table.to_batches():
                episodes = batch.column("episode_id").to_pylist()
                attempts = [regrades.attempts.get(episode) for episode in episodes]
                at = batch.schema.get_field_index("attempt")
                filled = batch.set_column(at, batch.schema.field(at), pa.array(attempts, INT32))
                counting = [episode in regrades.attempts for episode in episodes]
                yield filled if all(counting) else filled.filter(pa.array(counting))


def _parts(out: Path | str) -> list[Path]:
    out = Path(out)
    return read_manifest(out).part_paths(out)
