"""How an episode was graded. The verifier's rewards in the result are the authority.

A grade never looks at how the episode ended, nor the other way round; None is never 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.predicates import passes
from wmo_distill.records import GradedTests
from wmo_distill.sources.harbor.ctrf import TestsReport
from wmo_distill.sources.harbor.rewards import RewardFiles, disagrees, is_number
from wmo_distill.trials.exceptions import has_valid_reward


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeEvidence:
    """What the files of one trial, or of one of its steps, say about its grade.

    `exceptions` are the recorded `exception_info` values that concern it; `recorded_valid` is
    Harbor's own `reward_valid`, for a step always None; `readable` says that a result was read.
    """

    verifier_result: Any = None
    exceptions: Sequence[Any] = ()
    recorded_valid: Any = None
    readable: bool = True
    reward_files: RewardFiles = field(default_factory=RewardFiles)
    tests: TestsReport = field(default_factory=TestsReport)


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
    recorded, issues = _recorded_rewards(evidence.verifier_result)
    if not evidence.readable:
        issues = ()
    used, found = _used_rewards(recorded, evidence, options)
    values, faults = reward_values(used)
    reward, refusal = choose_reward(used, values, options)
    if reward is not None:
        faults += _against_tests(reward, evidence.tests.tests)
    return Grade(
        reward=reward,
        rewards={plain_text(name): value for name, value in values.items()},
        reward_valid=_reward_valid(evidence, bool(used)),
        infra_failed=not recorded,
        passed=passes(reward, options.pass_at),
        tests=evidence.tests.tests,
        note=_note(evidence, bool(recorded)),
        issues=(
            *issues,
            *evidence.reward_files.issues,
            *found,
            *faults,
            *refusal,
            *evidence.tests.issues,
        ),
    )


def trial_reward(verifier_result: Any, options: BuildOptions) -> float | None:
    """The aggregate reward of a multi-step trial, by the same rule as any reward."""
    recorded, _ = _recorded_rewards(verifier_result)
    return choose_reward(recorded, reward_values(recorded)[0], options)[0]


def trial_reward_valid(result: Any) -> bool | None:
    """Whether the aggregate reward of a multi-step trial counts: one bad step spoils it.

    Harbor's own word where it is written (0.26), else by the exceptions of the trial and of all
    its steps. None where no result can be read.
    """
    if not isinstance(result, dict):
        return None
    steps = result.get("step_results")
    recorded = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    exceptions = [step.get("exception_info") for step in recorded]
    evidence = GradeEvidence(
        exceptions=(result.get("exception_info"), *exceptions),
        recorded_valid=result.get("reward_valid"),
    )
    return _reward_valid(evidence, bool(_recorded_rewards(result.get("verifier_result"))[0]))


def reward_values(recorded: Mapping[str, Any]) -> tuple[dict[str, float], tuple[Issue, ...]]:
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
    recorded: Mapping[str, Any], values: Mapping[str, float], options: BuildOptions
) -> tuple[float | None, tuple[Issue, ...]]:
    """The reward under `reward_key` if it is a finite number in range; else None, with why."""
    if not recorded:
        return None, ()
    if options.reward_key not in recorded:
        return None, (Issue.REWARD_KEY_MISSING,)
    reward = values.get(options.reward_key)
    if reward is None or not isfinite(reward):
        return None, ()  # `reward_values` has named the fault
    low, high = options.reward_range
    return (reward, ()) if low <= reward <= high else (None, (Issue.REWARD_OUT_OF_RANGE,))


def _recorded_rewards(verifier_result: Any) -> tuple[Mapping[str, Any], tuple[Issue, ...]]:
    """The result's own rewards, empty where it holds none."""
    if verifier_result is None:
        return {}, (Issue.REWARDS_MISSING,)
    rewards = verifier_result.get("rewards") if isinstance(verifier_result, dict) else False
    if isinstance(rewards, dict) and rewards:
        return rewards, ()
    damaged = rewards is not None and not isinstance(rewards, dict)
    faults = (Issue.VALUE_DAMAGED,) if damaged else ()
    return {}, (Issue.REWARDS_MISSING, *faults)


def _used_rewards(
    recorded: Mapping[str, Any], evidence: GradeEvidence, options: BuildOptions
) -> tuple[Mapping[str, Any], tuple[Issue, ...]]:
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
    if isinstance(evidence.recorded_valid, bool):
        return evidence.recorded_valid
    # Harbor 0.26 computes the same: something was graded and no exception spoils the grade.
    return graded and all(_exception_valid(info) for info in evidence.exceptions)


def _exception_valid(info: Any) -> bool:
    """By the exception's recorded policy, else by our table of types; unknown ones are valid."""
    if not isinstance(info, dict):
        return True
    policy = info.get("policy")
    told = policy.get("has_valid_reward") if isinstance(policy, dict) else None
    if isinstance(told, bool):
        return told
    kind = info.get("exception_type")
    return has_valid_reward(kind) if isinstance(kind, str) else True


def _against_tests(reward: float, tests: GradedTests | None) -> tuple[Issue, ...]:
    """Full marks beside a failed test, or none where every test passed."""
    if tests is None:
        return ()
    full = tests.passed == tests.resolved and not tests.unresolved
    odd = (reward == 1.0 and tests.passed < tests.resolved) or (reward == 0.0 and full)
    return (Issue.REWARD_AGAINST_TESTS,) if odd else ()


def _note(evidence: GradeEvidence, graded: bool) -> str:
    if not evidence.readable:
        return "no readable result"
    kind = next(_exception_types(evidence.exceptions), None)
    if graded:
        return f"completed with {kind}" if kind else "completed"
    return f"not graded: {kind}" if kind else "not graded"


def _exception_types(exceptions: Sequence[Any]) -> Iterator[str]:
    for info in exceptions:
        kind = info.get("exception_type") if isinstance(info, dict) else None
        if isinstance(kind, str):
            yield plain_text(kind)
