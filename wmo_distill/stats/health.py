"""What the calls of the main chats say of the policy: an entropy proxy, tokens an episode."""

import math

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict


class Quantiles(BaseModel):
    """The 10 %, 50 % and 90 % quantiles over episodes, which one odd episode cannot move far."""

    model_config = ConfigDict(frozen=True)

    p10: float
    p50: float
    p90: float


class PolicyHealth(BaseModel):
    """The sampled tokens of the main chats.

    `entropy_per_token` is -sum(log-probability) / tokens, in nats, over the tokens that have a
    usable one, finite and within 1000 of 0 (`scored_tokens`);
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


def policy_health(rows: pl.DataFrame) -> PolicyHealth:
    """Over records with the numbers of a `Tally`."""
    rows = rows.select("with_spans", "sampled", "scored", "logprobs")
    called, scored = rows.filter("with_spans"), rows.filter(pl.col("scored") > 0)
    sampled, tokens = int(rows["sampled"].sum()), int(rows["scored"].sum())
    total = math.fsum(scored["logprobs"])
    return PolicyHealth(
        episodes=called.height,
        sampled_tokens=sampled,
        scored_tokens=tokens,
        entropy_per_token=(0.0 - total) / tokens if tokens else None,
        mean_generation_tokens=sampled / called.height if sampled else None,
        episode_entropy=_quantiles(0.0 - scored["logprobs"] / scored["scored"]),
        episode_generation_tokens=_quantiles(called["sampled"]) if sampled else None,
    )


def _quantiles(values: pl.Series) -> Quantiles | None:
    """Interpolated linearly between the two nearest episodes."""
    if not values.len():
        return None
    p10, p50, p90 = np.quantile(values.to_numpy(), (0.1, 0.5, 0.9)).tolist()
    return Quantiles(p10=p10, p50=p50, p90=p90)
