"""A report is below 1 MB whatever the size of what it is of: the renderer, over large numbers."""

from pathlib import Path
from typing import Any

import pytest

from wmo_distill.issues import Issue
from wmo_distill.page.made import page_of, page_of_both
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.stats.compare import compare
from wmo_distill.stats.context import ContextAt
from wmo_distill.stats.distribution import distribution
from wmo_distill.stats.groups import TaskStats
from wmo_distill.stats.rates import rate
from wmo_distill.stats.rollout import RolloutStats, dataset_stats
from wmo_distill.stats.slices import Slice
from wmo_distill.stats.worst import Worst

TASKS = 5_000
# Each of these is ten characters on a page.
LONGEST = "\U000e0041" * 1_000


@pytest.fixture(scope="module")
def large(dataset: Path) -> RolloutStats:
    """Statistics of 100,000 episodes of 5,000 tasks, with the longest names."""
    tasks = tuple(
        TaskStats(
            task_id=f"{LONGEST}{number}",
            step_name=LONGEST,
            records=20,
            measured=number % 20,
            solve_rate=rate(number % 20 // 2, number % 20),
            median_reward=1 / 3,
            median_sampled=1 / 3,
            median_turns=1 / 3,
        )
        for number in range(TASKS)
    )
    slices = tuple(
        Slice(
            value=f"{LONGEST}{number}",
            values={},
            records=100,
            measured=99,
            solve_rate=rate(33, 99),
            infra_failed=1,
            sampled_tokens=10**12,
            median_sampled=1 / 3,
            median_turns=1 / 3,
            median_reward=1 / 3,
        )
        for number in range(TASKS)
    )
    worst = Worst(
        episode_id=LONGEST,
        trial_name=LONGEST,
        task_id=LONGEST,
        step_name=LONGEST,
        artifact_dir=LONGEST,
        reasons={issue.value: 10**9 for issue in Issue},
    )
    spread = distribution("turns", [value / 7 for value in range(100_000)])
    point: dict[str, Any] = {"episodes": 10**6, "p10": 1 / 3, "p50": 2 / 3, "p90": 1e9 / 3}
    stats = dataset_stats(dataset)
    return stats.model_copy(
        update={
            "tasks": tasks,
            "worst": (worst,) * 20,
            "issues": {issue.value: 10**9 for issue in Issue},
            "distributions": dict.fromkeys(stats.distributions, spread),
            "staleness": spread,
            "context": tuple(ContextAt(turn=turn, **point) for turn in range(1, 65)),
            **dict.fromkeys(("formats", "agents", "models", "versions", "by"), slices),
        }
    )


def test_one_is_below_1_mb(large: RolloutStats, dataset: Path) -> None:
    page = page_of("large", large, read_manifest(dataset))
    assert 200_000 < len(page.encode()) < 1_000_000


def test_two_are_below_1_mb(large: RolloutStats, dataset: Path) -> None:
    manifest = read_manifest(dataset)
    page = page_of_both(("a", "b"), compare(large, large), (manifest, manifest))
    assert 200_000 < len(page.encode()) < 1_000_000
