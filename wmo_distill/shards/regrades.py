"""Which rows count, and which attempt at its task each one is.

A regrade copies a rollout and grades it again: of one rollout, the newest trial that has rewards
counts, else the newest. The attempts of a group are numbered over the trials that count.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from wmo_distill.outputs.stored import Stored
from wmo_distill.shards.decode import plain_list

ATTEMPT_SQL = (
    "coalesce(attempt, dense_rank() OVER (PARTITION BY group_id "
    "ORDER BY started_at NULLS LAST, trial_name, artifact_dir))"
)
"""The attempt of a row, in DuckDB's SQL, over rows of which none is a superseded regrade."""

ATTEMPT = pl.coalesce(
    "attempt",
    pl.struct(
        pl.col("started_at").is_null(),
        pl.col("started_at").dt.epoch("us").fill_null(0).alias("at"),
        "trial_name",
        "artifact_dir",
    )
    .rank("dense")
    .over("group_id")
    .cast(pl.Int32),
)
"""The same as an expression of polars, over the same rows."""

_COLUMNS = [
    "episode_id",
    "trial_id",
    "trial_name",
    "artifact_dir",
    "group_id",
    "attempt",
    "regrade_of",
    "rewards",
    "trial_reward",
    "started_at",
    "finished_at",
]


@dataclass(frozen=True, slots=True)
class Regrades:
    """The attempt of every row that counts, by episode_id."""

    attempts: dict[str, int | None]
    trials_passed_over: int


@dataclass(slots=True)
class _Trial:
    """What the rows of one trial share; times in microseconds since 1970."""

    key: str
    group_id: str
    regrade_of: str | None
    started_at: int | None
    finished_at: int | None
    trial_name: str
    artifact_dir: str
    has_rewards: bool = False
    attempts: list[tuple[str, int | None]] = field(default_factory=list)
    """As recorded in its rows, with their episode_id."""

    @property
    def order(self) -> tuple[bool, int, bytes, bytes]:
        """Its place in its group: by start, nulls last, then by names as UTF-8 bytes."""
        start = self.started_at
        return start is None, start or 0, self.trial_name.encode(), self.artifact_dir.encode()

    @property
    def age(self) -> tuple[bool, bool, int, tuple[bool, int, bytes, bytes]]:
        """Greatest in the trial that counts among copies of one rollout."""
        finish = self.finished_at
        return self.has_rewards, finish is not None, finish or 0, self.order


def regrades_of(parts: Sequence[Stored]) -> Regrades:
    """The regrades over the rows of these parts, from their identity and reward columns alone."""
    trials: dict[str, _Trial] = {}
    for row in (row for part in parts for row in part.read(_COLUMNS, _rows)):
        key = row["trial_id"] or f"path:{row['artifact_dir']}"
        key = row["episode_id"] if row["episode_id"] == key else key  # one text in memory
        trial = trials.get(key)
        if trial is None:
            trial = trials[key] = _Trial(
                key=key,
                group_id=sys.intern(row["group_id"]),
                regrade_of=row["regrade_of"],
                started_at=row["started_at"],
                finished_at=row["finished_at"],
                trial_name=row["trial_name"],
                artifact_dir=row["artifact_dir"],
            )
        trial.has_rewards |= bool(row["rewards"]) or row["trial_reward"] is not None
        trial.attempts.append((row["episode_id"], row["attempt"]))
    counting = {
        copies[0].key if len(copies) == 1 else max(copies, key=lambda trial: trial.age).key
        for copies in _rollouts(trials.values())
    }
    kept = [trial for trial in trials.values() if trial.key in counting]
    ranks = _dense_ranks(kept)
    return Regrades(
        attempts={
            episode: ranks[trial.key] if recorded is None else recorded
            for trial in kept
            for episode, recorded in trial.attempts
        },
        trials_passed_over=len(trials) - len(kept),
    )


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    columns = [plain_list(batch.column(name)) for name in _COLUMNS]
    for values in zip(*columns, strict=True):
        yield dict(zip(_COLUMNS, values, strict=True))


def _rollouts(trials: Iterable[_Trial]) -> list[list[_Trial]]:
    """The trials that are copies of one rollout: linked by regrade_of, over any distance."""
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        root = key
        while leader.setdefault(root, root) != root:
            root = leader[root]
        while leader[key] != root:
            leader[key], key = root, leader[key]
        return root

    rollouts: dict[str, list[_Trial]] = defaultdict(list)
    everything = list(trials)
    if all(trial.regrade_of is None for trial in everything):
        return [[trial] for trial in everything]
    for trial in everything:
        if trial.regrade_of is not None:
            leader[find(trial.key)] = find(trial.regrade_of)
    for trial in everything:
        rollouts[find(trial.key)].append(trial)
    return list(rollouts.values())


def _dense_ranks(trials: Iterable[_Trial]) -> dict[str, int]:
    """From 1 within each group; trials that no part of the order tells apart share a rank."""
    groups: dict[str, list[_Trial]] = defaultdict(list)
    for trial in trials:
        groups[trial.group_id].append(trial)
    ranks = {}
    for group in groups.values():
        place = {order: i for i, order in enumerate(sorted({t.order for t in group}), 1)}
        ranks.update({trial.key: place[trial.order] for trial in group})
    return ranks
