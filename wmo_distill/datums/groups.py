"""Rewards of a group to one advantage an episode."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from wmo_distill.datums.options import Baseline, DatumOptions, RewardOf

COLUMNS = (
    "episode_id",
    "artifact_dir",
    "step_index",
    "step_name",
    "group_id",
    "reward",
    "trial_reward",
    "reward_valid",
)


@dataclass(frozen=True, slots=True)
class EpisodeGroup:
    """An episode's group, and its place in it.

    `mean` and `std` (n - 1, None below two) are over measured members; `advantage` is None where
    there is none to be had; `dropped` says that the whole group was to be left out.
    """

    size: int
    measured: int
    mean: float | None
    std: float | None
    advantage: float | None
    dropped: bool


def episode_groups(
    rows: Iterable[Mapping[str, Any]], options: DatumOptions
) -> dict[str, EpisodeGroup]:
    """For every episode of a dataset, by episode_id; `rows` hold `COLUMNS`.

    A group is the episodes of one group_id and step_name, whether or not they hold tokens.
    """
    episodes = list(rows)
    rewards = _rewards(episodes, options)
    groups: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for row in episodes:
        groups[row["group_id"], row["step_name"]].append(row["episode_id"])
    return {
        episode: group
        for members in groups.values()
        for episode, group in _of_group(members, rewards, options)
    }


def _of_group(
    members: Sequence[str], rewards: Mapping[str, float], options: DatumOptions
) -> Iterable[tuple[str, EpisodeGroup]]:
    values = [rewards[episode] for episode in members if episode in rewards]
    mean = fmean(values) if values else None
    std = stdev(values) if len(values) > 1 else None
    constant = len(set(values)) == 1
    dropped = len(values) < options.min_group or (options.drop_constant and constant)
    for episode in members:
        reward = rewards.get(episode)
        advantage = None
        if reward is not None and mean is not None and not dropped:
            advantage = _advantage(reward, mean, std, len(values), options.advantages)
        yield episode, EpisodeGroup(len(members), len(values), mean, std, advantage, dropped)


def _advantage(
    reward: float, mean: float, std: float | None, n: int, baseline: Baseline
) -> float | None:
    if baseline is Baseline.CENTERED:
        return reward - mean
    if baseline is Baseline.NONE or std is None:
        return None
    if baseline is Baseline.RLOO:
        return (reward - mean) * n / (n - 1)
    return (reward - mean) / std if std else 0.0


def _rewards(episodes: Sequence[Mapping[str, Any]], options: DatumOptions) -> dict[str, float]:
    """The measured reward of each episode that has one."""
    key = "trial_reward" if options.reward is RewardOf.TRIAL else "reward"
    rewards = {
        row["episode_id"]: float(row[key])
        for row in episodes
        if row[key] is not None and row["reward_valid"] is True and math.isfinite(row[key])
    }
    if options.reward is not RewardOf.RETURN:
        return rewards
    trials: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in episodes:
        trials[row["artifact_dir"]].append(row)
    returns: dict[str, float] = {}
    for steps in trials.values():
        total = 0.0
        for row in sorted(steps, key=lambda row: row["step_index"] or 0, reverse=True):
            reward = rewards.get(row["episode_id"])
            total = options.discount * total + (reward or 0.0)
            if reward is not None:
                returns[row["episode_id"]] = total
    return returns
