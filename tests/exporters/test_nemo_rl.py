"""NeMo-RL's message log: what is trained, and the prompt by which it groups.

NeMo-RL is not on PyPI: its own flattening is compared with where its repository is installed.
"""

import json
from typing import Any

import numpy as np
import pytest

from tests.exporters.rows import datum_row
from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.files import json_line
from wmo_distill.exporters.nemo_rl import TARGETS, datum_spec_row, nemo_datum_spec
from wmo_distill.exporters.target import Place, Refusal

PLACE = Place(6, 5, 4, 0, True)


def written(row: DatumRow, place: Place = PLACE) -> Any:
    return json.loads(json_line(datum_spec_row(row, place)))


def flat(log: list[dict[str, Any]]) -> tuple[list[int], list[int], list[float]]:
    """Tokens, mask and log-probabilities as NeMo-RL's GRPO lays a log out.

    Trained is what is `assistant` and has generation_logprobs; a message without them gets zeros.
    """
    tokens: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for message in log:
        n = len(message["token_ids"])
        tokens += message["token_ids"]
        mask += [int(message["role"] == "assistant" and "generation_logprobs" in message)] * n
        logprobs += message.get("generation_logprobs", [0.0] * n)
    return tokens, mask, logprobs


def test_every_token_has_its_place() -> None:
    row = datum_row()
    datum, got = row.datum, written(row)
    roles = [(message["role"], len(message["token_ids"])) for message in got["message_log"]]
    assert roles == [("user", 3), ("assistant", 2), ("user", 2), ("assistant", 3)]
    tokens, mask, logprobs = flat(got["message_log"])
    assert tokens == datum.token_ids.tolist()
    assert mask == datum.loss_mask.astype(int).tolist()
    assert logprobs == datum.sampled_logprobs.tolist()
    for message in got["message_log"]:
        assert ("generation_logprobs" in message) == (message["role"] == "assistant")
    assert got["length"] == 3, "of the prompt, by which GRPO groups"
    assert got["loss_multiplier"] == 1.0
    assert got["idx"] == 4
    assert got["task_name"] == "org/task"
    assert got["total_reward"] == 1.0
    assert got["truncated"] is False


def test_a_sampled_run_that_is_not_trained_is_no_assistant() -> None:
    row = datum_row([(3, 2), (2, 3), (1, 2)])
    row.datum.loss_mask[3:5] = False
    row.datum.loss_mask[8] = False
    row.datum.sampled_logprobs[~row.datum.loss_mask] = 0.0
    log = written(row)["message_log"]
    assert log[0]["token_ids"] == row.datum.token_ids[:3].tolist()
    assert {message["role"] for message in log[:2]} == {"user"}
    tokens, mask, logprobs = flat(log)
    assert tokens == row.datum.token_ids.tolist()
    assert mask == row.datum.loss_mask.astype(int).tolist()
    assert logprobs == row.datum.sampled_logprobs.tolist()


def test_calls_that_follow_each_other_are_messages_of_their_own() -> None:
    log = written(datum_row([(3, 2), (0, 3)]))["message_log"]
    assert [len(message["token_ids"]) for message in log] == [3, 2, 3]


def test_first_token_is_not_trained() -> None:
    log = written(datum_row([(0, 3)]))["message_log"]
    assert [(m["role"], len(m["token_ids"])) for m in log] == [("user", 1), ("assistant", 2)]


def test_routes_cover_every_token_and_tell_that_the_last_has_none() -> None:
    experts = np.arange(9 * 2 * 2).reshape(9, 2, 2).astype(np.uint8)
    log = written(datum_row(changes={"routed_experts": experts}))["message_log"]
    routes = [route for message in log for route in message["routed_experts"]]
    assert [len(m["routed_experts"]) for m in log] == [len(m["token_ids"]) for m in log]
    assert routes == [*experts.tolist(), [[-1, -1], [-1, -1]]]


def test_cut_off_and_refused() -> None:
    row = datum_row(stop_reason="context_overflow", task_id=None)
    assert written(row)["truncated"] is True
    assert written(row)["task_name"] == "default"
    (target,) = TARGETS
    assert target.refusal(datum_row(reward=None)) is Refusal.NO_REWARD
    assert target.refusal(datum_row(reward_valid=False)) is Refusal.NO_REWARD


def test_tensors() -> None:
    torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")
    row = datum_row(changes={"routed_experts": np.zeros((9, 2, 2), np.uint8)})
    for given in (datum_spec_row(row, PLACE), written(row)):
        spec = nemo_datum_spec(given)
        log = spec["message_log"]
        for message in log:
            assert message["token_ids"].dtype == torch.int64
            assert message["routed_experts"].dtype == torch.int16
        assert torch.cat([m["token_ids"] for m in log]).tolist() == row.datum.token_ids.tolist()
        got = torch.cat([m["generation_logprobs"] for m in log if m["role"] == "assistant"])
        want = row.datum.sampled_logprobs[row.datum.loss_mask].astype(np.float32)
        assert got.dtype == torch.float32
        assert got.tolist() == want.tolist()
        assert spec["total_reward"].item() == 1.0


def test_nemo_rl_flattens_the_log_to_the_datum() -> None:
    utilities = pytest.importorskip(
        "nemo_rl.data.llm_message_utils", reason="NeMo-RL installs from its repository alone"
    )
    grpo = pytest.importorskip("nemo_rl.algorithms.grpo")
    torch = pytest.importorskip("torch")
    row = datum_row()
    spec = nemo_datum_spec(written(row))
    batch, lengths = utilities.batched_message_log_to_flat_message(
        [spec["message_log"]], {"token_ids": 0}
    )
    assert lengths.tolist() == [row.datum.token_ids.size]
    (prompt,) = grpo.extract_initial_prompt_messages(
        [spec["message_log"]], torch.tensor([spec["length"]])
    )
    assert [message["token_ids"].tolist() for message in prompt] == [
        row.datum.token_ids[: row.datum.call_starts[0]].tolist()
    ]
    assert batch["token_ids"][0].tolist() == row.datum.token_ids.tolist()
