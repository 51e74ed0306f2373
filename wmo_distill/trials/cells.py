"""The caller's grades, put on the records of one trial."""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from wmo_distill.errors import UsageError, shown
from wmo_distill.issues import Issue
from wmo_distill.records import ScoreCell, TrialRecord
from wmo_distill.sources.values import is_number


def apply_cells(
    records: Sequence[TrialRecord], cells: Sequence[ScoreCell]
) -> tuple[TrialRecord, ...]:
    """The records of one trial with the grades of its cells, in the cells' order.

    A cell that names a step grades that step alone; one that names none grades every step
    without a cell of its own. Steps that no cell grades keep the built-in grade and come last.
    """
    own = {cell.step_name for cell in cells if cell.step_name is not None}
    left = list(records)
    graded: list[TrialRecord] = []
    missing = 0
    for cell in cells:
        meant = [
            record
            for record in left
            if (
                record.step_name not in own
                if cell.step_name is None
                else record.step_name == cell.step_name
            )
        ]
        missing += cell.step_name is not None and not meant
        left = [record for record in left if not any(record is one for one in meant)]
        graded += [_graded(record, cell) for record in meant]
    graded += left
    if missing and graded:
        issues = sorted((*graded[0].issues, *[Issue.CELL_STEP_MISSING] * missing))
        graded[0] = replace(graded[0], issues=tuple(issues))
    return tuple(graded)


def cell_of(step_name: str | None, cells: Sequence[ScoreCell]) -> ScoreCell | None:
    """Of the cells of one trial the one that grades this step, or the trial that is no step."""
    by_step = {cell.step_name: cell for cell in cells}
    return by_step.get(step_name, by_step.get(None))


def _graded(record: TrialRecord, cell: ScoreCell) -> TrialRecord:
    """One record with a cell's grade; `rewards`, `reward_valid`, `trial_reward` stay."""
    where = f"cell (task {cell.task_id!r}, attempt {cell.attempt})"
    return replace(
        record,
        task_id=cell.task_id,
        attempt=cell.attempt,
        reward=finite_reward(cell.reward, where),
        passed=cell.passed,
        note=cell.note,
        infra_failed=record.infra_failed if cell.infra_failed is None else cell.infra_failed,
        tests=record.tests if cell.tests is None else cell.tests,
    )


def finite_reward(reward: Any, where: str) -> float | None:
    if reward is None:
        return None
    if is_number(reward):
        try:
            value = float(reward)
        except OverflowError:
            value = float("inf")
        if isfinite(value):
            return value
    raise wrong_cell(where, "reward", "a finite JSON number or null", reward)


def wrong_cell(where: str, key: str, expected: str, found: Any) -> UsageError:
    return UsageError(
        f"{where}: {key}: expected {expected}, found {shown(found)}; correct the cell"
    )
