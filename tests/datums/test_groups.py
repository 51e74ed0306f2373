"""Group numbers and advantages from rewards."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.groups import episode_groups
from wmo_distill.datums.options import Baseline, DatumOptions, RewardOf
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.build import build


def row(name: str, reward: float | None, **more: Any) -> dict[str, Any]:
    return {
        "episode_id": name,
        "trial_id": None,
        "artifact_dir": name,
        "step_index": None,
        "step_name": None,
        "group_id": "g",
        "reward": reward,
        "trial_reward": reward,
        "reward_valid": True,
        "trial_reward_valid": True,
        "passed": None if reward is None else reward == 1.0,
        "infra_failed": False,
        "issues": [],
        **more,
    }


def advantages(rows: list[dict[str, Any]], **options: Any) -> dict[str, float | None]:
    groups = episode_groups(rows, DatumOptions(**options))
    return {name: group.advantage for name, group in groups.items()}


def test_one_group() -> None:
    rows = [row("a", 1.0), row("b", 0.0), row("c", 0.5), row("d", None)]
    rows.append(row("e", 1.0, reward_valid=False))
    group = episode_groups(rows, DatumOptions())["d"]
    assert (group.size, group.measured, group.mean, group.std) == (5, 3, 0.5, 0.5)
    assert set(advantages(rows).values()) == {None}
    got = advantages(rows, advantages="centered")
    assert got == {"a": 0.5, "b": -0.5, "c": 0.0, "d": None, "e": None}
    got = advantages(rows, advantages="grpo")
    assert (got["a"], got["b"], got["c"]) == (1.0, -1.0, 0.0)
    got = advantages(rows, advantages="rloo")
    # 1 - (0 + 0.5) / 2
    assert (got["a"], got["d"]) == (pytest.approx(0.75), None)


def test_one_measured_member_has_no_baseline() -> None:
    rows = [row("a", 1.0), row("b", None)]
    assert advantages(rows, advantages="grpo") == {"a": None, "b": None}
    assert advantages(rows, advantages="rloo") == {"a": None, "b": None}
    assert advantages(rows, advantages="centered") == {"a": 0.0, "b": None}


def test_groups_are_of_one_step() -> None:
    rows = [row("a", 1.0, step_name="x"), row("b", 0.0, step_name="y"), row("c", 0.0, group_id="h")]
    assert all(group.size == 1 for group in episode_groups(rows, DatumOptions()).values())


def test_groups_are_dropped_on_request() -> None:
    rows = [row("a", 1.0), row("b", 1.0), row("c", 0.0, group_id="h")]
    plain = episode_groups(rows, DatumOptions(advantages=Baseline.GRPO))
    assert not any(group.dropped for group in plain.values())
    assert plain["a"].advantage == 0.0  # one reward: no difference to learn from
    asked = DatumOptions(advantages=Baseline.GRPO, drop_constant=True, min_group=2)
    assert all(group.dropped for group in episode_groups(rows, asked).values())


def test_rewards_of_steps() -> None:
    steps = [
        row(f"t/{k}", reward, artifact_dir="t", step_index=k, step_name=str(k), trial_reward=0.5)
        for k, reward in enumerate([0.0, None, 1.0])
    ]
    other = [{**one, "episode_id": f"u{i}", "artifact_dir": "u", "reward": 0.0, "trial_reward": 0.0}
             for i, one in enumerate(steps)]  # fmt: skip
    rows = steps + other
    assert advantages(rows, advantages="centered")["t/0"] == 0.0
    by_trial = advantages(rows, advantages="centered", reward=RewardOf.TRIAL)
    assert by_trial["t/0"] == by_trial["t/1"] == 0.25
    by_return = advantages(rows, advantages="centered", reward=RewardOf.RETURN, discount=0.5)
    # the step between has no reward, so what comes from the first on is not known
    assert by_return == {"t/0": None, "t/1": None, "t/2": 0.5, "u0": 0.0, "u1": 0.0, "u2": -0.5}


def test_a_difference_of_rounding_is_none(tmp_path: Path) -> None:
    """0.1 * 3 next to 0.3, three times: what NumPy makes of it is 1.5, -0.5, -0.5, -0.5."""
    trials = Path(__file__).parents[2] / "fixtures/faults/grpo-rounding-noise/jobs"
    shards = tmp_path / "s"
    build([trials], shards, BuildOptions(declare={"logprob_mode": "raw"}), workers=1)
    build_datum_shards(shards, tmp_path / "d", DatumOptions(advantages=Baseline.GRPO))
    found = list(iter_datums(tmp_path / "d"))
    rewards = np.array([one.reward for one in found])
    assert len(set(rewards.tolist())) == 2
    assert np.ptp(rewards) <= np.spacing(0.3)
    assert [one.datum.advantages.any() for one in found] == [False] * 4  # type: ignore[union-attr]
    options = DatumOptions(advantages=Baseline.GRPO, drop_constant=True)
    summary = build_datum_shards(shards, tmp_path / "e", options)
    assert (summary.dropped_groups, summary.stats.datums) == (4, 0)


@pytest.mark.parametrize("baseline", [Baseline.GRPO, Baseline.CENTERED, Baseline.RLOO])
@pytest.mark.parametrize(
    ("rewards", "constant"),
    [
        ([0.1 + 0.2, 0.3, 0.3], True),
        ([1e9, 1e9 + 1, 1e9], True),  # a deviation of 0.6 next to 1e-6 * 1e9
        ([0.0, 1e-7], True),
        ([0.0, 1e-5], False),
        ([1e9, 1e9 + 1e4], False),
        ([-1e9, -1e9 + 1], True),
        ([0.0, 1.0], False),
    ],
)
def test_rounding_is_measured_against_the_mean(
    rewards: list[float], constant: bool, baseline: Baseline
) -> None:
    rows = [row(str(n), reward) for n, reward in enumerate(rewards)]
    array = np.array(rewards)
    deviation = array.std(ddof=1)
    assert (deviation <= 1e-6 * max(1.0, abs(array.mean()))) is np.bool_(constant)
    got = np.array(list(advantages(rows, advantages=baseline).values()))
    centered = array - array.mean()
    n = array.size
    want = {
        Baseline.GRPO: np.zeros(n) if constant else centered / deviation,
        Baseline.CENTERED: centered,
        Baseline.RLOO: centered * n / (n - 1),
    }[baseline]
    assert got == pytest.approx(want, abs=1e-6, rel=1e-6)
    groups = episode_groups(rows, DatumOptions(advantages=baseline, drop_constant=True))
    assert {group.dropped for group in groups.values()} == {constant}


@given(
    st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=8),
    st.sampled_from([Baseline.CENTERED, Baseline.GRPO, Baseline.RLOO]),
)
def test_advantages_of_a_group_sum_to_nothing(
    rewards: list[float | None], baseline: Baseline
) -> None:
    rows = [row(str(i), reward) for i, reward in enumerate(rewards)]
    got = advantages(rows, advantages=baseline)
    assert [value is None for value in got.values()] == [
        reward is None
        or (baseline is not Baseline.CENTERED and sum(r is not None for r in rewards) < 2)
        for reward in rewards
    ]
    assert math.fsum(value for value in got.values() if value is not None) == pytest.approx(
        0.0, abs=1e-6
    )


@pytest.mark.parametrize("how", list(Baseline))
def test_rewards_whose_sum_no_float_holds_give_no_advantage(how: Baseline) -> None:
    members = [row(name, 1.7e308) for name in "ab"] + [row("c", -1.7e308)]
    assert set(advantages(members, advantages=how).values()) == {None}
