"""SkyRL's `GeneratorOutput`: a JSON line holds one element of each of its lists."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.target import (
    Grouping,
    Place,
    SequenceEnd,
    Target,
    group_name,
    measured_reward,
    prompt_tokens,
    sequence_end,
)

Row = Mapping[str, Any]

_STOP_REASONS = {
    SequenceEnd.FINISHED: "stop",
    SequenceEnd.CUT: "length",
    SequenceEnd.ABORTED: "abort",
}


def generator_row(row: DatumRow, place: Place) -> Row:
    """The keys of `GeneratorOutput`; log-probabilities off-mask are 0.0, as SkyRL fills them.

    Every sequence of an episode holds its reward; the trainer reads that of the last.
    """
    datum, start = row.datum, prompt_tokens(row)
    return {
        "prompt_token_ids": datum.token_ids[:start],
        "response_ids": datum.token_ids[start:],
        "rewards": measured_reward(row),
        "loss_masks": datum.loss_mask[start:].astype(np.int64),
        # As the inference engine words it, for the last sampled run.
        "stop_reasons": _STOP_REASONS[sequence_end(row)],
        "rollout_logprobs": datum.sampled_logprobs[start:],
        "trajectory_ids": {"instance_id": group_name(row), "repetition_id": place.episode},
        "is_last_step": place.last,
        "rollout_expert_indices": datum.routed_experts,
    }


def skyrl_generator_output(rows: Sequence[Row]) -> dict[str, Any]:
    """A `GeneratorOutput` of rows, or of lines of the file, with the installed `TrajectoryID`.

    The trainer wants the sequences of a group, and in it those of an episode, side by side: groups
    are in the order of their first row. With several sequences an episode, set
    `generator.step_wise_trajectories`. ValueError if the last sequence of an episode is left out.
    """
    from skyrl.train.generators.base import TrajectoryID

    first: dict[str, int] = {}
    for at, row in enumerate(rows):
        first.setdefault(row["trajectory_ids"]["instance_id"], at)
    rows = sorted(rows, key=lambda row: first[row["trajectory_ids"]["instance_id"]])
    _whole_episodes(rows)
    lists = {name: [_plain(row[name]) for row in rows] for name in rows[0]}
    lists["trajectory_ids"] = [TrajectoryID(**row["trajectory_ids"]) for row in rows]
    if any(experts is None for experts in lists["rollout_expert_indices"]):
        del lists["rollout_expert_indices"]
    return {**lists, "rollout_metrics": None}


def _whole_episodes(rows: Sequence[Row]) -> None:
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        ends = following is None or following["trajectory_ids"] != row["trajectory_ids"]
        if ends and not row["is_last_step"]:
            name = row["trajectory_ids"]
            raise ValueError(f"{name}: expected its last sequence, found none; give whole episodes")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


TARGETS = (
    Target(
        name="skyrl",
        about="SkyRL GeneratorOutput as JSON lines, one sequence a line",
        convert=generator_row,
        purpose="rl",
        carries=frozenset({"routed_experts"}),
        grouping=Grouping.NAMED,
        needs_reward=True,
    ),
)
