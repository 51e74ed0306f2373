"""The same few numbers for every value of a column: agents, models, policy versions, any other."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from wmo_distill.errors import UsageError, names_like, shown
from wmo_distill.stats.distribution import PLAUSIBLE
from wmo_distill.stats.rates import Rate, rate


class Slice(BaseModel):
    """The records that have these values in these columns."""

    model_config = ConfigDict(frozen=True)

    value: str | None
    """The values as text, joined by `, `; None where none is recorded."""
    values: dict[str, bool | int | float | str | None]
    records: int
    measured: int
    solve_rate: Rate
    infra_failed: int
    sampled_tokens: int
    median_sampled: float | None
    """Of the sampled tokens of an episode, over those with a call."""
    median_turns: float | None
    median_reward: float | None
    """Of the measured ones."""


SOLVED = pl.col("measured") & pl.col("passed")
JUDGED = pl.col("measured") & pl.col("passed").is_not_null()
# Of the measured records, without those that one number of a mean or a median may not be.
REWARDS = pl.col("reward").filter(
    pl.col("measured") & pl.col("reward").is_between(*PLAUSIBLE["reward"], closed="none")
)

_NUMBERS = {
    "records": pl.len(),
    "measured": pl.col("measured").sum(),
    "solved": SOLVED.sum(),
    "judged": JUDGED.sum(),
    "infra_failed": pl.col("infra_failed").sum(),
    "sampled_tokens": pl.col("sampled").sum(),
    "median_sampled": pl.col("sampled").filter("with_spans").median(),
    "median_turns": pl.col("turns").filter("with_spans").median(),
    "median_reward": REWARDS.median(),
}


def slices(records: pl.DataFrame, columns: Sequence[str]) -> tuple[Slice, ...]:
    """A slice for each combination of values, in their order, nulls first."""
    if not columns:
        return ()
    # Under names of their own: a column may be one that is counted, such as `infra_failed`.
    keys = [f"by {name}" for name in columns]
    named = [pl.col(name).alias(key) for name, key in zip(columns, keys, strict=True)]
    found = records.group_by(named).agg(**_NUMBERS).sort(keys, nulls_last=False)
    return tuple(_slice(row, columns) for row in found.iter_rows(named=True))


def _slice(row: dict[str, Any], columns: Sequence[str]) -> Slice:
    values = {name: _plain(row[f"by {name}"]) for name in columns}
    texts = ["not recorded" if x is None else str(x) for x in values.values()]
    return Slice(
        value=None if set(values.values()) == {None} else ", ".join(texts),
        values=values,
        solve_rate=rate(row["solved"], row["judged"]),
        **{name: row[name] for name in _NUMBERS if name not in ("solved", "judged")},
    )


def _plain(value: Any) -> bool | int | float | str | None:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def checked_columns(by: Sequence[str], schema: pl.Schema) -> tuple[str, ...]:
    """The columns of `--by`, each once; UsageError for one that has no single value a row."""
    known = [name for name, of in schema.items() if not of.is_nested()]
    names = tuple(dict.fromkeys(one.strip() for given in by for one in given.split(",")))
    for name in names:
        if name not in known:
            raise UsageError(
                f"--by: expected columns such as `task_id,model_name`, found {shown(name)}; "
                f"{names_like(name, known)}"
            )
    return names
