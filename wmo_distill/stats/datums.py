"""Numbers over training sequences: what trains, how long, with which advantages and weights."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from wmo_distill.datums.dataset import datum_parts
from wmo_distill.datums.groups import is_rounding
from wmo_distill.datums.manifest import DatumManifest, read_datum_manifest
from wmo_distill.datums.table import DATUM_SCHEMA
from wmo_distill.datums.versions import steps_of
from wmo_distill.predicates import cut_at_cap, is_measured
from wmo_distill.shards.selection import chosen
from wmo_distill.stats.distribution import Distribution, Sketch, distribution
from wmo_distill.stats.rates import Rate, rate

_FLAT = (
    "episode_id", "task_id", "step_name", "group_id", "reward", "reward_valid", "passed",
    "group_size", "group_measured", "group_mean", "group_std", "break_cause", "weight",
    "train_step", "policy_version", "policy_versions",
)  # fmt: skip
_LISTS = (
    "loss_mask", "sampled_logprobs", "advantages", "rescored_logprobs", "call_lengths",
    "finish_reasons",
)  # fmt: skip
# exp of more than this overflows what a ratio can be.
_MOST_LOG_RATIO = 700.0


class DatumTask(BaseModel):
    """One task, or one step of it, in the sequences."""

    model_config = ConfigDict(frozen=True)

    task_id: str | None
    step_name: str | None
    origin: None = None
    """Sequences do not say of which format and source their episodes are."""
    episodes: int
    sequences: int
    trained_tokens: int
    solve_rate: Rate
    """Passed of the measured episodes."""


class GroupSummary(BaseModel):
    """The groups that have a sequence, each as a whole: with its episodes that have none."""

    model_config = ConfigDict(frozen=True)

    groups: int
    size: Distribution
    measured: Distribution
    zero_variance: Rate
    """Groups whose measured rewards are all equal but for rounding, of those with at least two."""


class SequenceStats(BaseModel):
    """What `stats` prints of training sequences."""

    model_config = ConfigDict(frozen=True)

    source: str
    """The hash of the dataset that the sequences were made from."""
    purpose: str
    where: str | None
    left_out_sequences: int
    """Sequences for which `where` is not true: in no number here but the next three."""
    records: int
    """Records of the dataset; records == trained + left_out."""
    left_out: dict[str, int]
    """Records without a sequence, by reason."""
    left_out_tokens: dict[str, int]
    """Sampled tokens that are not trained, by reason."""
    episodes: int
    sequences: int
    tokens: int
    """trained_tokens + context_tokens"""
    trained_tokens: int
    context_tokens: int
    solve_rate: Rate
    """Passed of the measured episodes."""
    distributions: dict[str, Distribution]
    """`sequence_tokens`, `trained_tokens` and `weight` are over sequences, `reward` over measured
    episodes; `logprob`, `advantages` and `ratio`, exp(rescored - recorded), over trained tokens."""
    breaks: dict[str, int]
    """Sequences by why they are not the one before, gone on."""
    staleness: Distribution | None
    """Training steps between a sequence's oldest one and the newest of all; None without any."""
    groups: GroupSummary
    truncation: Rate
    """Calls cut at the output cap, of those whose finish reason is recorded."""
    tasks: tuple[DatumTask, ...]


def datum_stats(datums: Path | str, *, where: str | None = None) -> SequenceStats:
    """Statistics of the sequences in `datums`; one row group is in memory.

    UsageError where there are none, or for what is no condition.
    """
    datums = Path(datums)
    manifest = read_datum_manifest(datums)
    mask = None
    if where is not None:
        mask = chosen(where, DATUM_SCHEMA, lambda columns: _batches(datums, list(columns)))
    tally = _Tally()
    seen = 0
    for batch in _batches(datums, [*_FLAT, *_LISTS]):
        rows = batch
        if mask is not None:
            rows = batch.filter(pa.array(mask[seen : seen + batch.num_rows]))
        seen += batch.num_rows
        tally.add(rows)
    return tally.stats(manifest, where, 0 if mask is None else int((~mask).sum()))


def _batches(datums: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    for part in datum_parts(datums):
        yield from part.read(columns, lambda batch: [batch])


class _Tally:
    """What is known of the sequences so far."""

    def __init__(self) -> None:
        self._rows = [_of_batch(pa.RecordBatch.from_pylist([], schema=DATUM_SCHEMA))]
        self._logprobs, self._advantages, self._ratios = map(
            Sketch, ("logprob", "advantages", "ratio")
        )
        self._cut: Counter[bool | None] = Counter()

    def add(self, batch: pa.RecordBatch) -> None:
        self._rows.append(_of_batch(batch))
        mask = _flat(batch.column("loss_mask")).astype(bool)
        trained = int(mask.sum())
        logprobs = _flat(batch.column("sampled_logprobs"))[mask]
        self._logprobs.add(logprobs)
        advantages = _per_trained(batch.column("advantages"), batch, mask)
        self._advantages.add(advantages, missing=trained - advantages.size)
        rescored = _spread(batch.column("rescored_logprobs"), batch)[mask]
        known = self._logprobs.usable(rescored) & self._logprobs.usable(logprobs)
        ratios = np.exp(np.minimum((rescored - logprobs)[known], _MOST_LOG_RATIO))
        self._ratios.add(ratios, missing=trained - ratios.size)
        reasons = batch.column("finish_reasons")
        self._cut.update(map(cut_at_cap, reasons.values.to_pylist()))

    def stats(self, manifest: DatumManifest, where: str | None, left_out: int) -> SequenceStats:
        rows = pl.concat(self._rows)
        summary = manifest.summary
        episodes = rows.unique("episode_id", maintain_order=True)
        reasons = {
            "filtered": summary.filtered,
            "where": summary.unselected,
            "without_tokens": summary.without_tokens,
            "dropped_groups": summary.dropped_groups,
            **{reason.value: n for reason, n in summary.stats.dropped_records.items()},
        }
        causes = rows["break_cause"].drop_nulls().value_counts().iter_rows()
        tokens, trained = int(rows["tokens"].sum()), int(rows["trained"].sum())
        cut, uncut = self._cut[True], self._cut[False]
        distributions = {
            "sequence_tokens": distribution("sequence_tokens", rows["tokens"]),
            "trained_tokens": distribution("trained_tokens", rows["trained"]),
            "weight": distribution("weight", rows["weight"]),
            "reward": distribution(
                "reward",
                episodes.filter("measured")["reward"],
                missing=int((~episodes["measured"]).sum()),
            ),
            "logprob": self._logprobs.distribution(),
            "advantages": self._advantages.distribution(),
            "ratio": self._ratios.distribution(),
        }
        return SequenceStats(
            source=manifest.source,
            purpose=manifest.options.purpose.value,
            where=where,
            left_out_sequences=left_out,
            records=summary.records,
            left_out={reason: n for reason, n in reasons.items() if n},
            left_out_tokens={r.value: n for r, n in summary.stats.dropped_tokens.items()},
            episodes=episodes.height,
            sequences=rows.height,
            tokens=tokens,
            trained_tokens=trained,
            context_tokens=tokens - trained,
            solve_rate=_solved(episodes),
            distributions=distributions,
            breaks=dict(sorted(causes, key=lambda pair: (-pair[1], pair[0]))),
            staleness=_staleness(rows),
            groups=_groups(episodes),
            truncation=rate(cut, cut + uncut),
            tasks=_tasks(rows, episodes),
        )


def _of_batch(batch: pa.RecordBatch) -> pl.DataFrame:
    """A row a sequence: its flat columns, and what its lists add up to."""
    mask = batch.column("loss_mask")
    starts = mask.offsets.to_numpy()
    running = np.concatenate([[0], np.cumsum(_flat(mask), dtype=np.int64)])
    trained = np.diff(running[starts - starts[0]]) if starts.size else starts
    flat = pl.DataFrame(pl.from_arrow(batch.select(list(_FLAT))))
    steps = [
        steps_of(step, versions or (), [None])
        for step, versions in flat.select("train_step", "policy_versions").iter_rows()
    ]
    measured = [
        is_measured(reward, valid)
        for reward, valid in flat.select("reward", "reward_valid").iter_rows()
    ]
    return flat.drop("train_step", "policy_version", "policy_versions").with_columns(
        tokens=pl.Series(np.diff(starts), dtype=pl.Int64),
        trained=pl.Series(trained, dtype=pl.Int64),
        measured=pl.Series(measured, dtype=pl.Boolean),
        oldest_step=pl.Series([min(s, default=None) for s in steps], dtype=pl.Int64),
        newest_step=pl.Series([max(s, default=None) for s in steps], dtype=pl.Int64),
    )


def _flat(lists: pa.ListArray) -> NDArray[np.float64]:
    """The values end to end; null becomes NaN."""
    edges = lists.offsets.to_numpy()
    values = lists.values.slice(int(edges[0]), int(edges[-1] - edges[0]))
    flat: NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    return flat


def _spread(lists: pa.ListArray, batch: pa.RecordBatch) -> NDArray[np.float64]:
    """Values of all tokens of a batch, NaN where a row has none."""
    present = lists.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.diff(batch.column("loss_mask").offsets.to_numpy())
    spread = np.full(int(sizes.sum()), np.nan)
    spread[np.repeat(present, sizes)] = _flat(lists)
    return spread


def _per_trained(
    lists: pa.ListArray, batch: pa.RecordBatch, mask: NDArray[np.bool_]
) -> NDArray[np.float64]:
    values = _spread(lists, batch)[mask]
    return values[~np.isnan(values)]


def _solved(episodes: pl.DataFrame) -> Rate:
    passed = episodes.filter("measured")["passed"].drop_nulls()
    return rate(int(passed.sum()), passed.len())


def _staleness(rows: pl.DataFrame) -> Distribution | None:
    newest = rows["newest_step"].max()
    if newest is None:
        return None
    oldest = rows["oldest_step"]
    behind = int(newest) - oldest.drop_nulls().to_numpy()  # type: ignore[arg-type]
    return distribution("staleness", behind, missing=int(oldest.null_count()))


def _groups(episodes: pl.DataFrame) -> GroupSummary:
    groups = episodes.group_by("group_id", "step_name").agg(
        pl.col("group_size", "group_measured", "group_mean", "group_std").first()
    )
    several = groups.select("group_std", "group_mean").drop_nulls()
    equal = sum(is_rounding(std, mean) for std, mean in several.iter_rows())
    return GroupSummary(
        groups=groups.height,
        size=distribution("size", groups["group_size"]),
        measured=distribution("measured", groups["group_measured"]),
        zero_variance=rate(equal, several.height),
    )


def _tasks(rows: pl.DataFrame, episodes: pl.DataFrame) -> tuple[DatumTask, ...]:
    keys = ("task_id", "step_name")
    sums = rows.group_by(keys).agg(sequences=pl.len(), trained_tokens=pl.col("trained").sum())
    judged = pl.col("measured") & pl.col("passed").is_not_null()
    graded = episodes.group_by(keys).agg(
        episodes=pl.len(),
        solved=(judged & pl.col("passed")).sum(),
        judged=judged.sum(),
    )
    joined = sums.join(graded, on=keys, nulls_equal=True).sort(keys, nulls_last=False)
    return tuple(
        DatumTask(solve_rate=rate(row.pop("solved"), row.pop("judged")), **row)
        for row in joined.iter_rows(named=True)
    )
