"""TRL: tokenized rows for its SFT trainer, and rollouts for its GRPO trainer."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.grouping import in_groups
from wmo_distill.exporters.target import (
    Grouping,
    Place,
    Target,
    cut_off,
    measured_reward,
    prompt_tokens,
    trained,
)

_IGNORED = -100

SFT_SCHEMA = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int64())),
    ]
)


def sft_row(row: DatumRow, place: Place) -> Mapping[str, Any]:
    """Ids and labels, -100 where nothing is trained; TRL takes labels as they are.

    A mask column next to labels is ignored by TRL, and one without labels trains every token
    unless `completion_only_loss` is set, so none is written.
    """
    datum = row.datum
    labels = np.where(trained(row), datum.token_ids, _IGNORED)
    return {"input_ids": datum.token_ids, "labels": labels.astype(np.int64)}


def grpo_row(row: DatumRow, place: Place) -> Mapping[str, Any]:
    """What one rollout of `rollout_func` holds, its reward, and its episode.

    TRL gives fields that it does not know to the reward function. It compares runs of
    `num_generations` rows, whatever episode they are of.
    """
    datum = row.datum
    start = prompt_tokens(row)
    return {
        "prompt_ids": datum.token_ids[:start],
        "completion_ids": datum.token_ids[start:],
        "logprobs": np.where(datum.loss_mask, datum.sampled_logprobs, 0.0)[start:],
        "env_mask": datum.loss_mask[start:].astype(np.int8),
        "reward": measured_reward(row),
        "group": place.group,
        "episode": place.episode,
        "episode_id": datum.episode_id,
        "episode_step": place.step,
        "episode_last": place.last,
        "episode_sequences": place.sequences,
        "truncated": cut_off(row),
    }


def rollouts(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Exported rows as the lists that `rollout_func` returns; a reward function takes `reward`.

    The rows of a group are next to each other: with groups of `num_generations` rows each, TRL's
    runs are the groups.
    """
    columns: dict[str, list[Any]] = {}
    for row in in_groups(rows, "group"):
        for name, value in row.items():
            plain = value.tolist() if isinstance(value, np.ndarray) else value
            columns.setdefault(name, []).append(plain)
    return columns


TARGETS = (
    Target(
        name="trl-sft",
        about="TRL SFTTrainer, tokenized, as Parquet",
        convert=sft_row,
        purpose="sft",
        schema=SFT_SCHEMA,
    ),
    Target(
        name="trl-grpo",
        about="rollouts of TRL's rollout_func as JSON lines",
        convert=grpo_row,
        purpose="rl",
        grouping=Grouping.FIXED,
        needs_reward=True,
    ),
)
