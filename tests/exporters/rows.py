"""Datum rows for the tests of exporters."""

from typing import Any

import numpy as np

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.datums.datum import TrainDatum

VALUES: dict[str, Any] = {
    "datum_id": "0" * 32,
    "step_index": None,
    "task_id": "org/task",
    "group_id": "g0",
    "group_expected": None,
    "attempt": 1,
    "job": "job",
    "agent_name": "terminus-2",
    "model_name": "m",
    "n_fragments": 1,
    "reward": 1.0,
    "step_reward": 1.0,
    "trial_reward": 1.0,
    "reward_valid": True,
    "passed": True,
    "group_size": 1,
    "group_measured": 1,
    "group_mean": 1.0,
    "group_std": None,
    "stop_reason": "submitted",
    "completion": "confirmed",
    "weight": 1.0,
    "teacher": None,
    "temperature": 0.7,
    "top_p": None,
    "top_k": None,
    "logprob_mode": "raw",
    "policy_version": "7",
    "policy_versions": ["7"],
    "train_step": 7,
    "tokenizer": None,
    "declared": [],
    "sampling": None,
}


def datum_row(
    runs: list[tuple[int, int]] = [(3, 2), (2, 3)],  # noqa: B006 - not changed
    *,
    episode: str = "e0",
    fragment: int = 0,
    advantages: bool = True,
    seed: int = 0,
    changes: dict[str, Any] | None = None,
    **values: Any,
) -> DatumRow:
    """A sequence of (context, sampled) runs; `changes` are datum fields, `values` columns."""
    rng = np.random.default_rng([seed, fragment])
    lengths = np.array(runs).ravel()
    mask = np.repeat(np.tile([False, True], len(runs)), lengths)
    ends = np.cumsum(lengths)
    logprobs = np.where(mask, -rng.exponential(1.0, mask.size), 0.0)
    fields: dict[str, Any] = {
        "trial_name": f"trial-{episode}",
        "step_name": None,
        "episode_id": episode,
        "segment": 0,
        "fragment_index": fragment,
        "token_ids": rng.integers(5, 1000, mask.size).astype(np.int32),
        "loss_mask": mask,
        "sampled_logprobs": logprobs,
        "call_starts": tuple((ends[1::2] - lengths[1::2]).tolist()),
        "call_lengths": tuple(lengths[1::2].tolist()),
        "finish_reasons": (None,) * len(runs),
        "ends_chat": True,
        "advantages": np.where(mask, rng.normal(size=mask.size), 0.0) if advantages else None,
    }
    datum = TrainDatum(**{**fields, **(changes or {})})
    return DatumRow(datum=datum, **{**VALUES, **values})
