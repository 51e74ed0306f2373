"""Rollout statistics over the columns of record shards: outcomes, endings, tokens, policy.

A record is one episode. Measured means graded and valid; rates count measured records unless
their name says `raw`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from wmo_distill.records import StopReason
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.scan import Rows
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.shards.selection import chosen
from wmo_distill.stats.calls import READ
from wmo_distill.stats.context import ContextAt
from wmo_distill.stats.distribution import Distribution, distribution
from wmo_distill.stats.funnel import Found, Funnel, TokenTotals, found_in, funnel_of, totals_of
from wmo_distill.stats.groups import GroupStats, PassAtK, TaskStats, by_group, by_task, pass_rates
from wmo_distill.stats.health import PolicyHealth, policy_health
from wmo_distill.stats.rates import Rate, rate
from wmo_distill.stats.slices import Slice, checked_columns, slices
from wmo_distill.stats.tally import FLAT, Tally
from wmo_distill.stats.worst import Worst

# Endings that say nothing about agent and harness.
_OUTSIDE = (StopReason.UNKNOWN, StopReason.NOT_RUN, StopReason.CANCELLED)
_SLICE = 4096


class RolloutStats(BaseModel):
    """What `stats` prints of a dataset."""

    model_config = ConfigDict(frozen=True)

    trials: int
    records: int
    superseded: int
    """Trials that a regrade of the same rollout supersedes: their records are in no number here."""
    where: str | None
    left_out: int
    """Records for which `where` is not true: in no number here but those of `found`."""
    measured: int
    infra_failed: int
    found: Found | None
    spanless: dict[str, int]
    solve_rate: Rate
    raw_solve_rate: Rate
    graded_solve_rate: Rate
    infra_failed_rate: Rate
    scaffold_loss_rate: Rate
    reference_scaffold_loss_rate: Rate
    stop_reasons: dict[str, dict[str, int]]
    """Records by stop reason, then by completion."""
    reference_stop_reasons: dict[str, int]
    """Records by the reference's word; null is under `unknown`."""
    issues: dict[str, int]
    max_tokens: int | None
    calls_at_cap: Rate
    records_at_cap: Rate
    funnel: Funnel
    tokens: TokenTotals
    health: PolicyHealth
    distributions: dict[str, Distribution]
    """`sampled_tokens`, `total_tokens` and `turns` are those of the records with a call,
    `reward` of the measured ones; `logprob` is over tokens, `episode_logprob` an episode's mean."""
    context: tuple[ContextAt, ...]
    breaks: dict[str, int]
    """Prompts of main chats that do not extend what came before, by cause."""
    staleness: Distribution | None
    """Training steps between an episode's oldest one and the newest of all; None without any."""
    formats: tuple[Slice, ...]
    agents: tuple[Slice, ...]
    models: tuple[Slice, ...]
    versions: tuple[Slice, ...]
    by: tuple[Slice, ...]
    """For each combination of values in the columns of `--by`."""
    tasks: tuple[TaskStats, ...]
    groups: tuple[GroupStats, ...]
    pass_at_k: tuple[PassAtK, ...]
    worst: tuple[Worst, ...]


def dataset_stats(
    out: Path | str,
    *,
    max_tokens: int | None = None,
    by: Sequence[str] = (),
    where: str | None = None,
) -> RolloutStats:
    """Statistics of the dataset in `out`; the tokens of one row group are in memory.

    `max_tokens` is the output cap of a call, `by` columns to split by, `where` a condition.
    UsageError for no dataset, an unknown column or no condition.
    """
    out = Path(out)
    manifest, counting = read_manifest(out), Rows.of(out)
    schema = pl.DataFrame(pl.from_arrow(SCHEMA.empty_table())).schema
    by = checked_columns(by, schema)
    mask = None
    if where is not None:
        mask = chosen(where, SCHEMA, lambda columns: counting.batches(columns, lambda b: [b]))
    tally = Tally(max_tokens, by)
    flat = list(dict.fromkeys([*FLAT, *by]))
    spans = [f"spans.list.element.{name}" for name in READ]
    tally.add(*_split(SCHEMA.empty_table(), flat))
    seen = 0
    pool = pa.default_memory_pool()
    for batch in counting.batches([*flat, *spans], lambda b: [b]):
        pool.release_unused()  # of the row group before
        rows = batch
        if mask is not None:
            rows = batch.filter(pa.array(mask[seen : seen + batch.num_rows]))
        seen += batch.num_rows
        tally.add(*_split(rows, flat))
    return _stats(
        tally,
        max_tokens=max_tokens,
        by=by,
        where=where,
        left_out=0 if mask is None else int((~mask).sum()),
        superseded=counting.passed_over,
        found=found_in(manifest),
    )


def rollout_stats(
    frame: pl.LazyFrame | pl.DataFrame,
    *,
    max_tokens: int | None = None,
    superseded: int = 0,
    by: Sequence[str] = (),
) -> RolloutStats:
    """The same of a frame of record columns, such as rows of `scan` that were filtered.

    The frame is taken as it is: `scan` has left out superseded regrades, `superseded` is their
    number. Polars from 1.34 on reads a LazyFrame in batches, an older one as a whole.
    """
    lazy = frame.lazy()
    by = checked_columns(by, lazy.collect_schema())
    names = [n for n in dict.fromkeys([*FLAT, *by]) if n in lazy.collect_schema()]
    tally = Tally(max_tokens, by)
    for rows in _batches(lazy.select(*names, "spans")):
        tally.add(rows.select(names), rows["spans"].rechunk().to_arrow())
    return _stats(tally, max_tokens=max_tokens, by=by, superseded=superseded)


def _split(rows: pa.RecordBatch | pa.Table, flat: list[str]) -> tuple[pl.DataFrame, pa.ListArray]:
    spans = rows.column("spans")
    if isinstance(spans, pa.ChunkedArray):
        spans = spans.combine_chunks()
    return pl.DataFrame(pl.from_arrow(rows.select(flat))), spans


def _batches(lazy: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """One without rows, and then all rows."""
    yield lazy.head(0).collect()
    if hasattr(lazy, "collect_batches"):
        yield from lazy.collect_batches(chunk_size=_SLICE, maintain_order=True)
    else:
        yield from lazy.collect().iter_slices(_SLICE)


def _stats(
    tally: Tally,
    *,
    max_tokens: int | None,
    by: Sequence[str],
    superseded: int,
    where: str | None = None,
    left_out: int = 0,
    found: Found | None = None,
) -> RolloutStats:
    rows = tally.records()
    measured = rows.select("measured", "passed", "score").filter("measured")
    groups, health = by_group(rows), policy_health(rows)
    passed, judged = (pl.col("passed").sum(), pl.col("passed").is_not_null().sum())
    solved, of = measured.select(passed, judged=judged).row(0)
    failed = int(rows["infra_failed"].sum())
    ended = rows["stop_reason"].drop_nulls()
    ended = ended.filter(~ended.is_in([word.value for word in _OUTSIDE]))
    words = rows["reference_stop_reason"].fill_null("unknown")
    known = words.filter(words != "unknown")
    scores = measured["score"].drop_nulls().drop_nans()
    return RolloutStats(
        trials=rows["artifact_dir"].n_unique(),
        records=rows.height,
        superseded=superseded,
        where=where,
        left_out=left_out,
        measured=measured.height,
        infra_failed=failed,
        found=found,
        spanless=_ranked(rows["spanless"].drop_nulls().value_counts().iter_rows()),
        solve_rate=rate(solved, of),
        raw_solve_rate=rate(int(rows["passed"].sum()), rows.height),
        graded_solve_rate=rate(float(scores.sum()), scores.len()),
        infra_failed_rate=rate(failed, rows.height),
        scaffold_loss_rate=rate(int((ended != StopReason.SUBMITTED.value).sum()), ended.len()),
        reference_scaffold_loss_rate=rate(
            int((known != StopReason.SUBMITTED.value).sum()), known.len()
        ),
        stop_reasons=_crossed(rows),
        reference_stop_reasons=dict(sorted(words.value_counts().iter_rows())),
        issues=_ranked(tally.issues.items()),
        max_tokens=max_tokens,
        calls_at_cap=_at_cap(rows["at_cap"], rows["calls"], max_tokens),
        records_at_cap=_at_cap(rows["at_cap"] > 0, rows["calls"] > 0, max_tokens),
        funnel=funnel_of(rows),
        tokens=totals_of(rows),
        health=health,
        distributions=_distributions(rows, tally, health),
        context=tally.context.points(),
        breaks=_ranked(tally.breaks.items()),
        staleness=_staleness(rows),
        formats=slices(rows, ["format"]),
        agents=slices(rows, ["agent_name"]),
        models=slices(rows, ["model_name"]),
        versions=slices(rows, ["policy_version"]),
        by=slices(rows, by),
        tasks=by_task(rows),
        groups=groups,
        pass_at_k=pass_rates(groups),
        worst=tally.worst,
    )


def _distributions(
    rows: pl.DataFrame, tally: Tally, health: PolicyHealth
) -> dict[str, Distribution]:
    # Column by column: a copy of all of them would be the most memory of the pass.
    called, scored, graded = rows["with_spans"], rows["scored"] > 0, rows["measured"]
    none = int((~called).sum())
    # Summed episode by episode, so that the batches that were read do not show in it.
    mean = None if health.entropy_per_token is None else 0.0 - health.entropy_per_token
    return {
        **{
            name: distribution(name, rows[column].filter(called), missing=none)
            for name, column in (
                ("sampled_tokens", "sampled"),
                ("total_tokens", "total_tokens"),
                ("turns", "turns"),
            )
        },
        "agent_seconds": _of(rows, "agent_seconds"),
        "reward": distribution(
            "reward",
            rows["reward"].filter(graded),
            missing=int((~graded).sum()),
        ),
        "logprob": tally.logprobs.distribution().model_copy(update={"mean": mean}),
        "episode_logprob": distribution(
            "episode_logprob",
            (rows["logprobs"] / rows["scored"]).filter(scored),
            missing=int((~scored).sum()),
        ),
    }


def _of(rows: pl.DataFrame, name: str) -> Distribution:
    known = rows[name].drop_nulls()
    return distribution(name, known, missing=rows.height - known.len())


def _staleness(rows: pl.DataFrame) -> Distribution | None:
    newest = rows["newest_step"].max()
    if newest is None:
        return None
    sampled = rows["oldest_step"].filter(rows["sampled"] > 0)
    behind = int(newest) - sampled.drop_nulls().to_numpy()  # type: ignore[arg-type]
    return distribution("staleness", behind, missing=int(sampled.null_count()))


def _at_cap(at_cap: pl.Series, calls: pl.Series, max_tokens: int | None) -> Rate:
    return rate(0, 0) if max_tokens is None else rate(int(at_cap.sum()), int(calls.sum()))


def _crossed(rows: pl.DataFrame) -> dict[str, dict[str, int]]:
    pairs = (
        rows.select(
            stop=pl.col("stop_reason").fill_null("unknown"),
            done=pl.col("completion").fill_null("none"),
        )
        .group_by("stop", "done")
        .len()
        .sort("stop", "done")
    )
    crossed: dict[str, dict[str, int]] = {}
    for stop, done, n in pairs.iter_rows():
        crossed.setdefault(stop, {})[done] = n
    return crossed


def _ranked(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Counts, the largest first."""
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
