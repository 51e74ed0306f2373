"""Solve rates of tasks, and pass@k over groups of comparable episodes."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from wmo_distill.stats.rates import Rate, mean_rate, pass_at_k, rate
from wmo_distill.stats.slices import JUDGED, REWARDS, SOLVED


class TaskStats(BaseModel):
    """One task, or one step of a multi-step task, over all agents and models.

    Tasks of one name are one only where they are of one format and one source.
    """

    model_config = ConfigDict(frozen=True)

    task_id: str | None
    step_name: str | None
    format: str | None = None
    source: str | None = None
    origin: str | None = None
    """Format and source as text, where another task has the same name."""
    records: int
    measured: int
    """Records with a valid grade."""
    solve_rate: Rate
    median_reward: float | None
    """Of the measured records."""
    median_sampled: float | None
    """Sampled tokens of an episode, over those with a call."""
    median_turns: float | None


class GroupStats(BaseModel):
    """Episodes that may be compared: one task, agent, model, job and, if any, step."""

    model_config = ConfigDict(frozen=True)

    group_id: str
    step_name: str | None
    task_id: str | None
    agent_name: str | None
    model_name: str | None
    measured: int
    """Episodes with a valid grade that says passed or not."""
    solved: int
    mean_reward: float | None
    """Of the measured episodes; None where no reward is plausible."""
    median_reward: float | None
    pass_at_k: dict[int, float]
    """By k = 1, 2, 4, … up to `measured`."""


class PassAtK(BaseModel):
    """pass@k averaged over the groups with at least k measured episodes."""

    model_config = ConfigDict(frozen=True)

    k: int
    rate: Rate


def by_task(records: pl.DataFrame) -> tuple[TaskStats, ...]:
    """A line a task and step, in the order of their names."""
    named, origin = ["task_id", "step_name"], ["format", "source"]
    found = records.group_by(*named, *origin).agg(
        records=pl.len(),
        measured=pl.col("measured").sum(),
        solved=SOLVED.sum(),
        judged=JUDGED.sum(),
        median_reward=REWARDS.median(),
        median_sampled=pl.col("sampled").filter("with_spans").median(),
        median_turns=pl.col("turns").filter("with_spans").median(),
    )
    known = pl.concat_str(pl.col(origin), separator=", ", ignore_nulls=True)
    found = found.with_columns(origin=pl.when(pl.len().over(named) > 1).then(known))
    return tuple(
        TaskStats(solve_rate=rate(row.pop("solved"), row.pop("judged")), **row)
        for row in _sorted(found, *named, *origin)
    )


def by_group(records: pl.DataFrame) -> tuple[GroupStats, ...]:
    """The groups with a measured episode that either passed or did not."""
    first = {name: pl.col(name).first() for name in ("task_id", "agent_name", "model_name")}
    found = (
        records.lazy()
        .filter("measured")
        .group_by("group_id", "step_name", maintain_order=True)
        .agg(
            measured=JUDGED.sum(),
            solved=SOLVED.sum(),
            mean_reward=REWARDS.mean(),
            median_reward=REWARDS.median(),
            **first,
        )
        .filter(pl.col("measured") > 0)
        .collect()
    )
    return tuple(
        GroupStats(pass_at_k=_chances(row["measured"], row["solved"]), **row)
        for row in _sorted(found, "group_id", "step_name")
    )


def _sorted(found: pl.DataFrame, *names: str) -> Iterator[dict[str, Any]]:
    return found.sort(names, nulls_last=False, maintain_order=True).iter_rows(named=True)


def _chances(n: int, solved: int) -> dict[int, float]:
    chances = {k: pass_at_k(n, solved, k) for k in _ks(n)}
    return {k: chance for k, chance in chances.items() if chance is not None}


def pass_rates(groups: Sequence[GroupStats]) -> tuple[PassAtK, ...]:
    """For k = 1, 2, 4, … up to the largest group."""
    largest = max((group.measured for group in groups), default=0)
    return tuple(
        PassAtK(k=k, rate=mean_rate(g.pass_at_k[k] for g in groups if k in g.pass_at_k))
        for k in _ks(largest)
    )


def _ks(largest: int) -> list[int]:
    return [2**i for i in range(largest.bit_length())]
