"""How an episode was graded. The verifier's rewards in the result are the authority.

A grade never looks at how the episode ended, nor the other way round; None is never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.predicates import passes
from wmo_distill.records import GradedTests
from wmo_distill.sources.evidence import Exceptional, GradeEvidence, RewardFile
from wmo_distill.sources.values import is_number
from wmo_distill.trials.exceptions import has_valid_reward


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The grade columns of one record, and the issues met on the way to them."""

    reward: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    reward_valid: bool | None = None
    infra_failed: bool = True
    passed: bool | None = None
    tests: GradedTests | None = None
    note: str = ""
    issues: tuple[Issue, ...] = ()


def grade(evidence: GradeEvidence, options: BuildOptions) -> Grade:
    """The built-in scorer's answer for one episode."""
    recorded = evidence.rewards
    used, found = _used_rewards(recorded, evidence, options)
    values, faults = reward_values(used)
    reward, refusal = _reward(evidence, used, values, options)
    if reward is not None:
        faults += against_tests(reward, evidence.tests.tests)
    return Grade(
        reward=reward,
        rewards={plain_text(name): value for name, value in values.items()},
        reward_valid=_reward_valid(evidence, bool(used)),
        infra_failed=not recorded,
        passed=passes(reward, options.pass_at),
        tests=evidence.tests.tests,
        note=_note(evidence, bool(recorded)) if evidence.note is None else evidence.note,
        issues=(
            *evidence.reward_issues,
            *evidence.reward_files.issues,
            *found,
            *faults,
            *refusal,
            *evidence.tests.issues,
        ),
    )


def trial_reward(evidence: GradeEvidence, options: BuildOptions) -> float | None:
    """The aggregate reward of a multi-step trial, by the same rule as any reward."""
    return choose_reward(evidence.rewards, reward_values(evidence.rewards)[0], options)[0]


def trial_reward_valid(evidence: GradeEvidence) -> bool | None:
    """Whether the aggregate reward of a multi-step trial counts: one bad step spoils it.

    The harness's own word where it is written (Harbor 0.26), else by the exceptions of the trial
    and of all its steps. None where no result can be read.
    """
    return _reward_valid(evidence, bool(evidence.rewards))


def reward_values(recorded: Mapping[str, object]) -> tuple[dict[str, float], tuple[Issue, ...]]:
    """Every numeric reward as float64, not finite ones too, and an issue for each odd value."""
    values: dict[str, float] = {}
    issues = []
    for name, value in recorded.items():
        if not is_number(value):
            issues.append(Issue.REWARD_NOT_NUMBER)
            continue
        try:
            values[name] = float(value)
        except OverflowError:
            issues.append(Issue.VALUE_DAMAGED)
            continue
        if not isfinite(values[name]):
            issues.append(Issue.REWARD_NOT_FINITE)
    return values, tuple(issues)


def choose_reward(
    recorded: Mapping[str, object], values: Mapping[str, float], options: BuildOptions
) -> tuple[float | None, tuple[Issue, ...]]:
    """The reward under `reward_key` if it is a finite number in range; else None, with why."""
    if not recorded:
        return None, ()
    if options.reward_key not in recorded:
        return None, (Issue.REWARD_KEY_MISSING,)
    return in_range(values.get(options.reward_key), options)


def _reward(
    evidence: GradeEvidence,
    recorded: Mapping[str, object],
    values: Mapping[str, float],
    options: BuildOptions,
) -> tuple[float | None, tuple[Issue, ...]]:
    """The format's own total where it has one and no other reward is asked for."""
    if evidence.has_total and options.reward_key == BuildOptions().reward_key:
        return in_range(evidence.total, options)
    return choose_reward(recorded, values, options)


def in_range(reward: float | None, options: BuildOptions) -> tuple[float | None, tuple[Issue, ...]]:
    """A finite reward in `reward_range`; else None, with why."""
    if reward is None or not isfinite(reward):
        return None, ()  # `reward_values` has named the fault
    low, high = options.reward_range
    return (reward, ()) if low <= reward <= high else (None, (Issue.REWARD_OUT_OF_RANGE,))


def _used_rewards(
    recorded: Mapping[str, object], evidence: GradeEvidence, options: BuildOptions
) -> tuple[Mapping[str, object], tuple[Issue, ...]]:
    """The result's rewards, or a file's where the caller asks for it; and what files say else."""
    files = evidence.reward_files
    if not recorded and options.reward_files and files.rewards:
        base, issues = files.rewards, [Issue.REWARD_FROM_FILE]
    else:
        base, issues = recorded, []
    if evidence.readable or base:
        issues += [
            Issue.REWARD_FILE_DISAGREES
            for file in files.found
            if (file.rewards or base) and disagrees(file, base)
        ]
    return base, tuple(issues)


def _reward_valid(evidence: GradeEvidence, graded: bool) -> bool | None:
    if not evidence.readable:
        return None
    if evidence.recorded_valid is not None:
        return evidence.recorded_valid
    # Harbor 0.26 computes the same: something was graded and no exception spoils the grade.
    return graded and all(map(_exception_valid, evidence.exceptions))


def _exception_valid(raised: Exceptional) -> bool:
    """By the exception's recorded policy, else by our table of types; unknown ones are valid."""
    if raised.reward_valid is not None:
        return raised.reward_valid
    return raised.type is None or has_valid_reward(raised.type)


def against_tests(reward: float, tests: GradedTests | None) -> tuple[Issue, ...]:
    """Full marks with a failed test, or none where every test passed."""
    if tests is None:
        return ()
    full = tests.passed == tests.resolved and not tests.unresolved
    odd = (reward == 1.0 and tests.passed < tests.resolved) or (reward == 0.0 and full)
    return (Issue.REWARD_AGAINST_TESTS,) if odd else ()


def _note(evidence: GradeEvidence, graded: bool) -> str:
    if not evidence.readable:
        return "no readable result"
    types = [raised.type for raised in evidence.exceptions if raised.type is not None]
    if graded:
        return f"completed with {plain_text(types[0])}" if types else "completed"
    return f"not graded: {plain_text(types[0])}" if types else "not graded"


def disagrees(file: RewardFile, recorded: Mapping[str, object]) -> bool:
    """Whether a file says other rewards than were recorded in the result."""
    if file.whole and file.rewards.keys() != recorded.keys():
        return True
    return any(
        name not in recorded or not _same(value, recorded[name])
        for name, value in file.rewards.items()
    )


def _same(found: object, recorded: object) -> bool:
    """Equal as JSON values; a number that is not finite is written as null in a result."""
    if is_number(found) and is_number(recorded):
        return bool(found == recorded) or (found != found and recorded != recorded)
    if is_number(found) and recorded is None:
        return not abs(found) < float("inf")
    if isinstance(found, (dict, list)):  # no reward; comparing what nests deep could overflow
        return type(found) is type(recorded)
    return type(found) is type(recorded) and bool(found == recorded)
