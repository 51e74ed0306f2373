"""A cell replaces the grade of the trial or step that it names, and nothing else."""

import math

import pytest

from wmo_distill.errors import UsageError
from wmo_distill.issues import Issue
from wmo_distill.records import GradedTests, ScoreCell, TrialRecord
from wmo_distill.trials.cells import apply_cells

BUILT_IN = TrialRecord(
    trial_name="a__t1",
    task_id="org/a",
    reward=0.25,
    rewards={"reward": 0.25},
    trial_reward=0.25,
    passed=False,
    reward_valid=True,
    infra_failed=True,
    tests=GradedTests(passed=1, resolved=4, unresolved=0),
    note="completed",
)


GIVEN = ScoreCell(task_id="a", attempt=3, reward=1, passed=True, artifact_dir="a__t1")


def step(name: str, index: int) -> TrialRecord:
    return TrialRecord(trial_name="m", step_name=name, step_index=index, reward=0.0, note="own")


def test_a_cell_replaces_the_grade_and_nothing_else() -> None:
    (got,) = apply_cells([BUILT_IN], [GIVEN])
    assert (got.task_id, got.attempt, got.reward, got.passed, got.note) == ("a", 3, 1.0, True, "")
    assert type(got.reward) is float
    # left out: the built-in scorer's
    assert (got.infra_failed, got.tests) == (True, BUILT_IN.tests)
    # the result's own
    assert (got.rewards, got.reward_valid, got.trial_reward) == ({"reward": 0.25}, True, 0.25)
    tests = GradedTests(passed=0, resolved=1, unresolved=0)
    full = GIVEN.model_copy(update={"infra_failed": False, "tests": tests, "note": "n"})
    (got,) = apply_cells([BUILT_IN], [full])
    assert (got.infra_failed, got.tests, got.note) == (False, tests, "n")


@pytest.mark.parametrize("reward", [math.nan, math.inf, 10**400])
def test_a_reward_that_no_column_can_hold_is_an_error(reward: float) -> None:
    with pytest.raises(UsageError, match=r"task 'a', attempt 3.*finite JSON number or null"):
        apply_cells([BUILT_IN], [GIVEN.model_copy(update={"reward": reward})])


def test_steps() -> None:
    records = [step("s1", 0), step("s2", 1), step("s3", 2)]
    every = apply_cells(records, [GIVEN])
    assert [(r.step_name, r.reward) for r in every] == [("s1", 1.0), ("s2", 1.0), ("s3", 1.0)]
    third = GIVEN.model_copy(update={"step_name": "s3", "reward": 0.5})
    alone = apply_cells(records, [third])
    assert [(r.step_name, r.reward, r.note) for r in alone] == [
        ("s3", 0.5, ""),
        ("s1", 0.0, "own"),
        ("s2", 0.0, "own"),
    ]
    both = apply_cells(records, [GIVEN, third])
    assert [(r.step_name, r.reward) for r in both] == [("s1", 1.0), ("s2", 1.0), ("s3", 0.5)]


def test_a_cell_of_a_step_that_was_not_recorded_is_an_issue() -> None:
    gone = GIVEN.model_copy(update={"step_name": "gone"})
    got = apply_cells([step("s1", 0)], [gone, gone])
    assert [(r.step_name, r.reward, r.issues) for r in got] == [
        ("s1", 0.0, (Issue.CELL_STEP_MISSING,) * 2)
    ]
    assert apply_cells([BUILT_IN], []) == (BUILT_IN,)
