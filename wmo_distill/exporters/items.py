"""What an item of the PyTorch dataset holds: the same keys whatever the data.

| key | of | type | meaning |
| --- | --- | --- | --- |
| `token_ids` | token | int64 | context and sampled ids |
| `loss_mask` | token | bool | true where the token is trained; never at a sequence's first token |
| `sampled_logprobs` | token | float32 | 0 where not trained; NaN where trained and not recorded |
| `sampled_logprobs_mask` | token | bool | trained, and a log-probability is recorded |
| `advantages` | token | float32 | 0 where not trained; NaN where trained and there is none |
| `advantages_mask` | token | bool | trained, and there is an advantage |
| `teacher_logprobs` | token | float32 | NaN where not scored |
| `teacher_logprobs_mask` | token | bool | scored |
| `rescored_logprobs` | token | float32 | the student's, asked again; NaN where not scored |
| `rescored_logprobs_mask` | token | bool | scored |
| `position_ids` | token | int64 | from 0 in each sequence |
| `sequence_lengths` | sequence | int64 | tokens |
| `weight` | sequence | float32 | of its loss |
| `reward` | sequence | float32 | NaN where not measured |
| `reward_mask` | sequence | bool | measured |
| `episode_id` | sequence | str | |
| `padding` | item | bool | repeated for `equal_steps`: nothing in it is trained |

A loss over advantages sums where `advantages_mask` is true: a sequence without advantages then
adds nothing, and one that forgets the mask is NaN instead of silently wrong.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.epochs import Item
from wmo_distill.exporters.target import measured_reward, trained

PER_TOKEN = (
    "token_ids", "loss_mask", "sampled_logprobs", "sampled_logprobs_mask", "advantages",
    "advantages_mask", "teacher_logprobs", "teacher_logprobs_mask", "rescored_logprobs",
    "rescored_logprobs_mask", "position_ids",
)  # fmt: skip
PER_SEQUENCE = ("sequence_lengths", "weight", "reward", "reward_mask")

Arrays = dict[str, NDArray[Any]]


def item_values(item: Item, *, packed: bool) -> dict[str, Any]:
    """The values of an item by key: arrays, and the episode ids.

    A packed item has values of a sequence as arrays [sequences] and a list of ids; another has
    them without that axis.
    """
    each = [_token_arrays(row, padding=item.padding) for row in item.rows]
    whole: dict[str, Any] = {
        name: np.concatenate([one[name] for one in each]) for name in PER_TOKEN
    }
    of_sequences = _sequence_arrays(item.rows)
    episodes = [row.datum.episode_id for row in item.rows]
    if not packed:
        of_sequences = {name: values[0] for name, values in of_sequences.items()}
    return {
        **whole,
        **of_sequences,
        "episode_id": episodes if packed else episodes[0],
        "padding": np.array(item.padding),
    }


def _token_arrays(row: DatumRow, *, padding: bool) -> Arrays:
    datum = row.datum
    mask = np.zeros(datum.loss_mask.size, bool) if padding else trained(row)
    teacher = _or_nan(datum.teacher_logprobs, mask.size)
    rescored = _or_nan(datum.rescored_logprobs, mask.size)
    logprobs = np.where(mask, datum.sampled_logprobs, 0.0)
    advantages = np.where(mask, _or_nan(datum.advantages, mask.size), 0.0)
    return {
        "token_ids": datum.token_ids.astype(np.int64),
        "loss_mask": mask,
        "sampled_logprobs": logprobs.astype(np.float32),
        "sampled_logprobs_mask": mask & np.isfinite(logprobs),
        "advantages": advantages.astype(np.float32),
        "advantages_mask": mask & np.isfinite(advantages),
        "teacher_logprobs": teacher.astype(np.float32),
        "teacher_logprobs_mask": np.isfinite(teacher),
        "rescored_logprobs": rescored.astype(np.float32),
        "rescored_logprobs_mask": np.isfinite(rescored),
        "position_ids": np.arange(mask.size, dtype=np.int64),
    }


def _or_nan(values: NDArray[np.float64] | None, n: int) -> NDArray[np.float64]:
    return np.full(n, np.nan) if values is None else values


def _sequence_arrays(rows: Sequence[DatumRow]) -> Arrays:
    rewards = [measured_reward(row) for row in rows]
    return {
        "sequence_lengths": np.array([row.datum.token_ids.size for row in rows], np.int64),
        "weight": np.array([row.values["weight"] for row in rows], np.float32),
        "reward": np.array([np.nan if x is None else x for x in rewards], np.float32),
        "reward_mask": np.array([x is not None for x in rewards]),
    }
