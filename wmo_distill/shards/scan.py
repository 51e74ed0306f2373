"""Reading a dataset: every row that counts, with its attempt, as a frame or as records."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TypeVar

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from wmo_distill.display import html_page, html_table
from wmo_distill.outputs.stored import Stored
from wmo_distill.records import TrialRecord
from wmo_distill.shards.columns import INT32
from wmo_distill.shards.decode import decode
from wmo_distill.shards.manifest import DATASET, read_manifest
from wmo_distill.shards.regrades import ATTEMPT_SQL, Regrades, regrades_of
from wmo_distill.shards.schema import SCHEMA

__all__ = ["ATTEMPT_SQL", "iter_batches", "iter_records", "passed_over", "scan"]

_T = TypeVar("_T")


def scan(out: Path | str) -> pl.LazyFrame:
    """The rows that count, with `attempt` filled; UsageError where there is no dataset.

    Columns are read when the frame is collected, each page held to its checksum; damage is a
    DistillError then (before polars 2.0 in the text of a ComputeError).
    """
    frame = register_io_source(partial(_frames, Rows.of(out)), schema=_frame_schema())
    # The same object with another display; what is made of it shows as polars shows it.
    frame.__class__ = DatasetFrame
    frame._about = _about(Path(out))  # type: ignore[attr-defined]
    return frame


class DatasetFrame(pl.LazyFrame):
    """The LazyFrame of `scan`: a notebook shows what the dataset holds, and not a query plan."""

    _about: str | None = None

    def _repr_html_(self) -> str:
        return super()._repr_html_() if self._about is None else self._about


def _about(out: Path) -> str:
    """From the manifest alone, so that a display reads no rows."""
    manifest = read_manifest(out)
    totals, tokens = manifest.totals, manifest.totals.tokens
    lost = ", ".join(f"{reason} {n:,}" for reason, n in totals.skipped.items())
    endings = sorted(totals.stop_reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return html_page(
        f"Dataset {out.name}",
        html_table(
            [
                ("rows", f"{totals.records:,}, superseded regrades among them"),
                ("trials", f"{totals.found:,} found, {totals.written:,} written"),
                ("skipped", lost or None),
                ("tokens", f"{tokens.input:,} fed in, {tokens.output:,} sampled"),
                ("endings", ", ".join(f"{word} {n:,}" for word, n in endings)),
                ("columns", ", ".join(SCHEMA.names)),
                ("to see rows", '.drop("spans").head().collect()'),
            ]
        ),
    )


def _frames(
    rows: "Rows",
    columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
    batch_size: int | None,
) -> Iterator[pl.DataFrame]:
    """What polars asks a source for: these columns of the rows, some of them or all."""
    wanted = SCHEMA.names if columns is None else columns
    left = n_rows
    yield pl.DataFrame(schema=_frame_schema()).select(wanted)  # of no rows at all polars dies
    for batch in rows.batches(wanted, lambda batch: [batch]):
        frame = pl.DataFrame(pl.from_arrow(batch)).select(wanted)
        if predicate is not None:
            frame = frame.filter(predicate)
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        yield frame
        if left == 0:
            return


@cache
def _frame_schema() -> pl.Schema:
    return pl.DataFrame(pl.from_arrow(SCHEMA.empty_table())).schema


def passed_over(out: Path | str) -> int:
    """How many trials `scan` leaves out because another grading of their rollout counts."""
    return Rows.of(out).passed_over


def iter_records(out: Path | str, *, superseded: bool = False) -> Iterator[TrialRecord]:
    """The same rows as records, row group by row group, in the order of the parts.

    With `superseded` all rows; those that do not count keep the attempt that was recorded.
    """
    parts = _parts(out)
    regrades = regrades_of(parts)
    return _records(parts, regrades.attempts, superseded)


def _records(
    parts: list[Stored], attempts: dict[str, int | None], superseded: bool
) -> Iterator[TrialRecord]:
    for part in parts:
        for record in part.read(None, decode):
            if record.episode_id in attempts:
                attempt = attempts[record.episode_id]
                same = attempt == record.attempt
                yield record if same else replace(record, attempt=attempt)
            elif superseded:
                yield record


def iter_batches(
    out: Path | str, columns: Sequence[str], convert: Callable[[pa.RecordBatch], Iterable[_T]]
) -> Iterator[_T]:
    """What is made of the same rows, given as Arrow batches of these columns.

    `episode_id` and `attempt` are always among them.
    """
    return Rows.of(out).batches([*columns, "episode_id", "attempt"], convert)


@dataclass(frozen=True)
class Rows:
    """The rows of a dataset that count, for those who read them more than once."""

    parts: Sequence[Stored]
    all_count: bool
    """Whether no row is a regrade, so that every row counts: the footers say it."""

    @classmethod
    def of(cls, out: Path | str) -> "Rows":
        """Every part is opened, so that one that is gone or cut short is named at once."""
        parts = _parts(out)
        plain = [_is_null(part, "regrade_of") for part in parts]
        return cls(parts, all(plain))

    @cached_property
    def regrades(self) -> Regrades:
        return regrades_of(self.parts)

    @property
    def passed_over(self) -> int:
        """How many trials do not count."""
        return 0 if self.all_count else self.regrades.trials_passed_over

    def batches(
        self, columns: Sequence[str], convert: Callable[[pa.RecordBatch], Iterable[_T]]
    ) -> Iterator[_T]:
        """What is made of the rows, given as Arrow batches that hold at least these columns."""
        asked = list(dict.fromkeys(columns)) or ["episode_id"]
        if "attempt" not in asked and self.all_count:
            for part in self.parts:
                yield from part.read(asked, convert)
            return
        asked = list(dict.fromkeys([*asked, "episode_id", "attempt"]))
        for part in self.parts:
            yield from part.read(asked, lambda batch: convert(_filled(batch, self.regrades)))


def _is_null(part: Stored, name: str) -> bool:
    """Whether a column is null in all rows of a part, as the statistics of its pages say."""
    with part.open() as file, part.blamed():
        for at in range(file.num_row_groups):
            group = file.metadata.row_group(at)
            chunks = (group.column(i) for i in range(group.num_columns))
            found = next(c.statistics for c in chunks if c.path_in_schema == name)
            if found is None or not found.has_null_count or found.null_count < group.num_rows:
                return False
    return True


def _filled(batch: pa.RecordBatch, regrades: Regrades) -> pa.RecordBatch:
    """The rows of a batch that count, with their attempts."""
    episodes = batch.column("episode_id").to_pylist()
    attempts = [regrades.attempts.get(episode) for episode in episodes]
    at = batch.schema.get_field_index("attempt")
    filled = batch.set_column(at, batch.schema.field(at), pa.array(attempts, INT32))
    counting = [episode in regrades.attempts for episode in episodes]
    return filled if all(counting) else filled.filter(pa.array(counting))


def _parts(out: Path | str) -> list[Stored]:
    out = Path(out)
    return [DATASET.stored(out, part, SCHEMA) for part in read_manifest(out).parts]
