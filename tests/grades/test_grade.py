"""The result's rewards are the authority; a grade is null with its reason, never a stand-in 0."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import GradedTests
from wmo_distill.sources.evidence import GradeEvidence, RewardFile, RewardFiles, TestsReport
from wmo_distill.sources.harbor.reading import exception_of, grade_evidence, trial_grade
from wmo_distill.trials.grade import Grade, grade, trial_reward, trial_reward_valid

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)

REWARDED = {"rewards": {"reward": 1.0}}


def step(exception: str) -> dict[str, Any]:
    """A step that ended with an exception."""
    return {"exception_info": {"exception_type": exception}}


def evidence_of(
    result: Any, exceptions: Any = (), valid: Any = None, *, readable: bool = True
) -> GradeEvidence:
    raised = [exception_of(info, {}, agent_result=True, copied=False) for info in exceptions]
    return grade_evidence(result, raised, valid, readable=readable)


def graded(
    rewards: Any,
    options: BuildOptions | None = None,
    exceptions: Any = (),
    recorded_valid: Any = None,
    **more: Any,
) -> Grade:
    evidence = evidence_of({"rewards": rewards}, exceptions, recorded_valid)
    return grade(replace(evidence, **more), options or BuildOptions())


def reward_file(rewards: dict[str, Any], *, whole: bool = True) -> RewardFile:
    return RewardFile(rewards, whole)


@given(
    result=JSON | st.fixed_dictionaries({"rewards": JSON}),
    exceptions=st.lists(JSON, max_size=2),
    recorded=JSON,
    low=st.floats(-2, 1),
    readable=st.booleans(),
)
def test_any_result_gives_a_grade_that_its_columns_can_hold(
    result: Any, exceptions: list[Any], recorded: Any, low: float, readable: bool
) -> None:
    options = BuildOptions(reward_range=(low, 1.0))
    evidence = evidence_of(result, exceptions, recorded, readable=readable)
    got = grade(evidence, options)
    assert all(type(value) is float for value in got.rewards.values())
    assert (got.passed is None) == (got.reward is None)
    if got.reward is None:
        assert got.issues or not readable
    else:
        assert low <= got.reward <= 1.0
        assert got.rewards["reward"] == got.reward
    assert (got.reward_valid is None) == (not readable)
    rewards = result.get("rewards") if isinstance(result, dict) else None
    assert got.infra_failed == (not (isinstance(rewards, dict) and rewards))
    assert trial_reward(evidence, options) == got.reward


@pytest.mark.parametrize(
    ("text", "reward", "values", "issues"),
    [
        ('{"reward": 1}', 1.0, {"reward": 1.0}, []),
        ('{"reward": 0, "accuracy": 1}', 0.0, {"reward": 0.0, "accuracy": 1.0}, []),
        ('{"reward": 0.5}', 0.5, {"reward": 0.5}, []),
        ('{"reward": -0.0}', 0.0, {"reward": 0.0}, []),
        (
            '{"accuracy": 0.9, "format": 1.0}',
            None,
            {"accuracy": 0.9, "format": 1.0},
            [Issue.REWARD_KEY_MISSING],
        ),
        ('{"score": 1}', None, {"score": 1.0}, [Issue.REWARD_KEY_MISSING]),
        ("{}", None, {}, [Issue.REWARDS_MISSING]),
        ("null", None, {}, [Issue.REWARDS_MISSING]),
        ("[1]", None, {}, [Issue.REWARDS_MISSING, Issue.VALUE_DAMAGED]),
        ('{"reward": true}', None, {}, [Issue.REWARD_NOT_NUMBER]),
        ('{"reward": "1"}', None, {}, [Issue.REWARD_NOT_NUMBER]),
        ('{"reward": null}', None, {}, [Issue.REWARD_NOT_NUMBER]),
        ('{"reward": [1]}', None, {}, [Issue.REWARD_NOT_NUMBER]),
        ('{"reward": 33.3}', None, {"reward": 33.3}, [Issue.REWARD_OUT_OF_RANGE]),
        ('{"reward": -0.5}', None, {"reward": -0.5}, [Issue.REWARD_OUT_OF_RANGE]),
        ('{"reward": 1e400}', None, {"reward": math.inf}, [Issue.REWARD_NOT_FINITE]),
        ('{"reward": -Infinity}', None, {"reward": -math.inf}, [Issue.REWARD_NOT_FINITE]),
        ('{"reward": 1%s}' % ("0" * 400), None, {}, [Issue.VALUE_DAMAGED]),
        ('{"reward": 1, "x": "y"}', 1.0, {"reward": 1.0}, [Issue.REWARD_NOT_NUMBER]),
        ('{"reward": 1, "\\ud800": 2}', 1.0, {"reward": 1.0, "\ufffd": 2.0}, []),
    ],
)
def test_rewards(
    text: str, reward: float | None, values: dict[str, float], issues: list[Issue]
) -> None:
    got = graded(json.loads(text))
    assert (got.reward, got.rewards, list(got.issues)) == (reward, values, issues)


def test_a_reward_that_is_nan_is_kept_among_the_rewards() -> None:
    got = graded({"reward": math.nan})
    assert math.isnan(got.rewards["reward"])
    assert (got.reward, got.passed, got.infra_failed) == (None, None, False)
    assert got.issues == (Issue.REWARD_NOT_FINITE,)


def test_the_callers_key_range_and_bar() -> None:
    rewards = {"reward": 0.0, "score": 33.3}
    options = BuildOptions(reward_key="score", reward_range=(0.0, 100.0), pass_at=30.0)
    assert (graded(rewards, options).reward, graded(rewards, options).passed) == (33.3, True)
    assert graded(rewards, BuildOptions(reward_key="score")).reward is None
    assert graded({"reward": 0.999}).passed is False
    assert graded({"reward": 0.5}, BuildOptions(pass_at=0.5)).passed is True
    assert graded({"reward": 0.4}, BuildOptions(pass_at=0.5)).passed is False


UNVALID = {"exception_type": "RateLimitError"}
POLICY = {"should_retry": True, "should_grade": True}


@pytest.mark.parametrize(
    ("recorded", "exceptions", "expected"),
    [
        # Harbor's own word where it is written
        (True, [UNVALID], True),
        (False, [], False),
        # else the exception's recorded policy
        (None, [{**UNVALID, "policy": {**POLICY, "has_valid_reward": True}}], True),
        (None, [{"exception_type": "X", "policy": {**POLICY, "has_valid_reward": False}}], False),
        ("false", [{"policy": {"has_valid_reward": False}}], False),
        # else the table of types; unknown ones are valid
        (None, [UNVALID], False),
        (None, [{**UNVALID, "policy": {"has_valid_reward": "yes"}}], False),
        (None, [{"exception_type": "AgentTimeoutError"}], True),
        (None, [{"exception_type": "SomethingNewError"}], True),
        (None, [{"exception_type": 7}], True),
        (None, [None, "text", {}], True),
        (None, [], True),
        # one of several is enough
        (None, [{"exception_type": "AgentTimeoutError"}, UNVALID], False),
    ],
)
def test_reward_valid(recorded: Any, exceptions: list[Any], expected: bool) -> None:
    got = graded({"reward": 1.0}, recorded_valid=recorded, exceptions=exceptions)
    assert got.reward_valid is expected
    assert got.reward == 1.0


def test_nothing_graded_is_not_valid_and_no_result_is_unknown() -> None:
    assert graded(None).reward_valid is False
    unread = grade(GradeEvidence(readable=False), BuildOptions())
    assert unread == Grade(note="no readable result")


AGREEING = RewardFiles((reward_file({"reward": 1}), reward_file({"reward": 1.0}, whole=False)))


@pytest.mark.parametrize(
    ("files", "issues"),
    [
        (AGREEING, []),
        (RewardFiles((reward_file({"reward": 0}),)), [Issue.REWARD_FILE_DISAGREES]),
        (
            RewardFiles((reward_file({"reward": 1}), reward_file({"reward": 0.0}, whole=False))),
            [Issue.REWARD_FILE_DISAGREES],
        ),
        (RewardFiles((reward_file({}),)), [Issue.REWARD_FILE_DISAGREES]),
        (
            RewardFiles((), (Issue.REWARD_FILE_UNREADABLE,) * 2),
            [Issue.REWARD_FILE_UNREADABLE] * 2,
        ),
    ],
)
@pytest.mark.parametrize("reward_files", [False, True])
def test_files_are_cross_checks_of_a_graded_result(
    files: RewardFiles, issues: list[Issue], reward_files: bool
) -> None:
    got = graded({"reward": 1.0}, BuildOptions(reward_files=reward_files), reward_files=files)
    assert (got.reward, got.rewards, list(got.issues)) == (1.0, {"reward": 1.0}, issues)


LEFT_OVER = RewardFiles((reward_file({"reward": 0.7333}, whole=False),))
CANCELLED = {"exception_type": "CancelledError"}


def test_a_file_is_used_only_where_the_caller_asks() -> None:
    got = graded(None, reward_files=LEFT_OVER, exceptions=[CANCELLED])
    assert (got.reward, got.rewards) == (None, {})
    assert got.issues == (Issue.REWARDS_MISSING, Issue.REWARD_FILE_DISAGREES)
    asked = graded(None, BuildOptions(reward_files=True), reward_files=LEFT_OVER)
    assert (asked.reward, asked.rewards) == (0.7333, {"reward": 0.7333})
    assert (asked.infra_failed, asked.passed) == (True, False)
    assert asked.issues == (Issue.REWARDS_MISSING, Issue.REWARD_FROM_FILE)
    unread = grade(
        GradeEvidence(readable=False, reward_files=LEFT_OVER), BuildOptions(reward_files=True)
    )
    assert (unread.reward, unread.reward_valid) == (0.7333, None)
    assert unread.issues == (Issue.REWARD_FROM_FILE,)


def test_a_file_is_held_to_the_same_rule() -> None:
    files = RewardFiles((reward_file({"reward": "1", "other": 2}),))
    got = graded({}, BuildOptions(reward_files=True), reward_files=files)
    assert (got.reward, got.rewards) == (None, {"other": 2.0})
    assert Issue.REWARD_NOT_NUMBER in got.issues


@pytest.mark.parametrize(
    ("reward", "counts", "odd"),
    [
        (1.0, (3, 3, 0), False),
        (1.0, (2, 3, 0), True),
        (0.0, (2, 3, 0), False),
        (0.0, (3, 3, 0), True),
        (0.0, (3, 3, 1), False),
        (0.5, (3, 3, 0), False),
    ],
)
def test_a_report_is_a_cross_check(reward: float, counts: tuple[int, int, int], odd: bool) -> None:
    tests = GradedTests(passed=counts[0], resolved=counts[1], unresolved=counts[2])
    got = graded({"reward": reward}, tests=TestsReport(tests, (Issue.TESTS_DISAGREE,)))
    assert (got.reward, got.tests) == (reward, tests)
    expected = [Issue.REWARD_AGAINST_TESTS] if odd else []
    assert sorted(got.issues) == sorted([*expected, Issue.TESTS_DISAGREE])


@pytest.mark.parametrize(
    ("rewards", "exceptions", "note"),
    [
        ({"reward": 1}, [], "completed"),
        (
            {"reward": 0},
            [{"exception_type": "AgentTimeoutError"}],
            "completed with AgentTimeoutError",
        ),
        ({}, [{"exception_type": "RateLimitError"}], "not graded: RateLimitError"),
        (None, [{"exception_type": None}], "not graded"),
        ({"reward": 1}, [{"exception_type": "\ud800"}], "completed with \ufffd"),
    ],
)
def test_note(rewards: Any, exceptions: list[Any], note: str) -> None:
    assert graded(rewards, exceptions=exceptions).note == note


@pytest.mark.parametrize(
    ("result", "valid"),
    [
        (None, None),
        ({"verifier_result": REWARDED}, True),
        ({"verifier_result": None}, False),
        # Harbor 0.26 writes its own word.
        ({"verifier_result": REWARDED, "reward_valid": False}, False),
        # Older Harbor writes none: one step's spoilt grade spoils the aggregate.
        ({"verifier_result": REWARDED, "step_results": [{}, step("AuthenticationError")]}, False),
        ({"verifier_result": REWARDED, "step_results": [step("AgentTimeoutError"), {}]}, True),
        ({"verifier_result": REWARDED, "step_results": [None, 3]}, True),
        ({"verifier_result": REWARDED, "step_results": "x"}, True),
        ({"verifier_result": REWARDED, "exception_info": {"exception_type": "X"}}, True),
    ],
)
def test_the_reward_of_a_whole_trial_is_valid_only_if_no_step_spoils_it(
    result: Any, valid: bool | None
) -> None:
    assert trial_reward_valid(trial_grade(result)) is valid
