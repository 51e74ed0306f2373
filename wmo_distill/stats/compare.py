"""Two datasets, or the sequences of two, side by side: differences with 95 % intervals."""

from collections import Counter
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from wmo_distill.datums.manifest import KIND
from wmo_distill.errors import UsageError
from wmo_distill.outputs.manifest import kind_of
from wmo_distill.stats.datums import DatumTask, SequenceStats, datum_stats
from wmo_distill.stats.groups import TaskStats
from wmo_distill.stats.rates import Rate, newcombe
from wmo_distill.stats.rollout import RolloutStats, dataset_stats

_S = TypeVar("_S", RolloutStats, SequenceStats)

# The 97.5 % quantile of Student's t for 1, 2, ... degrees of freedom.
_T975 = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157,
    2.228139,
)  # fmt: skip


class Difference(BaseModel):
    """`b - a` of the number that both have under `key`; None where one of them has none.

    The interval is of rates alone: Newcombe's hybrid score interval of 95 %.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    a: float | None
    b: float | None
    difference: float | None
    low: float | None = None
    high: float | None = None


class TaskDifference(BaseModel):
    """The solve rates of one task, or of one step of it, in both.

    Where one of them has tasks of one name from several formats or sources, these must agree too.
    """

    model_config = ConfigDict(frozen=True)

    task_id: str | None
    step_name: str | None
    origin: str | None = None
    """Format and source as text, where another task has the same name."""
    a: Rate
    b: Rate
    difference: float | None
    low: float | None
    high: float | None


class Paired(BaseModel):
    """The tasks with a solve rate in both, each compared with itself and of one weight.

    The interval of the mean is Student's, over tasks.
    """

    model_config = ConfigDict(frozen=True)

    tasks: int
    other_origins: int
    """Those of them whose format or source is another in B."""
    better: int
    worse: int
    mean_difference: float | None
    low: float | None
    high: float | None


class Comparison(BaseModel):
    """What `stats A B` prints; `differences` are `b - a`."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["records", "datums"]
    a: RolloutStats | SequenceStats
    b: RolloutStats | SequenceStats
    differences: tuple[Difference, ...]
    paired: Paired
    tasks: tuple[TaskDifference, ...]
    only_a: int
    """Tasks that B has not."""
    only_b: int


def stats_of(
    path: Path,
    *,
    max_tokens: int | None = None,
    by: tuple[str, ...] = (),
    where: str | None = None,
) -> RolloutStats | SequenceStats:
    """Of a dataset or of training sequences, whichever is at `path`."""
    if kind_of(path) != KIND:
        return dataset_stats(path, max_tokens=max_tokens, by=by, where=where)
    for flag, given in (("--max-tokens", max_tokens is not None), ("--by", bool(by))):
        if given:
            raise UsageError(
                f"{flag}: expected a dataset that `build` wrote, found the training sequences in "
                f"{path}; leave the flag out, or name the dataset that they were made from"
            )
    return datum_stats(path, where=where)


def compare(a: RolloutStats | SequenceStats, b: RolloutStats | SequenceStats) -> Comparison:
    """Both and their differences; UsageError for a dataset next to training sequences."""
    if type(a) is not type(b):
        raise UsageError(
            "stats A B: expected two datasets, or the training sequences of two, found one of "
            "each; name two of a kind"
        )
    tasks, across, only_a, only_b = _tasks(a.tasks, b.tasks)
    return Comparison(
        kind="records" if isinstance(a, RolloutStats) else "datums",
        a=a,
        b=b,
        differences=tuple(_differences(a, b)),  # type: ignore[type-var]
        paired=_paired(tasks, across),
        tasks=tasks,
        only_a=only_a,
        only_b=only_b,
    )


def _differences(a: _S, b: _S) -> Iterator[Difference]:
    """Of every rate, and of every median."""
    rates, others = dict(_rates(a)), dict(_rates(b))
    for key, one in rates.items():
        if key in others:
            low, high = newcombe(one, others[key]) or (None, None)
            yield _difference(key, one.value, others[key].value, low=low, high=high)
    for name, spread in a.distributions.items():
        key = f"distributions.{name}.p50"
        yield _difference(key, spread.p50, b.distributions[name].p50)


def _rates(stats: RolloutStats | SequenceStats) -> Iterator[tuple[str, Rate]]:
    for name in type(stats).model_fields:
        if isinstance(one := getattr(stats, name), Rate):
            yield f"{name}.value", one
    if isinstance(stats, RolloutStats):
        # The k are 1, 2, 4, ... in both.
        for at, chance in enumerate(stats.pass_at_k):
            yield f"pass_at_k.{at}.rate.value", chance.rate
    else:
        yield "groups.zero_variance.value", stats.groups.zero_variance


def _difference(key: str, a: float | None, b: float | None, **interval: Any) -> Difference:
    known = None if a is None or b is None else b - a
    return Difference(key=key, a=a, b=b, difference=known, **interval)


def _tasks(
    a: tuple[TaskStats, ...] | tuple[DatumTask, ...],
    b: tuple[TaskStats, ...] | tuple[DatumTask, ...],
) -> tuple[tuple[TaskDifference, ...], int, int, int]:
    """The tasks of both, and how many only one of them has."""
    times = Counter(_named(task) for task in a) | Counter(_named(task) for task in b)

    def key(task: TaskStats | DatumTask) -> tuple[str | None, ...]:
        name = _named(task)
        return name if times[name] == 1 else (*name, *_origin(task))

    others = {key(task): task for task in b}
    found = []
    across = 0
    for task in a:
        other = others.get(key(task))
        if other is not None:
            one = _difference("", task.solve_rate.value, other.solve_rate.value)
            low, high = newcombe(task.solve_rate, other.solve_rate) or (None, None)
            across += one.difference is not None and _origin(task) != _origin(other)
            found.append(
                TaskDifference(
                    task_id=task.task_id,
                    step_name=task.step_name,
                    origin=task.origin or other.origin,
                    a=task.solve_rate,
                    b=other.solve_rate,
                    difference=one.difference,
                    low=low,
                    high=high,
                )
            )
    return tuple(found), across, len(a) - len(found), len(b) - len(found)


def _named(task: TaskStats | DatumTask) -> tuple[str | None, ...]:
    return task.task_id, task.step_name


def _origin(task: TaskStats | DatumTask) -> tuple[str | None, ...]:
    """Its format and source; training sequences do not have them."""
    return (task.format, task.source) if isinstance(task, TaskStats) else ()


def _paired(tasks: tuple[TaskDifference, ...], across: int) -> Paired:
    known = [task.difference for task in tasks if task.difference is not None]
    mean = fmean(known) if known else None
    low = high = None
    if mean is not None and len(known) > 1:
        half = _t975(len(known) - 1) * stdev(known) / sqrt(len(known))
        low, high = mean - half, mean + half
    return Paired(
        tasks=len(known),
        other_origins=across,
        better=sum(one > 0 for one in known),
        worse=sum(one < 0 for one in known),
        mean_difference=mean,
        low=low,
        high=high,
    )


def _t975(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, by Cornish and Fisher's expansion beyond the table."""
    if degrees <= len(_T975):
        return _T975[degrees - 1]
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / (4 * degrees)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    return z + first + second + third
