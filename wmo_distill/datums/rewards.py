"""Which reward an episode trains on: its step's, its trial's, or the return of its steps.

Worked example, three attempts at three steps, `--reward return`, no discount:

    A  1, not graded, 1   ->  unknown, unknown, 1    a step after the first has no reward
    B  1, 0.5, 0          ->  1.5, 0.5, 0
    C  1, 0               ->  1, 0                   ended there by Harbor's min_reward
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wmo_distill.datums.options import DatumOptions, RewardOf
from wmo_distill.issues import Issue
from wmo_distill.predicates import is_measured, passes

COLUMNS = (
    "episode_id",
    "trial_id",
    "artifact_dir",
    "step_name",
    "step_index",
    "reward",
    "reward_valid",
    "passed",
    "trial_reward",
    "trial_reward_valid",
    "infra_failed",
    "issues",
)

_STEPS_MISSING = frozenset({Issue.STEP_DAMAGED, Issue.STEPS_CUT_SHORT, Issue.RESULT_UNFINISHED})


@dataclass(frozen=True, slots=True)
class ChosenReward:
    """The reward that an episode trains on, and whether it counts.

    `valid` is None where no result can be read. `unknown_return` says that its own step is
    measured and its return is not: a later step has no reward that counts.
    """

    reward: float | None = None
    valid: bool | None = None
    passed: bool | None = None
    step_reward: float | None = None
    """The step's own, whichever was chosen; of a single-step trial, its reward."""
    unknown_return: bool = False

    @property
    def measured(self) -> bool:
        return is_measured(self.reward, self.valid)


def chosen_rewards(
    rows: Iterable[Mapping[str, Any]], options: DatumOptions, *, pass_at: float | None = None
) -> dict[str, ChosenReward]:
    """For every episode of a dataset, by episode_id; `rows` hold `COLUMNS`.

    A single-step trial has one reward, its own. `pass_at` is the dataset's: with the trial's
    reward, `passed` is about that one.
    """
    own: dict[str, ChosenReward] = {}
    trials: dict[tuple[str | None, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        own[row["episode_id"]] = _own(row)
        if row["step_index"] is not None:
            trials[row["trial_id"], row["artifact_dir"]].append(row)
    if options.reward is RewardOf.STEP:
        return own
    chosen = dict(own)
    for steps in trials.values():
        if options.reward is RewardOf.TRIAL:
            chosen |= {row["episode_id"]: _of_trial(row, pass_at) for row in steps}
        else:
            chosen |= _returns(steps, own, options.discount)
    return chosen


def _own(row: Mapping[str, Any]) -> ChosenReward:
    reward, valid = row["reward"], row["reward_valid"]
    counts = is_measured(
        reward, valid, infra_failed=row["infra_failed"], issues=row["issues"] or ()
    )
    if reward is not None and valid is True and not counts:
        valid = False
    return ChosenReward(reward, valid, row["passed"], reward)


def _of_trial(row: Mapping[str, Any], pass_at: float | None) -> ChosenReward:
    reward = row["trial_reward"]
    return ChosenReward(
        reward, row["trial_reward_valid"], passes(reward, pass_at), step_reward=row["reward"]
    )


def _returns(
    steps: Sequence[Mapping[str, Any]], own: Mapping[str, ChosenReward], discount: float
) -> dict[str, ChosenReward]:
    """Each step's return; None from the last step back that has no measured reward.

    Steps that are not in the rows make returns unknown too: those between two rows, a damaged or
    unfinished result (it may be any step), and those after the last row. The last are seen by a
    trial whose reward does not count though each of its recorded steps does: it was stopped from
    outside. After a step below `min_reward` the trial's reward counts: nothing is missing.
    """
    ordered = sorted(steps, key=lambda row: row["step_index"])
    damaged = any(_STEPS_MISSING & set(row["issues"] or ()) for row in ordered)
    stopped = ordered[-1]["trial_reward_valid"] is not True and all(
        own[row["episode_id"]].measured for row in ordered
    )
    found: dict[str, ChosenReward] = {}
    total: float | None = None if damaged or stopped else 0.0
    following = ordered[-1]["step_index"] + 1
    for row in reversed(ordered):
        one = own[row["episode_id"]]
        if row["step_index"] + 1 != following:
            total = None
        following = row["step_index"]
        if total is not None:
            total = None if one.reward is None else discount * total + one.reward
            if total is None or not one.measured or not math.isfinite(total):
                total = None
        found[row["episode_id"]] = ChosenReward(
            reward=total,
            valid=None if one.valid is None else total is not None,
            passed=one.passed,
            step_reward=one.step_reward,
            unknown_return=one.measured and total is None,
        )
    return found
