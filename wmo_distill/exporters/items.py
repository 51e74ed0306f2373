"""What an item of the PyTorch dataset holds: the same keys whatever the data.

| key | of | type | meaning |
| --- | --- | --- | --- |
| `token_ids` | token | int64 | context and sampled ids |
| `loss_mask` | token | bool | true where the token is trained; never at a sequence's first token |
| `sampled_logprobs` | token | float32 | 0 where not trained; NaN where trained and not recorded |
| `sampled_logprobs_mask` | token | bool | trained, and a log-probability is recorded |
| `advantages` | token | float32 | 0 where not trained; NaN where trained and there is none |
| `advantages_mask` | token | bool | trained, and there is an advantage |
| `teacher_logprobs` | token | float32 | NaN where trained and not scored, 0 where only not scored |
| `teacher_logprobs_mask` | token | bool | scored |
| `rescored_logprobs` | token | float32 | the student's, asked again; filled like the teacher's |
| `rescored_logprobs_mask` | token | bool | scored |
| `position_ids` | token | int64 | from 0 in each sequence |
| `sequence_lengths` | sequence | int64 | tokens |
| `weight` | sequence | float32 | of its loss |
| `reward` | sequence | float32 | NaN where not measured |
| `reward_mask` | sequence | bool | measured |
| `segment`, `fragment_index` | sequence | int64 | which sequence of its episode |
| `episode_id` | sequence | str | |
| `group` | sequence | str | what the episodes to compare with each other share |
| `padding` | item | bool | repeated for `equal_steps`: nothing in it is trained |
| `routed_experts` | token | int16 | [.., layers, experts a token], -1 where not recorded |

`routed_experts` are there in datums that were built with them alone, then in every item. A value
that no sampler can have drawn at, of -1000 or below, counts as not recorded.

A loss over advantages sums where `advantages_mask` is true: a sequence without advantages then
adds nothing, and one that forgets the mask is NaN instead of silently wrong.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.target import group_name, measured_reward, trained

PER_TOKEN = (
    "token_ids", "loss_mask", "sampled_logprobs", "sampled_logprobs_mask", "advantages",
    "advantages_mask", "teacher_logprobs", "teacher_logprobs_mask", "rescored_logprobs",
    "rescored_logprobs_mask", "position_ids",
)  # fmt: skip
PER_SEQUENCE = (
    "sequence_lengths", "weight", "reward", "reward_mask", "segment", "fragment_index",
)  # fmt: skip

Arrays = dict[str, NDArray[Any]]

NO_ROUTE = -1
"""Of a token whose experts were not recorded."""


class Item(NamedTuple):
    """The sequences of an item; `padding` says that none of their tokens is to be trained."""

    rows: Sequence[DatumRow]
    padding: bool = False


def item_values(
    item: Item, *, packed: bool, experts: tuple[int, int] | None = None
) -> dict[str, Any]:
    """The values of an item by key: arrays, and the ids of episodes and groups.

    A packed item has values of a sequence as arrays [sequences] and lists of ids; another has
    them without that axis. `experts`: (layers, experts a token) of datums that have them.
    """
    each = [_token_arrays(row, padding=item.padding) for row in item.rows]
    whole: dict[str, Any] = {
        name: np.concatenate([one[name] for one in each]) for name in PER_TOKEN
    }
    of_sequences = _sequence_arrays(item.rows)
    episodes = [row.datum.episode_id for row in item.rows]
    groups = [group_name(row) for row in item.rows]
    if experts is not None:
        whole["routed_experts"] = np.concatenate([_routes(row, experts) for row in item.rows])
    if not packed:
        of_sequences = {name: values[0] for name, values in of_sequences.items()}
    return {
        **whole,
        **of_sequences,
        "episode_id": episodes if packed else episodes[0],
        "group": groups if packed else groups[0],
        "padding": np.array(item.padding),
    }


def _token_arrays(row: DatumRow, *, padding: bool) -> Arrays:
    datum = row.datum
    mask = np.zeros(datum.loss_mask.size, bool) if padding else trained(row)
    teacher = _or_nan(datum.teacher_logprobs, mask.size)
    rescored = _or_nan(datum.rescored_logprobs, mask.size)
    recorded = datum.sampled_logprobs
    plausible = np.where(recorded > IMPLAUSIBLE_LOGPROB, recorded, np.nan)
    logprobs = np.where(mask, plausible, 0.0)
    advantages = np.where(mask, _or_nan(datum.advantages, mask.size), 0.0)
    return {
        "token_ids": datum.token_ids.astype(np.int64),
        "loss_mask": mask,
        "sampled_logprobs": logprobs.astype(np.float32),
        "sampled_logprobs_mask": mask & np.isfinite(logprobs),
        "advantages": advantages.astype(np.float32),
        "advantages_mask": mask & np.isfinite(advantages),
        "teacher_logprobs": _zero_off(mask, teacher).astype(np.float32),
        "teacher_logprobs_mask": np.isfinite(teacher),
        "rescored_logprobs": _zero_off(mask, rescored).astype(np.float32),
        "rescored_logprobs_mask": np.isfinite(rescored),
        "position_ids": np.arange(mask.size, dtype=np.int64),
    }


def _zero_off(mask: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """NaN only where it is to be seen: a product with the loss mask is else NaN everywhere."""
    return np.where(mask, values, np.nan_to_num(values, nan=0.0))


def _routes(row: DatumRow, experts: tuple[int, int]) -> NDArray[np.int16]:
    routes = np.full((row.datum.token_ids.size, *experts), NO_ROUTE, np.int16)
    if row.datum.routed_experts is not None:
        # The last token was never fed in.
        routes[:-1] = row.datum.routed_experts
    return routes


def _or_nan(values: NDArray[np.float64] | None, n: int) -> NDArray[np.float64]:
    return np.full(n, np.nan) if values is None else values


def _sequence_arrays(rows: Sequence[DatumRow]) -> Arrays:
    rewards = [measured_reward(row) for row in rows]
    return {
        "sequence_lengths": np.array([row.datum.token_ids.size for row in rows], np.int64),
        "weight": np.array([row.weight for row in rows], np.float32),
        "reward": np.array([np.nan if x is None else x for x in rewards], np.float32),
        "reward_mask": np.array([x is not None for x in rewards]),
        "segment": np.array([row.datum.segment for row in rows], np.int64),
        "fragment_index": np.array([row.datum.fragment_index for row in rows], np.int64),
    }
