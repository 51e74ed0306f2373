"""Rewards of a group to one advantage an episode."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from wmo_distill.datums import rewards
from wmo_distill.datums.options import Baseline, DatumOptions
from wmo_distill.datums.rewards import ChosenReward, chosen_rewards

COLUMNS = (*rewards.COLUMNS, "group_id")

# 0.1 * 3 next to 0.3: a deviation of this share of the mean is rounding, not a difference.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class EpisodeGroup:
    """An episode's group, and its place in it.

    `chosen` is its reward; `mean` and `std` (n - 1, None below two) are over measured members;
    `advantage` is None where there is none to be had; `dropped` says that the whole group was to
    be left out, `selected` that `--where` is true of the episode.
    """

    chosen: ChosenReward

    size: int
    measured: int
    mean: float | None
    std: float | None
    advantage: float | None
    dropped: bool
    selected: bool = True


def episode_groups(
    rows: Iterable[Mapping[str, Any]], options: DatumOptions, *, pass_at: float | None = None
) -> dict[str, EpisodeGroup]:
    """For every episode of a dataset, by episode_id; `rows` hold `COLUMNS`.

    A group is the episodes of one group_id and step_name, whether or not they hold tokens.
    `pass_at` is the dataset's.
    """
    episodes = list(rows)
    chosen = chosen_rewards(episodes, options, pass_at=pass_at)
    groups: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for row in episodes:
        groups[row["group_id"], row["step_name"]].append(row["episode_id"])
    return {
        episode: group
        for members in groups.values()
        for episode, group in _of_group(members, chosen, options)
    }


def _of_group(
    members: Sequence[str], chosen: Mapping[str, ChosenReward], options: DatumOptions
) -> Iterable[tuple[str, EpisodeGroup]]:
    rewards = {
        episode: float(one.reward)
        for episode in members
        if (one := chosen[episode]).reward is not None and one.measured
    }
    values = list(rewards.values())
    try:
        mean = fmean(values) if values else None
        std = stdev(values) if len(values) > 1 else None
    except OverflowError:  # near the largest float64: no advantage is a number
        mean = std = None
    constant = mean is not None and (std is None or is_rounding(std, mean))
    dropped = len(values) < options.min_group or (options.drop_constant and constant)
    for episode in members:
        reward = rewards.get(episode)
        advantage = None
        if reward is not None and mean is not None and not dropped:
            advantage = _advantage(reward, mean, std, len(values), options.advantages)
        yield (
            episode,
            EpisodeGroup(chosen[episode], len(members), len(values), mean, std, advantage, dropped),
        )


def _advantage(
    reward: float, mean: float, std: float | None, n: int, baseline: Baseline
) -> float | None:
    if baseline is Baseline.CENTERED:
        return reward - mean
    if baseline is Baseline.NONE or std is None:
        return None
    if baseline is Baseline.RLOO:
        return (reward - mean) * n / (n - 1)
    return 0.0 if is_rounding(std, mean) else (reward - mean) / std


def is_rounding(std: float, mean: float) -> bool:
    return std <= _ROUNDING * max(1.0, abs(mean))
