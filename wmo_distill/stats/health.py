"""What the calls of the main chats say: output cap, entropy proxy, log-probability coverage."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB

SLICE = 128


class Quantiles(BaseModel):
    """The 10 %, 50 % and 90 % quantiles over episodes, which one odd episode cannot move far."""

    model_config = ConfigDict(frozen=True)

    p10: float
    p50: float
    p90: float


class PolicyHealth(BaseModel):
    """The sampled tokens of the main chats.

    `entropy_per_token` is -sum(log-probability) / tokens, in nats, over the tokens that have a
    usable one, finite and above `IMPLAUSIBLE_LOGPROB` (`scored_tokens`);
    `mean_generation_tokens` is per episode with spans. Both are None where nothing was sampled.
    """

    model_config = ConfigDict(frozen=True)

    episodes: int
    sampled_tokens: int
    scored_tokens: int
    entropy_per_token: float | None
    mean_generation_tokens: float | None
    episode_entropy: Quantiles | None = None
    """Of each episode's own `entropy_per_token`, over the episodes with a scored token."""
    episode_generation_tokens: Quantiles | None = None
    """Of the sampled tokens, over the episodes with spans."""


@dataclass(frozen=True, slots=True)
class CallStats:
    """Numbers over all calls, and two answers for each record in the order of the frame."""

    calls: int
    calls_at_cap: int
    """Calls that sampled at least `max_tokens`."""
    records_with_calls: int
    records_at_cap: int
    """Records with at least one such call."""
    with_spans: list[bool]
    with_logprobs: list[bool]
    health: PolicyHealth


def call_stats(frame: pl.LazyFrame, max_tokens: int | None) -> CallStats:
    """Over a frame's `spans`; a call that sampled at least `max_tokens` is at the cap."""
    records, calls, scores = _in_slices(frame.select("spans"))
    with_spans: list[bool] = records["with_spans"].to_list()
    scored_rows = set(scores["row"].to_list())
    sampled, scored = int(calls["sampled"].sum()), int(scores["scored"].sum())
    episodes = sum(with_spans)
    by_episode = dict(calls.group_by("row").agg(pl.col("sampled").sum()).iter_rows())
    # How much a call sampled whose ids are not recorded is unknown: it is in no rate.
    known = calls.drop_nulls("sampled")
    at_cap = known.clear() if max_tokens is None else known.filter(pl.col("sampled") >= max_tokens)
    return CallStats(
        calls=known.height,
        calls_at_cap=at_cap.height,
        records_with_calls=known["row"].n_unique(),
        records_at_cap=at_cap["row"].n_unique(),
        with_spans=with_spans,
        with_logprobs=[row in scored_rows for row in range(len(with_spans))],
        health=PolicyHealth(
            episodes=episodes,
            sampled_tokens=sampled,
            scored_tokens=scored,
            entropy_per_token=(0.0 - math.fsum(scores["total"])) / scored if scored else None,
            mean_generation_tokens=sampled / episodes if sampled else None,
            episode_entropy=_quantiles((0.0 - scores["total"] / scores["scored"]).to_list()),
            episode_generation_tokens=_quantiles(
                [by_episode.get(row, 0) for row, has in enumerate(with_spans) if has]
            )
            if sampled
            else None,
        ),
    )


def _quantiles(values: list[float]) -> Quantiles | None:
    """Interpolated linearly between the two nearest episodes."""
    if not values:
        return None
    p10, p50, p90 = np.quantile(values, (0.1, 0.5, 0.9)).tolist()
    return Quantiles(p10=p10, p50=p50, p90=p90)


def _in_slices(frame: pl.LazyFrame) -> list[pl.DataFrame]:
    """The answers to the queries; the tokens of `SLICE` rows are in memory."""
    rows = int(frame.select(pl.len()).collect().item())
    found = []
    for start in range(0, max(rows, 1), SLICE):
        answers = pl.collect_all(_queries(frame.slice(start, SLICE)))
        shift = pl.col("row") + pl.lit(start, pl.UInt32)
        found.append([answers[0], *(answer.with_columns(row=shift) for answer in answers[1:])])
    return [pl.concat(parts) for parts in zip(*found, strict=True)]


def _queries(frame: pl.LazyFrame) -> list[pl.LazyFrame]:
    """A row a record; a row a call of a main chat; a row a record with a log-probability.

    Versions of polars differ in what `explode` makes of an empty list, so none reaches it.
    """
    records = frame.with_row_index("row").with_columns(
        with_spans=pl.col("spans").list.len().fill_null(0) > 0
    )
    span = pl.col("spans").struct
    calls = (
        records.filter("with_spans")
        .explode("spans")
        .filter(span.field("segment") == 0)
        .select(
            "row",
            sampled=span.field("sampled_token_ids").list.len().cast(pl.Int64),
            logprobs=span.field("sampled_logprobs"),
        )
    )
    scores = (
        calls.filter(pl.col("logprobs").list.len() > 0)
        .select("row", "logprobs")
        .explode("logprobs")
        .filter(pl.col("logprobs").is_finite() & (pl.col("logprobs") > IMPLAUSIBLE_LOGPROB))
        .group_by("row", maintain_order=True)
        .agg(scored=pl.len().cast(pl.Int64), total=pl.col("logprobs").sum())
    )
    return [records.select("with_spans"), calls.select("row", "sampled"), scores]
