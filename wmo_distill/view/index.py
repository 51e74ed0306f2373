"""The episodes of a dataset as a table of light columns: filtered, sorted, and given in pages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import polars as pl

from wmo_distill.outputs.stored import Stored
from wmo_distill.predicates import is_measured
from wmo_distill.shards.find import Place
from wmo_distill.shards.regrades import ATTEMPT, regrades_of
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.view.apart import apart
from wmo_distill.visible import visible_start

MOST_ROWS = 500
"""Rows of one page."""
_MANY = 50_000
"""Rows from which on they are read in a process of its own."""
_CELL = 200
"""Characters of one cell."""

LISTED = (
    "episode_id", "trial_name", "step_name", "task_id", "group_id", "attempt", "format",
    "agent_name", "model_name", "reward", "reward_valid", "passed", "infra_failed",
    "stop_reason", "completion", "completeness", "n_calls", "fragments", "output_tokens",
    "total_tokens", "policy_versions", "train_step", "issues", "exception_type", "artifact_dir",
)  # fmt: skip
_MORE = ("job", "note", "policy_version", "agent_seconds")
_READ = [*LISTED, *_MORE, "regrade_of", "started_at"]
_PLACE = ("part", "row_group", "row")
_NAMED = ("episode_id", "trial_name", "artifact_dir", "task_id", "attempt")
_WORDS = ("task_id", "group_id", "stop_reason", "completion", "completeness", "format",
    "agent_name", "model_name")  # fmt: skip
"""Columns that a filter of the same name holds to one word."""
_LISTS = {"issue": "issues", "version": "policy_versions"}
_SEARCHED = ("trial_name", "episode_id", "task_id", "step_name", "exception_type", "note", "job")
_MOST_FACETS = 500
_LONGEST_FACET = 300
"""Characters of a word that can be chosen."""
GRADES = {
    "passed": pl.col("measured") & pl.col("passed"),
    "failed": pl.col("measured") & ~pl.col("passed"),
    "open": pl.col("measured") & pl.col("passed").is_null(),
    "unmeasured": ~pl.col("measured"),
}
SORTED = ("order", *LISTED[1:], "n_issues", "agent_seconds")


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of those that a filter leaves, in order."""

    found: int
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Index:
    """The rows that count, one an episode, in the order of the parts."""

    frame: pl.DataFrame
    parts: tuple[Stored, ...]

    @classmethod
    def of(cls, parts: Sequence[Stored]) -> "Index":
        """DistillError for a part that is damaged."""
        many = sum(part.rows or 0 for part in parts) > _MANY
        return cls(pl.read_ipc(apart(_light, parts)) if many else _frame(parts), tuple(parts))

    def place(self, episode_id: str) -> Place | None:
        """Where an episode's row is."""
        found = self.frame.filter(pl.col("episode_id") == episode_id)
        if not found.height:
            return None
        row = found.row(0, named=True)
        named = {name: row[name] for name in _NAMED}
        return Place(self.parts[row["part"]], row["row_group"], row["row"], **named)

    def page(
        self, filters: Mapping[str, str], start: int, n: int, where: pl.Expr | None = None
    ) -> Page:
        """Rows `start` to `start + n` of those that `filters` leave and for which `where` is true.

        Other columns than those that decide are read of these rows alone.
        """
        name = filters.get("sort", "order")
        key = pl.col(name if name in SORTED else "order")
        if isinstance(self.frame.schema[key.meta.output_name()], pl.List):
            key = key.list.join(" ")
        wanted = [*_conditions(filters), *([] if where is None else [where])]
        left = self.frame.lazy().filter(*wanted) if wanted else self.frame.lazy()
        order = left.select("order", key=key).sort(
            "key", "order", descending=[filters.get("down") == "1", False], nulls_last=True
        )
        found = order.select("order").collect()["order"]
        some = self.frame[found.slice(max(0, start), min(max(0, n), MOST_ROWS))]
        rows = some.select(*LISTED, "measured", "order").to_dicts()
        return Page(found.len(), [{k: _cell(k, v) for k, v in row.items()} for row in rows])

    def facets(self) -> dict[str, list[tuple[str, int]]]:
        """By filter its words with how many rows have each, the most frequent first."""
        frame = self.frame
        columns = {name: frame[name].drop_nulls() for name in _WORDS}
        for name, column in _LISTS.items():
            lists = frame[column]
            columns[name] = lists.filter(lists.list.len() > 0).list.unique().explode()
        return {
            name: [
                (word, n)
                for word, n in values.filter(values.str.len_chars() <= _LONGEST_FACET)
                .rename("word")
                .value_counts(name="n")
                .sort(pl.col("n"), pl.col("word"), descending=[True, False])
                .head(_MOST_FACETS)
                .rows()
            ]
            for name, values in columns.items()
        }

    def siblings(self, episode_id: str, most: int = 50) -> list[dict[str, Any]]:
        """Other attempts at an episode's task and step, those of its own group first."""
        own = self.frame.filter(pl.col("episode_id") == episode_id)
        if not own.height:
            return []
        task, step, group = own.select("task_id", "step_name", "group_id").row(0)
        others = self.frame.filter(
            pl.col("task_id").eq_missing(task) & pl.col("step_name").eq_missing(step)
            if task is not None
            else pl.col("group_id") == group,
            pl.col("episode_id") != episode_id,
        ).sort(pl.col("group_id") != group, "attempt", "order", nulls_last=True)
        columns = ("episode_id", "trial_name", "attempt", "passed", "measured", "reward")
        rows = others.head(most).select(columns).to_dicts()
        return [{k: _cell(k, v) for k, v in row.items()} for row in rows]


def _light(parts: Sequence[Stored]) -> bytes:
    held = BytesIO()
    _frame(parts).write_ipc(held)
    return held.getvalue()


def _frame(parts: Sequence[Stored]) -> pl.DataFrame:
    frames = [frame for number, part in enumerate(parts) for frame in _frames(number, part)]
    frame = _counting(pl.concat(frames) if frames else _empty(), parts)
    frame = frame.select(*LISTED, *_MORE, *_PLACE)
    return frame.with_row_index("order").with_columns(_measured(frame), _N_ISSUES)


def _frames(number: int, part: Stored) -> Iterator[pl.DataFrame]:
    """The rows of a part, a frame a row group."""
    for group, table in part.tables(_READ):
        yield pl.DataFrame(pl.from_arrow(table)).with_columns(
            part=pl.lit(number, pl.Int32),
            row_group=pl.lit(group, pl.Int32),
            row=pl.int_range(pl.len(), dtype=pl.Int32),
        )


def _counting(frame: pl.DataFrame, parts: Sequence[Stored]) -> pl.DataFrame:
    """The rows that count, with their attempts."""
    if frame["regrade_of"].null_count() == frame.height:
        return frame.with_columns(attempt=ATTEMPT)
    attempts = regrades_of(parts).attempts
    known = pl.DataFrame({"episode_id": list(attempts), "attempt": list(attempts.values())})
    known = known.cast({"attempt": pl.Int32})
    return frame.drop("attempt").join(known, on="episode_id", maintain_order="left")


def _empty() -> pl.DataFrame:
    return (
        pl.DataFrame(pl.from_arrow(SCHEMA.empty_table()))
        .select(_READ)
        .with_columns(*(pl.lit(0, pl.Int32).alias(name) for name in _PLACE))
    )


_N_ISSUES = pl.col("issues").list.len().alias("n_issues")


def _measured(frame: pl.DataFrame) -> pl.Series:
    rows = frame.select("reward", "reward_valid", "infra_failed", "issues").iter_rows()
    measured = [
        is_measured(*grade, infra_failed=failed, issues=codes) for *grade, failed, codes in rows
    ]
    return pl.Series("measured", measured, pl.Boolean)


def _conditions(filters: Mapping[str, str]) -> Iterator[pl.Expr]:
    for name in _WORDS:
        if word := filters.get(name):
            yield pl.col(name) == word
    for name, column in _LISTS.items():
        if word := filters.get(name):
            yield pl.col(column).list.contains(word)
    if (grade := GRADES.get(filters.get("grade", ""))) is not None:
        yield grade.fill_null(False)
    for word in filters.get("q", "").lower().split():
        yield pl.any_horizontal(
            pl.col(name).str.to_lowercase().str.contains(word, literal=True).fill_null(False)
            for name in _SEARCHED
        )


def _cell(name: str, value: Any) -> Any:
    """A value for a table; text that is long or odd is cut and made visible."""
    if name == "episode_id":  # the key, as it is
        return value
    if isinstance(value, str):
        return visible_start(value, _CELL)
    if isinstance(value, list):
        return [visible_start(one, _CELL) if isinstance(one, str) else one for one in value[:100]]
    return value
