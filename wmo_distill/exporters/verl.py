"""verl's `AgentLoopOutput` as JSON lines, and the `DataProto` that its trainer makes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.target import (
    Grouping,
    Place,
    Target,
    cut_off,
    group_name,
    measured_reward,
    prompt_tokens,
    steps_of,
)

Row = Mapping[str, Any]


def agent_loop_row(row: DatumRow, place: Place) -> Row:
    """The fields of `AgentLoopOutput`; log-probabilities off-mask are 0.0, as verl fills them.

    `uid` in `extra_fields` is what verl's group estimators group by; `min_global_steps` and
    `max_global_steps` are the train steps of the oldest and newest weights that sampled, where
    recorded.
    """
    datum, start = row.datum, prompt_tokens(row)
    first, last = steps_of(row)
    return {
        "prompt_ids": datum.token_ids[:start],
        "response_ids": datum.token_ids[start:],
        "response_mask": datum.loss_mask[start:].astype(np.int64),
        "response_logprobs": datum.sampled_logprobs[start:],
        "routed_experts": datum.routed_experts,
        "reward_score": measured_reward(row),
        # Each sampled run answers a turn of the user or of a tool.
        "num_turns": 2 * max(1, len(datum.call_starts)),
        "metrics": {},
        "extra_fields": {
            "uid": group_name(row),
            "episode_id": datum.episode_id,
            "episode_step": place.step,
            "episode_last": place.last,
            "truncated": cut_off(row),
            "min_global_steps": first,
            "max_global_steps": last,
        },
    }


def verl_output(row: Row) -> Any:
    """The `AgentLoopOutput` of the installed verl that a row, or a line of the file, describes."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

    experts = row["routed_experts"]
    plain = {
        name: np.asarray(row[name]).tolist()
        for name in ("prompt_ids", "response_ids", "response_mask", "response_logprobs")
    }
    routes = None if experts is None else np.asarray(experts, np.int16)
    return AgentLoopOutput(**{**row, **plain, "routed_experts": routes})


def verl_dataproto(
    rows: Sequence[Row],
    *,
    pad_token_id: int = 0,
    prompt_length: int | None = None,
    response_length: int | None = None,
) -> Any:
    """A `DataProto` of the installed verl: prompts padded on the left, responses on the right.

    The lengths default to the longest of the rows; ValueError for a row that is longer. As in
    verl, `rm_scores` are there only if every row has a reward.
    """
    import torch
    from verl.protocol import DataProto

    arrays = {
        name: torch.from_numpy(array)
        for name, array in _padded(rows, pad_token_id, prompt_length, response_length).items()
    }
    names = rows[0]["extra_fields"]
    others = {name: _objects([row["extra_fields"][name] for row in rows]) for name in names}
    turns = np.array([row["num_turns"] for row in rows], np.int32)
    return DataProto.from_dict(arrays, {"__num_turns__": turns, **others})


def _padded(
    rows: Sequence[Row], pad: int, prompt_length: int | None, response_length: int | None
) -> dict[str, NDArray[Any]]:
    """[rows, length] int64, but float32 for log-probabilities and rewards."""
    prompts = [np.asarray(row["prompt_ids"], np.int64) for row in rows]
    responses = [np.asarray(row["response_ids"], np.int64) for row in rows]
    before = _length("prompt", prompts, prompt_length)
    after = _length("response", responses, response_length)
    shape = len(rows), before + after
    ids, attention = np.full(shape, pad, np.int64), np.zeros(shape, np.int64)
    mask = np.zeros((len(rows), after), np.int64)
    logprobs, scores = np.zeros(mask.shape, np.float32), np.zeros(mask.shape, np.float32)
    for at, (row, prompt, response) in enumerate(zip(rows, prompts, responses, strict=True)):
        span = slice(before - prompt.size, before + response.size)
        ids[at, span] = np.concatenate([prompt, response])
        attention[at, span] = 1
        mask[at, : response.size] = row["response_mask"]
        logprobs[at, : response.size] = row["response_logprobs"]
        scores[at, response.size - 1] = row["reward_score"] or 0.0
    arrays = {
        "prompts": ids[:, :before].copy(),
        "responses": ids[:, before:].copy(),
        "response_mask": mask,
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": np.maximum(attention.cumsum(axis=1) - 1, 0),
        "rollout_log_probs": logprobs,
    }
    if all(row["reward_score"] is not None for row in rows):
        arrays["rm_scores"] = scores
    if all(row["routed_experts"] is not None for row in rows):
        arrays["routed_experts"] = _routes(rows, [before - prompt.size for prompt in prompts], ids)
    return arrays


def _routes(rows: Sequence[Row], starts: list[int], ids: NDArray[Any]) -> NDArray[np.int16]:
    """[rows, length, layers, experts per token], 0 where nothing was recorded."""
    recorded = [np.asarray(row["routed_experts"], np.int16) for row in rows]
    routes = np.zeros((*ids.shape, *recorded[0].shape[1:]), np.int16)
    for at, (start, values) in enumerate(zip(starts, recorded, strict=True)):
        routes[at, start : start + len(values)] = values
    return routes


def _length(what: str, values: list[NDArray[Any]], limit: int | None) -> int:
    longest = max(value.size for value in values)
    if limit is not None and longest > limit:
        raise ValueError(
            f"{what}_length: expected at least {longest}, found {limit}; nothing is truncated"
        )
    return longest if limit is None else limit


def _objects(values: list[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


TARGETS = (
    Target(
        name="verl",
        about="verl AgentLoopOutput as JSON lines",
        convert=agent_loop_row,
        purpose="rl",
        carries=frozenset({"routed_experts"}),
        grouping=Grouping.NAMED,
        needs_reward=True,
    ),
)
