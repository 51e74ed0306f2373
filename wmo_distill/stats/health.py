"""What the calls of the main chats say: output cap, entropy proxy, log-probability coverage."""

from dataclasses import dataclass

import polars as pl
from pydantic import BaseModel, ConfigDict


class PolicyHealth(BaseModel):
    """The sampled tokens of the main chats.

    `entropy_per_token` is -sum(log-probability) / tokens, in nats, over the tokens that have a
    finite one (`scored_tokens`); `mean_generation_tokens` is per episode with spans. Both are
    None where nothing was sampled.
    """

    model_config = ConfigDict(frozen=True)

    episodes: int
    sampled_tokens: int
    scored_tokens: int
    entropy_per_token: float | None
    mean_generation_tokens: float | None


@dataclass(frozen=True, slots=True)
class CallStats:
    """Numbers over all calls, and two answers for each record in the order of the frame."""

    calls: int
    calls_at_cap: int
    records_with_calls: int
    records_at_cap: int
    with_spans: list[bool]
    with_logprobs: list[bool]
    health: PolicyHealth


def call_stats(frame: pl.LazyFrame, max_tokens: int | None) -> CallStats:
    """Over a frame's `spans`; a call that sampled at least `max_tokens` is at the cap."""
    span = pl.col("spans").struct
    calls = (
        frame.select("spans")
        .with_row_index("row")
        .explode("spans")
        .select(
            "row",
            found=pl.col("spans").is_not_null(),
            main=span.field("segment") == 0,
            sampled=span.field("sampled_token_ids").list.len().fill_null(0),
            logprobs=span.field("sampled_logprobs"),
        )
    )
    # The log-probabilities of one call are summed before anything is collected.
    scores = (
        calls.filter(pl.col("main"))
        .with_row_index("call")
        .select("row", "call", "sampled", "logprobs")
        .explode("logprobs")
        .with_columns(
            logprob=pl.when(pl.col("logprobs").is_finite()).then(pl.col("logprobs")),
        )
        .group_by("row", "call", maintain_order=True)
        .agg(
            sampled=pl.col("sampled").first(),
            scored=pl.col("logprob").count(),
            total=pl.col("logprob").sum(),
        )
        .collect()
    )
    spans = calls.group_by("row", maintain_order=True).agg(found=pl.col("found").any()).collect()
    with_spans: list[bool] = spans["found"].to_list()
    scored_rows = set(scores.filter(pl.col("scored") > 0)["row"].to_list())
    sampled, scored = int(scores["sampled"].sum()), int(scores["scored"].sum())
    episodes = sum(with_spans)
    at_cap = scores.clear()
    if max_tokens is not None:
        at_cap = scores.filter(pl.col("sampled") >= max_tokens)
    return CallStats(
        calls=scores.height,
        calls_at_cap=at_cap.height,
        records_with_calls=scores["row"].n_unique(),
        records_at_cap=at_cap["row"].n_unique(),
        with_spans=with_spans,
        with_logprobs=[row in scored_rows for row in range(len(with_spans))],
        health=PolicyHealth(
            episodes=episodes,
            sampled_tokens=sampled,
            scored_tokens=scored,
            entropy_per_token=(0.0 - float(scores["total"].sum())) / scored if scored else None,
            mean_generation_tokens=sampled / episodes if sampled and episodes else None,
        ),
    )
