"""A record graded anew from its own columns: none of the trial's files is needed.

    row     rewards {"acc": 0.9, "len": 3.0}   reward null   issues reward_key_missing
    now     --reward-key acc --pass-at 0.5     reward 0.9, passed

What the rewards were when they were read stays: no key is added to them, and none is lost.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from wmo_distill.errors import UsageError
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.predicates import passes
from wmo_distill.records import TrialRecord
from wmo_distill.trials.grade import against_tests, in_range

Total = Callable[[Mapping[str, float]], float | None]
_OF_THE_CHOICE = {
    Issue.REWARD_KEY_MISSING,
    Issue.REWARD_OUT_OF_RANGE,
    Issue.REWARD_AGAINST_TESTS,
}
_NO_TOTAL = {Issue.REWARDS_PARTIAL, Issue.REWARD_NOT_NUMBER}


def regraded(
    record: TrialRecord, before: BuildOptions, now: BuildOptions, total: Total | None
) -> TrialRecord:
    """The record as a build with the options `now` grades it, which one with `before` has made.

    `total` is what its format makes of all rewards, None where it has no total. UsageError where
    the row does not hold what the new grade needs.
    """
    reward, refusal = _reward(record, before, now, total)
    issues = record.issues
    if not same_choice(before, now):
        kept = [issue for issue in issues if issue not in _OF_THE_CHOICE]
        tests = () if reward is None else against_tests(reward, record.tests)
        issues = tuple(sorted([*kept, *refusal, *tests]))
    return replace(
        record,
        reward=reward,
        trial_reward=_trial_reward(record, reward, before, now),
        passed=passes(reward, now.pass_at),
        issues=issues,
    )


def same_choice(before: BuildOptions, now: BuildOptions) -> bool:
    """Whether both choose the same number of all rewards."""
    return (before.reward_key, before.reward_range) == (now.reward_key, now.reward_range)


def _reward(
    record: TrialRecord, before: BuildOptions, now: BuildOptions, total: Total | None
) -> tuple[float | None, tuple[Issue, ...]]:
    """The verifier's reward, whatever a cell said in its place, and why it is not there."""
    key, found = now.reward_key, set(record.issues)
    if total is not None and key == BuildOptions().reward_key:
        return in_range(None if found & _NO_TOTAL else total(record.rewards), now)
    if key in record.rewards:
        return in_range(record.rewards[key], now)
    # Values that are no numbers are not in the row: that it was graded says that there were some.
    missing = bool(record.rewards) or not record.infra_failed
    if key == before.reward_key:
        missing = Issue.REWARD_KEY_MISSING in found
    return None, (Issue.REWARD_KEY_MISSING,) * missing


def _trial_reward(
    record: TrialRecord, reward: float | None, before: BuildOptions, now: BuildOptions
) -> float | None:
    """On the row of a step the number that is there, if the new options choose it too."""
    known = record.trial_reward
    if record.step_index is None:
        return reward
    if before.reward_key == now.reward_key:
        narrower = (
            before.reward_range[0] <= now.reward_range[0]
            and now.reward_range[1] <= before.reward_range[1]
        )
        if known is not None or narrower:
            return in_range(known, now)[0]
    raise UsageError(
        f"{record.artifact_dir}: expected all rewards of the trial, to choose one for its steps, "
        "found the chosen one alone; build again from the trials with these options"
    )
