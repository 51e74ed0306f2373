"""slime's `Sample`: all token ids; masks and log-probabilities cover the response alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.experts import experts_array, experts_value
from wmo_distill.exporters.grouping import in_groups
from wmo_distill.exporters.target import (
    Grouping,
    Place,
    SequenceEnd,
    Target,
    measured_reward,
    prompt_tokens,
    sequence_end,
    versions_of,
)

# Of the sequence with which an episode ends; those before it ended by themselves.
_STATUS = {
    "submitted": "completed",
    "max_turns": "truncated",
    "budget": "truncated",
    "context_overflow": "truncated",
    "output_truncated": "truncated",
    "cancelled": "aborted",
}


def sample(row: DatumRow, place: Place) -> Mapping[str, Any]:
    """As `Sample.to_dict` has it; the response begins with the first sampled run."""
    datum = row.datum
    start = prompt_tokens(row)
    response = slice(start, None)
    fields: dict[str, Any] = {
        "group_index": place.group,
        "index": place.index,
        "rollout_id": place.episode,
        "prompt": "",
        "tokens": datum.token_ids,
        "response": "",
        "response_length": int(datum.token_ids.size) - start,
        "reward": measured_reward(row),
        "loss_mask": datum.loss_mask[response].astype(np.int8),
        "rollout_log_probs": np.where(datum.loss_mask, datum.sampled_logprobs, 0.0)[response],
        "weight_versions": versions_of(row),
        "status": _status(row),
        "metadata": {
            "episode_id": datum.episode_id,
            "segment": datum.segment,
            "fragment_index": datum.fragment_index,
            "task_id": row.task_id,
            "attempt": row.attempt,
            "stop_reason": row.stop_reason,
            "weight": row.weight,
        },
    }
    if datum.teacher_logprobs is not None:
        fields["teacher_log_probs"] = np.nan_to_num(datum.teacher_logprobs[response], nan=0.0)
    if datum.routed_experts is not None:
        rows = datum.token_ids.size - 1
        fields["rollout_routed_experts"] = experts_value(datum.routed_experts, rows)
    return fields


def _status(row: DatumRow) -> str:
    """A word of `Sample.Status` for this sequence: what cut its last run, else how it ended."""
    end = sequence_end(row)
    if end is SequenceEnd.CUT:
        return "truncated"
    if end is SequenceEnd.ABORTED:
        return "aborted"
    return _STATUS.get(row.stop_reason, "failed") if row.datum.ends_chat else "completed"


def save_rollout(rows: Iterable[Mapping[str, Any]], file: Path | str, rollout_id: int) -> int:
    """Write exported rows as the file that slime's `--load-debug-rollout-data` reads.

    The rows of a group are next to each other, as slime's normalization cuts them. Gives the number
    of samples. Needs PyTorch.
    """
    import torch

    samples = []
    for row in in_groups(rows, "group_index"):
        values = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row.items()}
        if experts := values.get("rollout_routed_experts"):
            values["rollout_routed_experts"] = experts_array(experts)
        samples.append(values)
    torch.save({"rollout_id": rollout_id, "samples": samples}, file)
    return len(samples)


TARGETS = (
    Target(
        name="slime",
        about="slime Sample as JSON lines",
        convert=sample,
        purpose="rl",
        carries=frozenset({"teacher_logprobs", "routed_experts"}),
        grouping=Grouping.FIXED,
        needs_reward=True,
    ),
)
