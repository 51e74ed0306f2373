"""One pass over records: the tokens of a batch become a few numbers a record, and sums."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from wmo_distill.datums.versions import steps_of
from wmo_distill.issues import Issue
from wmo_distill.predicates import is_measured
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.stats.calls import MainCalls, break_causes
from wmo_distill.stats.context import ContextGrowth
from wmo_distill.stats.distribution import Sketch
from wmo_distill.stats.worst import Rank, Worst, first, ranked

# The first of these among a record's issues is why its main chat has no call: the
# earliest missing thing.
SPANLESS_REASONS: tuple[Issue, ...] = (
    Issue.DIRECTORY_MISSING,
    Issue.AGENT_RESULT_MISSING,
    Issue.DETAILS_MISSING,
    Issue.DETAILS_NULL,
    Issue.DETAILS_EMPTY,
    Issue.DETAILS_DAMAGED,
    Issue.ENTRY_DAMAGED,
    Issue.ENTRY_EMPTY,
    Issue.NO_COMPLETION_IDS,
    Issue.CALL_NOT_SALVAGED,
    Issue.CALL_UNPLACED,
    Issue.PROMPT_MISSING,
    Issue.PROMPT_EMPTY,
    Issue.PROMPT_DAMAGED,
    Issue.LISTS_MISALIGNED,
    Issue.SINK_CORRUPT,
    Issue.SINK_MISSING,
    Issue.RESULT_MISSING,
    Issue.RESULT_UNREADABLE,
    Issue.AGENT_NOT_TRAINABLE,
)
NO_REASON = "none_recorded"

# Kept of every record: 0.3 kB, most of it names.
KEPT = (
    "artifact_dir", "step_name", "task_id", "group_id", "agent_name", "model_name", "format",
    "source", "reward", "passed", "infra_failed", "stop_reason", "reference_stop_reason",
    "completion", "output_tokens", "total_tokens", "agent_seconds", "n_calls", "fragments",
    "input_tokens", "prompt_tokens", "subagent_tokens", "expansion",
)  # fmt: skip
# Looked at in a batch.
_SEEN = (
    "episode_id", "trial_name", "reward_valid", "tests", "issues", "compactions", "train_step",
    "policy_version", "policy_versions",
)  # fmt: skip
FLAT = (*KEPT, *_SEEN)
_EMPTY = pl.DataFrame(pl.from_arrow(SCHEMA.empty_table().select(list(FLAT))))


class Tally:
    """What is known of the records so far."""

    def __init__(self, max_tokens: int | None = None, by: Sequence[str] = ()) -> None:
        self._max_tokens = max_tokens
        self._by = by
        self._records: list[pl.DataFrame] = []
        self._worst: list[tuple[Rank, Worst]] = []
        self.issues: Counter[str] = Counter()
        self.breaks: Counter[str] = Counter()
        self.context = ContextGrowth()
        self.logprobs = Sketch("logprob")

    def add(self, flat: pl.DataFrame, spans: pa.ListArray) -> None:
        """A batch: the columns `FLAT` and those of `--by`, and the spans of the same rows."""
        calls = MainCalls.of(spans, len(spans))
        flat = _aligned(flat).with_columns(with_spans=pl.Series(calls.sums() > 0, dtype=pl.Boolean))
        breaks = break_causes(spans, calls.broken(), flat["compactions"].to_list())
        issues = [Counter(codes or ()) for codes in flat["issues"].to_list()]
        records = self._of_batch(flat, calls, issues, _steps(flat, spans))
        self._records.append(records)
        self.context.add(calls)
        self.logprobs.add(calls.logprobs, missing=int(calls.sampled.sum()) - calls.logprobs.size)
        for causes in breaks.values():
            self.breaks += causes
        for codes in issues:
            self.issues.update(codes)
        self._rank(flat, issues, breaks, records["implausible"].to_list())

    def records(self) -> pl.DataFrame:
        """A row a record, in the order in which they came."""
        return pl.concat(self._records)

    @property
    def worst(self) -> tuple[Worst, ...]:
        return tuple(worst for _, worst in self._worst)

    def _of_batch(
        self,
        flat: pl.DataFrame,
        calls: MainCalls,
        issues: Sequence[Counter[str]],
        steps: tuple[list[int | None], list[int | None]],
    ) -> pl.DataFrame:
        usable = self.logprobs.usable(calls.logprobs)
        recorded = ~np.isnan(calls.logprobs)
        rows = calls.logprob_row[usable]
        sums = np.bincount(rows, calls.logprobs[usable], flat.height)
        at_cap = calls.recorded & (self._max_tokens is not None)
        if self._max_tokens is not None:
            at_cap &= calls.sampled >= self._max_tokens
        with_spans = flat["with_spans"].to_numpy()
        spanless = [
            None if has else next((r.value for r in SPANLESS_REASONS if r in codes), NO_REASON)
            for has, codes in zip(with_spans.tolist(), issues, strict=True)
        ]
        tests = flat["tests"].struct
        names = dict.fromkeys([*KEPT, *self._by, "with_spans"])
        return flat.select(list(names)).with_columns(
            policy_version=_version(flat),
            measured=_measured(flat, issues),
            score=tests.field("passed") / tests.field("resolved"),
            spanless=pl.Series(spanless, dtype=pl.String),
            turns=pl.Series(calls.sums(), dtype=pl.Int64),
            sampled=pl.Series(calls.sums(calls.sampled)).cast(pl.Int64),
            calls=pl.Series(calls.sums(calls.recorded)).cast(pl.Int64),
            at_cap=pl.Series(calls.sums(at_cap)).cast(pl.Int64),
            scored=pl.Series(np.bincount(rows, minlength=flat.height), dtype=pl.Int64),
            logprobs=pl.Series(sums.astype(float)),
            implausible=pl.Series(
                np.bincount(calls.logprob_row[recorded & ~usable], minlength=flat.height),
                dtype=pl.Int64,
            ),
            oldest_step=pl.Series(steps[0], dtype=pl.Int64),
            newest_step=pl.Series(steps[1], dtype=pl.Int64),
        )

    def _rank(
        self,
        flat: pl.DataFrame,
        issues: Sequence[Counter[str]],
        breaks: dict[int, Counter[str]],
        implausible: Sequence[int],
    ) -> None:
        names = flat.select(
            "episode_id", "trial_name", "task_id", "step_name", "artifact_dir", "stop_reason"
        )
        found = [
            one
            for at, row in enumerate(names.iter_rows(named=True))
            if (one := ranked(row, issues[at], breaks.get(at, Counter()), implausible[at]))
        ]
        self._worst = first([*self._worst, *found])


def _aligned(flat: pl.DataFrame) -> pl.DataFrame:
    """With the columns that a bare frame has not, as nulls."""
    missing = {
        name: pl.lit(None, dtype=of) for name, of in _EMPTY.schema.items() if name not in flat
    }
    return flat.with_columns(**missing)


def _measured(flat: pl.DataFrame, issues: Sequence[Counter[str]]) -> pl.Series:
    columns = flat.select("reward", "reward_valid", "infra_failed")
    return pl.Series(
        [
            is_measured(reward, valid, infra_failed=bool(failed), issues=codes)
            for (reward, valid, failed), codes in zip(columns.iter_rows(), issues, strict=True)
        ],
        dtype=pl.Boolean,
    )


def _version(flat: pl.DataFrame) -> pl.Expr:
    """The policy version; all of them where several sampled; null where none is recorded."""
    several = pl.col("x").list.join(", ")
    listed = flat.select(x=pl.col("policy_versions")).select(
        pl.when(pl.col("x").list.len() > 0).then(several)
    )
    return pl.coalesce(pl.lit(flat["policy_version"]), pl.lit(listed.to_series()))


def _steps(flat: pl.DataFrame, spans: pa.ListArray) -> tuple[list[int | None], list[int | None]]:
    """The oldest and the newest training step that each record names."""
    names = [field.name for field in spans.type.value_type]
    oldest: list[Any] = []
    newest: list[Any] = []
    edges = spans.offsets.to_numpy()
    texts = spans.values.field(names.index("sampling")) if "sampling" in names else None
    known = texts is not None and texts.null_count < len(texts)
    columns = flat.select("train_step", "policy_versions").iter_rows()
    for at, (step, versions) in enumerate(columns):
        if step is not None:
            steps = [step]
        elif not versions and not known:
            steps = []
        else:
            calls = slice(int(edges[at]), int(edges[at + 1]))
            own = texts[calls].unique().to_pylist() if texts is not None and known else [None]
            steps = steps_of(None, versions or (), own if calls.stop > calls.start else [])
        oldest.append(min(steps, default=None))
        newest.append(max(steps, default=None))
    return oldest, newest
