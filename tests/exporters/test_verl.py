"""verl's form: the split, the padding, and verl's own post-processing where it is installed."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.exporters.rows import datum_row
from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.files import json_line
from wmo_distill.exporters.target import Place
from wmo_distill.exporters.verl import agent_loop_row, verl_dataproto, verl_output

PLACE = Place(0, 0, 0, 0, True)
PAD = 1


def written(row: DatumRow, place: Place = PLACE) -> Any:
    return json.loads(json_line(agent_loop_row(row, place)))


def batch() -> list[DatumRow]:
    """Four episodes of two groups, one of them in two sequences."""
    experts = np.arange(9 * 2 * 2).reshape(9, 2, 2).astype(np.uint8)
    return [
        datum_row(changes={"routed_experts": experts}),
        datum_row([(5, 1)], episode="e1", seed=1, reward=0.0),
        datum_row([(5, 1), (1, 4)], episode="e1", fragment=1, seed=1, reward=0.0),
        datum_row([(2, 7)], episode="e2", seed=2, group_id="g1"),
        datum_row([(1, 2)], episode="e3", seed=3, group_id="g1", reward=0.5),
    ]


def test_every_token_has_its_place() -> None:
    row = datum_row()
    datum, got = row.datum, written(row)
    assert len(got["prompt_ids"]) == 3
    assert got["prompt_ids"] + got["response_ids"] == datum.token_ids.tolist()
    for j in range(len(got["response_ids"])):
        assert got["response_mask"][j] == int(datum.loss_mask[3 + j])
        assert got["response_logprobs"][j] == datum.sampled_logprobs[3 + j]
        assert (got["response_logprobs"][j] == 0.0) == (not datum.loss_mask[3 + j])
    assert got["reward_score"] == 1.0
    assert got["num_turns"] == 4
    assert got["routed_experts"] is None
    assert got["extra_fields"] == {
        "uid": "g0",
        "episode_id": "e0",
        "episode_step": 0,
        "episode_last": True,
        "truncated": False,
        "min_global_steps": 7,
        "max_global_steps": 7,
    }


def test_prompt_ends_at_the_first_sampled_run_though_it_is_not_trained() -> None:
    row = datum_row()
    row.datum.loss_mask[3:5] = False
    got = written(row)
    assert len(got["prompt_ids"]) == 3
    assert got["response_mask"] == [0, 0, 0, 0, 1, 1, 1]


def test_first_token_is_never_in_the_response() -> None:
    got = written(datum_row([(0, 3)]))
    assert len(got["prompt_ids"]) == 1
    assert got["response_mask"] == [1, 1]


def test_reward_that_is_not_measured_is_null() -> None:
    assert written(datum_row(reward=None))["reward_score"] is None
    assert written(datum_row(reward=0.0, reward_valid=False))["reward_score"] is None


def test_steps_of_a_trial_are_groups_of_their_own() -> None:
    assert written(datum_row(changes={"step_name": "s1"}))["extra_fields"]["uid"] == "g0/s1"


@pytest.fixture
def worker() -> Any:
    """verl's agent loop worker without its servers, with a tokenizer that pads with PAD."""
    module = pytest.importorskip(
        "verl.experimental.agent_loop.agent_loop", reason="`make test-trainers` installs it"
    )
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({"<unk>": 0, "<pad>": PAD}, unk_token="<unk>"))
    made = object.__new__(module.AgentLoopWorker)
    made.tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>")
    made.rollout_config = SimpleNamespace(prompt_length=8, response_length=10)
    made.processor = made.reward_loop_worker_handles = None
    made.mm_processor_kwargs = {}
    made.distillation_enabled = False
    return made


def of_verl(worker: Any, rows: list[Any]) -> Any:
    """The DataProto that verl's own worker makes of its rollouts' outputs."""

    async def padded() -> list[Any]:
        return [
            await worker._agent_loop_postprocess(verl_output(row), False, raw_prompt=[])
            for row in rows
        ]

    return worker._postprocess(asyncio.run(padded()))


@pytest.mark.parametrize("routed", [False, True])
def test_dataproto_is_that_of_verls_worker(worker: Any, routed: bool) -> None:
    import torch

    rows = [written(row) for row in batch()[: 1 if routed else None]]
    if not routed:
        rows[0]["routed_experts"] = None
    ours = verl_dataproto(rows, pad_token_id=PAD, prompt_length=8, response_length=10)
    theirs = of_verl(worker, rows)
    assert type(ours) is type(theirs)
    got, want = dict(ours.batch.items()), dict(theirs.batch.items())
    assert set(got) == set(want)
    assert ("routed_experts" in got) == routed
    for name, tensor in want.items():
        assert got[name].dtype == tensor.dtype, name
        assert torch.equal(got[name], tensor), name
    for name, values in ours.non_tensor_batch.items():
        assert values.tolist() == theirs.non_tensor_batch[name].tolist(), name


def test_rewards_of_only_some_rows_are_left_out_as_in_verl(worker: Any) -> None:
    rows = [written(datum_row()), written(datum_row(reward=None))]
    for data in (verl_dataproto(rows), of_verl(worker, rows)):
        assert "rm_scores" not in dict(data.batch.items())


def test_dataproto_against_the_datums() -> None:
    pytest.importorskip("verl.protocol", reason="`make test-trainers` installs it")
    datums = batch()
    data = verl_dataproto([written(row) for row in datums], pad_token_id=PAD)
    width = data.batch["prompts"].shape[1]
    for at, row in enumerate(datums):
        n = row.datum.token_ids.size
        start = width - row.datum.call_starts[0]
        assert (
            data.batch["input_ids"][at, start : start + n].tolist() == row.datum.token_ids.tolist()
        )
        for position in range(n):
            trained = bool(row.datum.loss_mask[position])
            if start + position < width:
                assert not trained
                continue
            there = at, start + position - width
            assert bool(data.batch["response_mask"][there]) == trained
            logprob = np.float32(row.datum.sampled_logprobs[position])
            assert data.batch["rollout_log_probs"][there].item() == logprob
        assert data.batch["attention_mask"][at].sum() == n
        assert data.batch["response_mask"][at].sum() == row.datum.loss_mask.sum()


def test_groups_reach_verls_estimator() -> None:
    algorithms = pytest.importorskip(
        "verl.trainer.ppo.core_algos", reason="`make test-trainers` installs it"
    )
    rows = [datum_row(reward=1.0), datum_row(reward=0.0), datum_row(reward=5.0, group_id="g1")]
    data = verl_dataproto([written(row) for row in rows])
    advantages, _ = algorithms.compute_grpo_outcome_advantage(
        data.batch["rm_scores"],
        data.batch["response_mask"],
        data.non_tensor_batch["uid"],
        norm_adv_by_std_in_grpo=False,
    )
    mask = rows[0].datum.loss_mask[3:]
    for at, expected in enumerate((0.5, -0.5, 5.0)):
        assert advantages[at].tolist() == (mask * expected).tolist()


def test_rows_are_never_truncated() -> None:
    pytest.importorskip("verl.protocol", reason="`make test-trainers` installs it")
    with pytest.raises(ValueError, match="response_length: expected at least 7, found 6"):
        verl_dataproto([written(datum_row())], response_length=6)


def test_output_as_verl_reads_it() -> None:
    module = pytest.importorskip(
        "verl.experimental.agent_loop.agent_loop", reason="`make test-trainers` installs it"
    )
    row = batch()[0]
    line = json_line(agent_loop_row(row, PLACE))
    assert module.AgentLoopOutput.model_validate_json(line).num_turns == 4
    got = verl_output(agent_loop_row(row, PLACE)).as_dict()
    n = row.datum.token_ids.size
    assert got["prompts"].tolist() == row.datum.token_ids[:3].tolist()
    assert got["response_mask"].tolist() == row.datum.loss_mask[3:].astype(int).tolist()
    assert got["rm_scores"].tolist() == [0.0] * (n - 4) + [1.0]
    assert got["routed_experts"][: n - 1].tolist() == row.datum.routed_experts.tolist()
