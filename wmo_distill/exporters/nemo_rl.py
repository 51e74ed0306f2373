"""NeMo-RL's `DatumSpec` as JSON lines: a message log in which `assistant` is what is trained."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.target import (
    Grouping,
    Place,
    Target,
    cut_off,
    measured_reward,
    prompt_tokens,
    trained,
)

Row = Mapping[str, Any]

# NeMo-RL lets the model route a token whose experts are all this.
NO_ROUTE = -1


def datum_spec_row(row: DatumRow, place: Place) -> Row:
    """The fields of `DatumSpec`, with `total_reward` and `truncated` as its rollouts add them."""
    return {
        "message_log": _messages(row),
        # Of the prompt alone, as in the batches of NeMo-RL's rollouts: GRPO groups by the
        # messages that are within it.
        "length": prompt_tokens(row),
        "extra_env_info": {
            "episode_id": row.datum.episode_id,
            "group_id": row.group_id,
            "episode_step": place.step,
            "episode_last": place.last,
            "episode_sequences": place.sequences,
        },
        "loss_multiplier": row.weight,
        # The prompt's place in the data set, which its rollouts share.
        "idx": place.group,
        "task_name": row.task_id or "default",
        "total_reward": measured_reward(row),
        "truncated": cut_off(row),
    }


def _messages(row: DatumRow) -> list[dict[str, Any]]:
    """Runs of trained tokens, one a call, and of all others; their tokens in order are the datum's.

    Only a trained run is `assistant`: older releases train every token of that role, newer ones
    those that have `generation_logprobs`. The first message is the prompt, by which GRPO groups.
    """
    datum, mask = row.datum, trained(row)
    changes = (np.flatnonzero(np.diff(mask)) + 1).tolist()
    calls = [start for start in datum.call_starts if mask[start]]
    cuts = sorted({0, prompt_tokens(row), *changes, *calls})
    routes = None
    if datum.routed_experts is not None:
        recorded = datum.routed_experts.astype(np.int16)
        routes = np.pad(recorded, ((0, 1), (0, 0), (0, 0)), constant_values=NO_ROUTE)
    messages = []
    for start, end in zip(cuts, [*cuts[1:], mask.size], strict=True):
        message = {"role": "user", "content": "", "token_ids": datum.token_ids[start:end]}
        if mask[start]:
            message["role"] = "assistant"
            message["generation_logprobs"] = datum.sampled_logprobs[start:end]
        if routes is not None:
            message["routed_experts"] = routes[start:end]
        messages.append(message)
    return messages


def nemo_datum_spec(row: Row) -> dict[str, Any]:
    """The `DatumSpec` of a row, or of a line of the file: lists become PyTorch tensors."""
    import torch

    types = {
        "token_ids": torch.int64,
        "generation_logprobs": torch.float32,
        "routed_experts": torch.int16,
    }
    log = [
        {
            name: torch.tensor(np.asarray(value), dtype=types[name]) if name in types else value
            for name, value in message.items()
        }
        for message in row["message_log"]
    ]
    reward = torch.tensor(row["total_reward"], dtype=torch.float32)
    return {**row, "message_log": log, "total_reward": reward}


TARGETS = (
    Target(
        name="nemo-rl",
        about="NeMo-RL DatumSpec as JSON lines",
        convert=datum_spec_row,
        purpose="rl",
        carries=frozenset({"routed_experts", "weight"}),
        grouping=Grouping.PROMPT,
        needs_reward=True,
    ),
)
