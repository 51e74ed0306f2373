"""What is in a mean, a median and a count of episodes, and what is not."""

from pathlib import Path

import pytest

import wmo_distill
from tests.shards.generated import lawful, long_chat, write_dataset
from wmo_distill.datums.options import DatumOptions
from wmo_distill.records import SegmentInfo, SegmentKind
from wmo_distill.stats.datums import datum_stats
from wmo_distill.stats.rollout import dataset_stats
from wmo_distill.tokens import TokenSpan


@pytest.mark.parametrize("value", [1e9, -1e12, 1e300])
def test_an_absurd_reward_is_in_no_mean_and_no_median(tmp_path: Path, value: float) -> None:
    """Of three rewards, 0, 1 and an absurd one; and a group that has an absurd one alone."""
    rewards = {"a": 0.0, "b": 1.0, "c": value, "alone": value}
    rows = [
        lawful(name, reward=one, group_id=f"{name == 'alone':016x}", task_id=f"{name == 'alone'}")
        for name, one in rewards.items()
    ]
    write_dataset(tmp_path, [rows], {"reward_range": [-1e300, 1e300]})
    got = dataset_stats(tmp_path, by=["task_id"])
    assert [(g.measured, g.mean_reward, g.median_reward) for g in got.groups] == [
        (3, 0.5, 0.5),
        (1, None, None),
    ]
    assert [t.median_reward for t in got.tasks] == [0.5, None]
    assert [one.median_reward for one in got.by] == [0.5, None]
    assert got.agents[0].median_reward == got.distributions["reward"].p50 == 0.5


def test_an_episode_with_calls_of_other_chats_alone_has_no_main_call(tmp_path: Path) -> None:
    other = tuple(
        TokenSpan(s.call_index, s.prompt_token_ids, s.sampled_token_ids, segment=1)
        for s in long_chat(2, 3)
    )
    rows = [
        lawful("main"),
        lawful(
            "other",
            spans=other,
            segments=(SegmentInfo(), SegmentInfo(SegmentKind.SUBAGENT)),
            issues=(wmo_distill.Issue.AGENT_NOT_TRAINABLE,),
        ),
    ]
    write_dataset(tmp_path, [rows])
    got = dataset_stats(tmp_path)
    assert (got.funnel.with_spans, got.health.episodes) == (1, 1)
    assert got.spanless == {"agent_not_trainable": 1}
    for name in ("turns", "sampled_tokens", "total_tokens"):
        assert (got.distributions[name].count, got.distributions[name].missing) == (1, 1)
    assert got.distributions["turns"].low == 3
    assert got.agents[0].median_turns == 3


def test_groups_of_sequences_are_as_a_whole(tmp_path: Path) -> None:
    """Of the rewards 0, 1, 1 only the solved are trained: the group still has contrast."""
    rows = [lawful(f"t{i}", reward=min(i, 1.0), passed=i > 0) for i in range(3)]
    write_dataset(tmp_path / "shards", [rows])
    options = DatumOptions(where="reward = 1", advantages="centered")
    wmo_distill.build_datum_shards(tmp_path / "shards", tmp_path / "datums", options)
    got = datum_stats(tmp_path / "datums")
    assert (got.episodes, got.groups.groups) == (2, 1)
    assert (got.groups.size.low, got.groups.measured.low) == (3, 3)
    assert (got.groups.zero_variance.numerator, got.groups.zero_variance.denominator) == (0, 1)
    assert got.distributions["advantages"].p50 == pytest.approx(1 / 3, rel=2e-3)
