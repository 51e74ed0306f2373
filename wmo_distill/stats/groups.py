"""Solve rates of tasks, and pass@k over groups of comparable episodes."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from wmo_distill.stats.rates import Rate, mean_rate, pass_at_k, rate

Row = Mapping[str, Any]


class TaskStats(BaseModel):
    """One task, or one step of a multi-step task, over all agents and models."""

    model_config = ConfigDict(frozen=True)

    task_id: str | None
    step_name: str | None
    records: int
    measured: int
    """Records with a valid grade."""
    solve_rate: Rate


class GroupStats(BaseModel):
    """Episodes that may be compared: one task, agent, model, job and, if any, step."""

    model_config = ConfigDict(frozen=True)

    group_id: str
    step_name: str | None
    task_id: str | None
    agent_name: str | None
    model_name: str | None
    measured: int
    """Episodes with a valid grade that says passed or not."""
    solved: int
    mean_reward: float
    pass_at_k: dict[int, float]
    """By k = 1, 2, 4, … up to `measured`."""


class PassAtK(BaseModel):
    """pass@k averaged over the groups with at least k measured episodes."""

    model_config = ConfigDict(frozen=True)

    k: int
    rate: Rate


def by_task(rows: Iterable[Row], measured: Iterable[Row]) -> tuple[TaskStats, ...]:
    """A line a task and step, in the order of their names."""
    every, graded = _split(rows, _task), _split(measured, _task)
    return tuple(
        TaskStats(
            task_id=key[0],
            step_name=key[1],
            records=len(every[key]),
            measured=len(graded[key]),
            solve_rate=rate(*_solved(graded[key])),
        )
        for key in sorted(every, key=_nulls_first)
    )


def by_group(measured: Iterable[Row]) -> tuple[GroupStats, ...]:
    """The groups with a measured episode that either passed or did not."""
    groups = []
    for (group_id, step_name), rows in sorted(
        _split(measured, _group).items(), key=lambda item: _nulls_first(item[0])
    ):
        solved, n = _solved(rows)
        if not n:
            continue
        chances = {k: pass_at_k(n, solved, k) for k in _ks(n)}
        groups.append(
            GroupStats(
                group_id=group_id,
                step_name=step_name,
                task_id=rows[0]["task_id"],
                agent_name=rows[0]["agent_name"],
                model_name=rows[0]["model_name"],
                measured=n,
                solved=solved,
                mean_reward=sum(row["reward"] for row in rows) / len(rows),
                pass_at_k={k: chance for k, chance in chances.items() if chance is not None},
            )
        )
    return tuple(groups)


def pass_rates(groups: Sequence[GroupStats]) -> tuple[PassAtK, ...]:
    """For k = 1, 2, 4, … up to the largest group."""
    largest = max((group.measured for group in groups), default=0)
    return tuple(
        PassAtK(
            k=k,
            rate=mean_rate(
                chance
                for group in groups
                if (chance := pass_at_k(group.measured, group.solved, k)) is not None
            ),
        )
        for k in _ks(largest)
    )


def _ks(largest: int) -> list[int]:
    return [2**i for i in range(largest.bit_length())]


def _solved(rows: Iterable[Row]) -> tuple[int, int]:
    """(solved, judged); a cell may leave `passed` open."""
    verdicts = [row["passed"] for row in rows if row["passed"] is not None]
    return sum(verdicts), len(verdicts)


def _task(row: Row) -> tuple[str | None, str | None]:
    return row["task_id"], row["step_name"]


def _group(row: Row) -> tuple[str, str | None]:
    return row["group_id"], row["step_name"]


def _split(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _nulls_first(key: Iterable[str | None]) -> list[tuple[bool, str]]:
    return [(part is not None, part or "") for part in key]
