"""Rows to records: ids and log-probabilities are views of the Arrow buffers.

Whole prompts are put together only where they are asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import groupby
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.arrays import Lists
from wmo_distill.records import (
    GradedTests,
    Sampling,
    Secret,
    SegmentInfo,
    SegmentKind,
    StopReason,
    TrialRecord,
)
from wmo_distill.segment import Coded, Segment, Versions
from wmo_distill.shards.columns import IDS, INT64, TEXTS, TIME, Column
from wmo_distill.shards.encode import EPOCH
from wmo_distill.shards.schema import COLUMNS, REWARDS, SECRETS, SEGMENTS, TESTS, Group
from wmo_distill.tokens import TokenSpan, in_order

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class SpanColumns:
    """The `spans` of a batch; row i holds the calls starts[i] to starts[i + 1]."""

    starts: NDArray[np.int32]
    segment: NDArray[np.int32]
    calls: Segment
    """The calls of all rows, as if they were one chat."""

    @classmethod
    def of(cls, spans: pa.ListArray, *, check: bool = True) -> "SpanColumns":
        """ValueError where log-probabilities are not one for each id, unless `check` is False."""
        offsets = spans.offsets.to_numpy()
        first, last = int(offsets[0]), int(offsets[-1])
        structs = spans.values.slice(first, last - first)
        child = {field.name: structs.field(i) for i, field in enumerate(structs.type)}

        def listed(name: str) -> list[Any]:
            present = name in child and child[name].null_count < len(structs)
            return cast(list[Any], child[name].to_pylist()) if present else [None] * len(structs)

        calls = Segment(
            -1,
            child["call_index"].to_numpy(),
            child["prefix_len"].to_numpy(),
            _lists(child["prompt_suffix"]),
            _lists(child["sampled_token_ids"]),
            _lists(child["sampled_logprobs"]),
            listed("finish_reason"),
            [None if runs is None else runs_of(runs) for runs in listed("versions")],
            *map(listed, ("sampling", "used", "extra")),
        )
        if check:
            calls.checked()
        return cls(offsets - first, child["segment"].to_numpy(), calls)

    def chats(self, row: int) -> dict[int, Segment]:
        """The calls of one row by their segment's number."""
        start, stop = int(self.starts[row]), int(self.starts[row + 1])
        numbers = self.segment[start:stop].tolist()
        runs = [(number, len(list(run))) for number, run in groupby(numbers)]
        if len(dict(runs)) < len(runs):
            return self._mixed(start, numbers)
        chats = {}
        for number, n in runs:
            chats[number] = self.calls.part(number, start, start + n)
            start += n
        return chats

    def _mixed(self, start: int, numbers: list[int]) -> dict[int, Segment]:
        """The chats of a row in which they alternate: copied."""
        coded: dict[int, list[Coded]] = {}
        for at, number in enumerate(numbers, start):
            call = Coded(*(column[at] for column in self.calls.columns))
            coded.setdefault(number, []).append(call)
        return {number: Segment.of(number, calls) for number, calls in coded.items()}

    def row(self, row: int) -> tuple[TokenSpan, ...]:
        """The spans of one row, in its order, as views of its chats."""
        numbers = self.segment[self.starts[row] : self.starts[row + 1]].tolist()
        return in_order(numbers, self.chats(row))


def runs_of(runs: list[dict[str, Any]]) -> Versions:
    """Runs of policy versions from their rows."""
    return tuple((run["version"], run["start"]) for run in runs)


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


def record_of(values: dict[str, Any], spans: tuple[TokenSpan, ...]) -> TrialRecord:
    """A record from its row; the count columns are left out, they follow from the spans."""
    own: dict[str, Any] = {}
    sampling: dict[str, Any] = {}
    for column, convert in _READ:
        value = values[column.name]
        if convert is not None and value is not None:
            value = convert(value)
        (sampling if column.group == Group.SAMPLING else own)[column.name] = value
    return TrialRecord(sampled_with=Sampling(**sampling), spans=spans, **own)


def segments_of(rows: Sequence[dict[str, Any]]) -> tuple[SegmentInfo, ...]:
    """What each segment is, from its row."""
    return tuple(SegmentInfo(**{**row, "kind": word_of(SegmentKind, row["kind"])}) for row in rows)


def secrets_of(rows: Sequence[dict[str, Any]]) -> tuple[Secret, ...]:
    """What was found in the text of a row's ids."""
    return tuple(Secret(**row) for row in rows)


def word_of(kind: type[_Word], word: str) -> _Word:
    """A word of a vocabulary; ValueError for any other, which a newer version may have."""
    try:
        return kind(word)
    except ValueError:
        raise ValueError(f"{word!r:.80}, which is no {kind.__name__}") from None


def _open_word(kind: type[StrEnum], word: str) -> str:
    """A word of the vocabulary, or of a run trace."""
    return kind(word) if word in set(kind) else word


def _time(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


_FROM: dict[pa.DataType, Callable[[Any], Any]] = {
    TEXTS: tuple,
    IDS: tuple,
    TIME: _time,
    REWARDS: lambda rows: {row["name"]: row["value"] for row in rows},
    TESTS: lambda counts: GradedTests.model_construct(**counts),
    SEGMENTS: segments_of,
    SECRETS: secrets_of,
}


def _converter(column: Column) -> Callable[[Any], Any] | None:
    """A column's plain value to that of a record; None where they are the same."""
    words = column.words
    if words is None:
        return _FROM.get(column.type)
    if column.type == TEXTS:
        return lambda listed: tuple(word_of(words, word) for word in listed)
    one = _open_word if words is StopReason else word_of
    return partial(one, words)


_READ = tuple((c, _converter(c)) for c in COLUMNS if c.group != Group.COUNTS and c.name != "spans")
