"""SkyRL's form: the split, whole episodes, and SkyRL's own checks where it is installed."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.exporters.rows import datum_row
from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.files import json_line
from wmo_distill.exporters.skyrl import TARGETS, generator_row, skyrl_generator_output
from wmo_distill.exporters.target import Place, Refusal

PLACE = Place(0, 0, 0, 0, True)


def written(row: DatumRow, place: Place = PLACE) -> Any:
    return json.loads(json_line(generator_row(row, place)))


def batch() -> list[tuple[DatumRow, Place]]:
    """Two groups whose episodes alternate; the second episode is in two sequences."""
    return [
        (datum_row(), Place(0, 0, 0, 0, True)),
        (datum_row([(5, 1)], episode="e1", seed=1, group_id="g1"), Place(1, 1, 1, 0, False)),
        (
            datum_row([(2, 2), (1, 4)], episode="e1", fragment=1, group_id="g1"),
            Place(2, 1, 1, 1, True),
        ),
        (datum_row([(1, 7)], episode="e2", seed=2, reward=0.0), Place(3, 2, 0, 0, True)),
    ]


def test_every_token_has_its_place() -> None:
    row = datum_row()
    datum, got = row.datum, written(row)
    assert len(got["prompt_token_ids"]) == 3
    assert got["prompt_token_ids"] + got["response_ids"] == datum.token_ids.tolist()
    for j in range(len(got["response_ids"])):
        assert got["loss_masks"][j] == int(datum.loss_mask[3 + j])
        assert got["rollout_logprobs"][j] == datum.sampled_logprobs[3 + j]
        assert (got["rollout_logprobs"][j] == 0.0) == (not datum.loss_mask[3 + j])
    assert got["rewards"] == 1.0
    assert got["stop_reasons"] == "stop"
    assert got["trajectory_ids"] == {"instance_id": "g0", "repetition_id": 0}
    assert got["is_last_step"] is True
    assert got["rollout_expert_indices"] is None


@pytest.mark.parametrize("last", [True, False])
def test_only_the_sequence_that_was_cut_off_ends_by_length(last: bool) -> None:
    row = datum_row(stop_reason="output_truncated", changes={"ends_chat": last})
    got = written(row, Place(4, 2, 0, 1, last, 2))
    assert got["stop_reasons"] == ("length" if last else "stop")
    assert got["is_last_step"] is last
    assert got["trajectory_ids"]["repetition_id"] == 2


def test_first_token_is_never_in_the_response() -> None:
    got = written(datum_row([(0, 3)]))
    assert len(got["prompt_token_ids"]) == 1
    assert got["loss_masks"] == [1, 1]


def test_reward_that_is_not_measured_is_refused() -> None:
    (target,) = TARGETS
    assert target.refusal(datum_row()) is None
    assert target.refusal(datum_row(reward=None)) is Refusal.NO_REWARD
    assert target.refusal(datum_row(reward=0.0, reward_valid=False)) is Refusal.NO_REWARD


@pytest.fixture
def skyrl() -> Any:
    if sys.version_info < (3, 12):
        pytest.skip("SkyRL's generators load on Python 3.12 or newer")
    return pytest.importorskip(
        "skyrl.train.utils.trainer_utils", reason="`make test-trainers` installs it"
    )


def test_skyrl_accepts_the_output_step_by_step(skyrl: Any) -> None:
    from skyrl.train.dataset.preprocess import compute_prompt_boundaries
    from skyrl.train.generators.utils import get_metrics_from_generator_output

    rows = [written(row, place) for row, place in batch()]
    output = skyrl_generator_output(rows)
    skyrl.validate_generator_output(3, output, step_wise=True)
    uids = [name.instance_id for name in output["trajectory_ids"]]
    assert uids == ["g0", "g0", "g1", "g1"]
    assert compute_prompt_boundaries(uids) == [(0, 2), (2, 4)]
    assert output["is_last_step"] == [True, True, False, True]
    assert output["rewards"] == [1.0, 0.0, 1.0, 1.0]
    assert get_metrics_from_generator_output(output, uids)["pass_at_n"] == 1.0


def test_skyrls_check_would_see_a_fault(skyrl: Any) -> None:
    output = skyrl_generator_output([written(row, place) for row, place in batch()])
    output["loss_masks"][0] = output["loss_masks"][0][1:]
    with pytest.raises(AssertionError, match="same length"):
        skyrl.validate_generator_output(3, output, step_wise=True)


def test_skyrls_tensors_hold_the_datums(skyrl: Any) -> None:
    from skyrl.train.dataset.preprocess import convert_prompts_responses_to_batch_tensors

    experts = np.arange(9 * 2 * 2).reshape(9, 2, 2)
    rows = [datum_row(changes={"routed_experts": experts}), datum_row([(1, 8)], seed=1)]
    rows[1].datum.__dict__["routed_experts"] = experts[:8]
    output = skyrl_generator_output([written(row) for row in rows])
    rewards = [
        [0.0] * (len(ids) - 1) + [reward]
        for ids, reward in zip(output["response_ids"], output["rewards"], strict=True)
    ]
    ids, attention, action, scores, mask, logprobs, routes = (
        convert_prompts_responses_to_batch_tensors(
            SimpleNamespace(pad_token_id=0),
            output["prompt_token_ids"],
            output["response_ids"],
            rewards,
            output["loss_masks"],
            output["rollout_logprobs"],
            output["rollout_expert_indices"],
        )
    )
    for at, row in enumerate(rows):
        datum = row.datum
        n = datum.token_ids.size
        assert ids[at, -n:].tolist() == datum.token_ids.tolist()
        assert attention[at].sum() == n
        after = n - datum.call_starts[0]
        assert action[at].sum() == after
        assert mask[at, -after:].tolist() == datum.loss_mask[-after:].tolist()
        assert mask[at].sum() == datum.loss_mask.sum()
        want = datum.sampled_logprobs[-after:].astype(np.float32)
        assert logprobs[at, -after:].tolist() == want.tolist()
        assert scores[at].tolist() == [0.0] * (scores.shape[1] - 1) + [1.0]
        assert routes[at, -n:-1].tolist() == datum.routed_experts.tolist()


def test_episodes_must_be_whole(skyrl: Any) -> None:
    rows = [written(row, place) for row, place in batch()]
    with pytest.raises(ValueError, match=r"g1.*expected its last sequence"):
        skyrl_generator_output(rows[:2])
