"""Rows to records: ids and log-probabilities are views of the Arrow buffers.

Whole prompts are put together only where they are asked for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.errors import DistillError
from wmo_distill.issues import Issue
from wmo_distill.records import (
    Completeness,
    Completion,
    GradedTests,
    LogprobMode,
    Sampling,
    SegmentKind,
    SpanSource,
    StopReason,
    TrialRecord,
)
from wmo_distill.shards.encode import EPOCH
from wmo_distill.shards.schema import COLUMNS, INT64, Group
from wmo_distill.tokens import TokenSpan

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Lists:
    """A column of lists as flat values; list i is values[starts[i]:starts[i + 1]], or null."""

    values: NDArray[Any]
    starts: NDArray[np.int32]
    present: NDArray[np.bool_]

    def __getitem__(self, i: int) -> NDArray[Any] | None:
        return self.values[self.starts[i] : self.starts[i + 1]] if self.present[i] else None


@dataclass(frozen=True, slots=True)
class SpanColumns:
    """The `spans` of a batch; row i holds the spans starts[i] to starts[i + 1]."""

    starts: NDArray[np.int32]
    segment: NDArray[np.int32]
    call_index: NDArray[np.int32]
    prefix_len: NDArray[np.int32]
    prompt_suffix: Lists
    sampled_token_ids: Lists
    sampled_logprobs: Lists
    finish_reason: list[str | None]
    extra: list[str | None]

    @classmethod
    def of(cls, spans: pa.ListArray) -> "SpanColumns":
        offsets = spans.offsets.to_numpy()
        first, last = int(offsets[0]), int(offsets[-1])
        structs = spans.values.slice(first, last - first)
        child = {field.name: structs.field(i) for i, field in enumerate(structs.type)}
        return cls(
            starts=offsets - first,
            segment=child["segment"].to_numpy(),
            call_index=child["call_index"].to_numpy(),
            prefix_len=child["prefix_len"].to_numpy(),
            prompt_suffix=_lists(child["prompt_suffix"]),
            sampled_token_ids=_lists(child["sampled_token_ids"]),
            sampled_logprobs=_lists(child["sampled_logprobs"]),
            finish_reason=child["finish_reason"].to_pylist(),
            extra=child["extra"].to_pylist() if "extra" in child else [None] * len(structs),
        )

    def row(self, row: int) -> tuple[TokenSpan, ...]:
        """The spans of one row, each chained to the one before it in its segment."""
        before: dict[int, TokenSpan] = {}
        spans = []
        for i in range(self.starts[row], self.starts[row + 1]):
            segment = int(self.segment[i])
            suffix = self.prompt_suffix[i]
            assert suffix is not None
            span = TokenSpan.after(
                before.get(segment),
                int(self.call_index[i]),
                int(self.prefix_len[i]),
                suffix,
                self.sampled_token_ids[i],
                self.sampled_logprobs[i],
                segment=segment,
                finish_reason=self.finish_reason[i],
                extra=self.extra[i],
            )
            before[segment] = span
            spans.append(span)
        return tuple(spans)


def _lists(array: pa.ListArray) -> Lists:
    # Nulls among log-probabilities become NaN; without nulls this is a view.
    values = array.values.to_numpy(zero_copy_only=False)
    present = np.ones(len(array), bool)
    if array.null_count:
        present = array.is_valid().to_numpy(zero_copy_only=False)
    return Lists(values, array.offsets.to_numpy(), present)


def decode(table: pa.Table | pa.RecordBatch) -> Iterator[TrialRecord]:
    """The records of a table in the declared schema, in its order."""
    batches = [table] if isinstance(table, pa.RecordBatch) else table.to_batches()
    for batch in batches:
        spans = SpanColumns.of(batch.column("spans"))
        plain = {c.name: plain_list(batch.column(c.name)) for c in COLUMNS if c.name != "spans"}
        for row in range(batch.num_rows):
            values = {name: column[row] for name, column in plain.items()}
            yield record_of(values, spans.row(row))


def plain_list(column: pa.Array) -> list[Any]:
    """Python values; times as microseconds since 1970."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(INT64)
    return cast(list[Any], column.to_pylist())


_SAMPLING = tuple(c.name for c in COLUMNS if c.group is Group.SAMPLING)
_OWN = tuple(
    c.name for c in COLUMNS if c.group not in (Group.SAMPLING, Group.COUNTS) and c.name != "spans"
)


def record_of(values: dict[str, Any], spans: tuple[TokenSpan, ...]) -> TrialRecord:
    """A record from its row; the count columns are left out, they follow from the spans."""
    sampling = {name: values[name] for name in _SAMPLING}
    sampling["logprob_mode"] = _word(LogprobMode, sampling["logprob_mode"])
    sampling["declared"] = tuple(sampling["declared"])
    own = {name: values[name] for name in _OWN}
    own["rewards"] = {reward["name"]: reward["value"] for reward in own["rewards"]}
    if own["tests"] is not None:
        own["tests"] = GradedTests.model_construct(**own["tests"])
    if own["stop_reason"] in _STOP_REASONS:
        own["stop_reason"] = StopReason(own["stop_reason"])
    own["completion"] = _word(Completion, own["completion"])
    own["span_source"] = _word(SpanSource, own["span_source"])
    own["completeness"] = _word(Completeness, own["completeness"])
    own["segment_kinds"] = _words(SegmentKind, own["segment_kinds"])
    own["issues"] = _words(Issue, own["issues"])
    own["compactions"] = tuple(own["compactions"])
    own["started_at"] = _time(own["started_at"])
    own["finished_at"] = _time(own["finished_at"])
    return TrialRecord(sampled_with=Sampling(**sampling), spans=spans, **own)


_STOP_REASONS = frozenset(map(str, StopReason))


def _words(kind: type[_Word], words: Iterable[str]) -> tuple[_Word, ...]:
    return tuple(_word(kind, word) for word in words)


def _word(kind: type[_Word], word: str) -> _Word:
    try:
        return kind(word)
    except ValueError:
        raise DistillError(
            f"{kind.__name__}: expected one of {', '.join(kind)}, found {word!r}; "
            "was this part written by a newer wmo-distill?"
        ) from None


def _time(value: int | None) -> datetime | None:
    return None if value is None else EPOCH + timedelta(microseconds=value)
