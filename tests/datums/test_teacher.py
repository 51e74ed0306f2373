"""Advantages and top-k targets from a teacher, against the reference's answers and by rule."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.arrays import as_ids
from wmo_distill.datums.advantages import attach_advantages
from wmo_distill.datums.datum import TrainDatum
from wmo_distill.datums.topk import build_topk_ce_datums

ANSWERS = json.loads((Path(__file__).parents[2] / "fixtures/datums/reference.json").read_text())
"""What world-model-optimizer 0.2.0 answered to random datums, teachers and candidates."""


def datum(told: dict[str, Any]) -> TrainDatum:
    return TrainDatum(
        trial_name=told["trial_name"],
        step_name=None,
        episode_id=told["trial_name"],
        segment=0,
        fragment_index=told["fragment_index"],
        token_ids=as_ids(told["model_input_tokens"]),
        loss_mask=np.array(told["loss_mask"], bool),
        sampled_logprobs=np.array(told["sampled_logprobs"], np.float64),
    )


def simple(mask: list[int], **more: Any) -> TrainDatum:
    return TrainDatum(
        trial_name="t",
        step_name=None,
        episode_id="t",
        segment=0,
        fragment_index=0,
        token_ids=as_ids(list(range(10, 10 + len(mask)))),
        loss_mask=np.array(mask, bool),
        sampled_logprobs=np.where(np.array(mask, bool), -1.0, 0.0),
        **more,
    )


@pytest.mark.parametrize("answer", ANSWERS)
def test_advantages_are_the_reference_s(answer: dict[str, Any]) -> None:
    datums = [datum(told) for told in answer["datums"]]
    got, stats = attach_advantages(
        datums, answer["teacher"], clip=answer["clip"], center=answer["center"]
    )
    assert [one.trial_name for one in got] == answer["kept"]
    for one, wanted in zip(got, answer["advantages"], strict=True):
        assert one.advantages is not None
        assert one.advantages.tolist() == pytest.approx(wanted, abs=1e-12)
    for name, value in answer["stats"].items():
        assert getattr(stats, name) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("answer", ANSWERS)
def test_topk_is_the_reference_s(answer: dict[str, Any]) -> None:
    datums = [datum(told) for told in answer["datums"]]
    rows = [
        [None if row is None else [(i, x) for i, x in row] for row in rows]
        for rows in answer["rows"]
    ]
    got, stats = build_topk_ce_datums(datums, rows, answer["k"])
    assert len(got) == len(answer["topk"])
    for one, (name, ids, weights) in zip(got, answer["topk"], strict=True):
        assert one.trial_name == name
        assert one.target_ids is not None
        assert one.target_weights is not None
        assert one.target_ids.tolist() == ids
        assert one.target_weights.tolist() == pytest.approx(weights, abs=1e-12)
    assert stats.model_dump() == answer["topk_stats"]


def test_another_number_of_answers_is_the_caller_s_error() -> None:
    with pytest.raises(ValueError, match="expected 1 lists"):
        attach_advantages([simple([0, 1])], [])
    with pytest.raises(ValueError, match="expected 1"):
        build_topk_ce_datums([simple([0, 1])], [], 1)
    with pytest.raises(ValueError, match="at least 1"):
        build_topk_ce_datums([], [], 0)
    with pytest.raises(ValueError, match="at most 1"):
        build_topk_ce_datums([simple([0, 1])], [[None, [(1, -1.0), (2, -1.0)]]], 1)


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf, -1000.0, -9999.0, -1e16])
def test_a_value_that_is_not_finite_or_implausible_trains_nothing(value: float) -> None:
    got, stats = attach_advantages([simple([0, 1])], [[None, value]])
    assert got == []
    assert (stats.not_finite_drops, stats.advantage_mean) == (1, None)
    copies, told = build_topk_ce_datums([simple([0, 1])], [[None, [(1, value)]]], 1)
    assert copies == []
    assert told.mismatch_drops == 1


def test_an_implausible_value_at_a_context_position_costs_nothing() -> None:
    got, stats = attach_advantages([simple([0, 1])], [[-9999.0, -999.0]])
    assert [one.advantages.tolist() for one in got] == [[0.0, -998.0]]  # type: ignore[union-attr]
    assert (stats.not_finite_drops, stats.teacher_mean) == (0, -998.0)


def test_an_implausible_sampled_value_stays_out_of_the_statistics() -> None:
    """A supervised build keeps such a token; teacher - sampled would be 1e16."""
    odd = simple([0, 1])
    odd.sampled_logprobs[1] = -1e16
    got, stats = attach_advantages([odd, simple([0, 1])], [[None, -1.5], [None, -1.5]])
    assert len(got) == 1
    assert (stats.not_finite_drops, stats.advantage_mean, stats.teacher_mean) == (1, -0.5, -0.5)


@pytest.mark.parametrize(
    "row",
    [
        [(7, -0.5), (7, -0.5), (8, -1.0)],
        [(8, -1.0), (7, -0.5), (8, -1.0)],
        [(7, -0.5), (7, -0.5000001), (8, -1.0), (8, -1.03)],
        [(7, -0.5), (8, -1.0), (7, -0.5), (8, -1.0), (7, -0.5)],
    ],
)
def test_a_candidate_that_is_listed_twice_has_one_weight(row: list[tuple[int, float]]) -> None:
    copies, _ = build_topk_ce_datums([simple([0, 1])], [[None, row]], 5)
    weights: dict[int, list[float]] = {}
    for copy in copies:
        assert copy.target_ids is not None
        assert copy.target_weights is not None
        if copy.target_weights[1]:
            weights.setdefault(int(copy.target_ids[1]), []).append(copy.target_weights[1])
    first, second = np.exp(-0.5), np.exp(-1.0)
    total = first + second
    assert weights == {7: [pytest.approx(first / total)], 8: [pytest.approx(second / total)]}


def test_two_log_probabilities_of_one_id_add_up() -> None:
    """As in the reference: two tokens of another tokenizer that are one of the student's."""
    row = [(7, -0.5), (7, -1.5), (8, -1.0)]
    copies, _ = build_topk_ce_datums([simple([0, 1])], [[None, row]], 3)
    shares = np.exp([-0.5, -1.5, -1.0])
    on_7 = sum(
        copy.target_weights[1]  # type: ignore[index]
        for copy in copies
        if copy.target_ids[1] == 7  # type: ignore[index]
    )
    assert on_7 == pytest.approx((shares[0] + shares[1]) / shares.sum())


def test_parts_add_up() -> None:
    rewarded = simple([0, 1, 1], advantages=np.array([0.0, 2.0, 2.0]))
    (got,), _ = attach_advantages([rewarded], [[None, -3.0, -1.0]], beta=0.5, discount=0.1)
    assert got.advantages is not None
    # teacher parts 0.5 * (-2) + 0.1 * 0 and 0.5 * 0, next to 2.0 of the reward
    assert got.advantages.tolist() == pytest.approx([0.0, 1.0, 2.0])


@given(
    st.lists(st.tuples(st.booleans(), st.floats(-20, 0)), min_size=1, max_size=8),
    st.integers(1, 4),
    st.data(),
)
def test_weights_of_a_position_sum_to_one(
    tokens: list[tuple[bool, float]], k: int, data: st.DataObject
) -> None:
    one = simple([int(trained) for trained, _ in tokens])
    candidate = st.tuples(st.integers(0, 99), st.floats(-30, 0))
    row = [data.draw(st.lists(candidate, min_size=1, max_size=k)) for _ in tokens]
    copies, _ = build_topk_ce_datums([one], [row], k)
    total = np.sum([copy.target_weights for copy in copies], axis=0)
    assert total == pytest.approx(one.loss_mask.astype(float))
    for copy in copies:
        assert copy.target_ids is not None
        assert copy.target_weights is not None
        filler = copy.target_weights == 0
        realised = copy.target_ids == copy.token_ids
        assert (realised | ~filler).all()


def test_a_first_token_without_a_prefix_gets_no_advantage_and_costs_none() -> None:
    one = simple([1, 1, 0, 1])
    teacher = np.array([np.nan, -0.5, -0.1, -2.0])
    (scored,), stats = attach_advantages([one], [teacher])
    assert scored.advantages is not None
    assert scored.advantages.tolist() == [0.0, 0.5, 0.0, -1.0]
    assert stats.mismatch_drops == stats.not_finite_drops == 0
    teacher[3] = np.nan
    assert attach_advantages([one], [teacher])[1].mismatch_drops == 1
