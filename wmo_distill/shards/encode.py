"""Records to rows: the values of every column, safe for its type, and the Arrow table of a batch.

A value that its column cannot hold is null (or the column's empty value): reading has already
counted it as an issue, and writing never fails on it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from wmo_distill.files import plain_text
from wmo_distill.records import SegmentInfo, TrialRecord
from wmo_distill.shards.columns import (
    BOOL,
    FLOAT,
    IDS,
    INT32,
    INT64,
    LOGPROBS,
    TEXT,
    TEXTS,
    TIME,
    Column,
)
from wmo_distill.shards.lists import joined, list_array, offsets
from wmo_distill.shards.schema import (
    COLUMNS,
    REWARDS,
    SCHEMA,
    SEGMENT_FIELDS,
    SEGMENTS,
    SPAN,
    SPAN_FIELDS,
    SPANS,
    TESTS,
    VERSIONS,
    Group,
)
from wmo_distill.tokens import Ids, Logprobs, TokenSpan, Versions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def text(value: Any) -> str | None:
    """Text that UTF-8 can hold."""
    # str() turns a member of a vocabulary into its plain word.
    return str(plain_text(value)) if isinstance(value, str) else None


def _integer(bits: int) -> Callable[[Any], int | None]:
    limit = 2 ** (bits - 1)

    def integer(value: Any) -> int | None:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return int(value) if whole and -limit <= value < limit else None

    return integer


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _time(value: Any) -> int | None:
    """Microseconds since 1970 of a time that names its zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - EPOCH) // _MICROSECOND


def _texts(value: Any) -> list[str]:
    return [word for word in map(text, value) if word is not None]


def _integers(value: Any) -> list[int]:
    return [whole for whole in map(_integer(32), value) if whole is not None]


def _rewards(value: Mapping[str, float]) -> list[dict[str, Any]]:
    rows = [(text(name), _number(number)) for name, number in value.items()]
    return [{"name": n, "value": math.nan if x is None else x} for n, x in rows if n is not None]


def _tests(value: Any) -> dict[str, int | None] | None:
    tests = {field.name: _integer(32)(getattr(value, field.name)) for field in TESTS}
    return None if None in tests.values() else tests


def _segments(value: Sequence[SegmentInfo]) -> list[dict[str, Any]]:
    return [
        {c.name: _CONVERT[c.type](getattr(segment, c.name)) for c in SEGMENT_FIELDS}
        for segment in value
    ]


def versions(value: Versions | None) -> list[dict[str, Any]] | None:
    """The runs of a span as rows."""
    if value is None:
        return None
    return [{"version": text(name) or "", "start": start} for name, start in value]


_CONVERT: dict[pa.DataType, Callable[[Any], Any]] = {
    TEXT: text,
    INT32: _integer(32),
    INT64: _integer(64),
    FLOAT: _number,
    BOOL: _flag,
    TIME: _time,
    TEXTS: _texts,
    IDS: _integers,
    REWARDS: _rewards,
    TESTS: _tests,
    SEGMENTS: _segments,
}
_EMPTY: dict[pa.DataType, Any] = {TEXT: "", INT32: 0, INT64: 0, BOOL: False}
_PLAIN = tuple(column for column in COLUMNS if column.name != "spans")


_HOLDERS: dict[str, str] = {Group.SAMPLING: "sampled_with.", Group.COUNTS: "counts."}


def _getter(column: Column) -> Callable[[TrialRecord], Any]:
    """Takes a column's value from where a record holds it."""
    holder = _HOLDERS.get(column.group, "")
    return attrgetter(f"{holder}{column.name}")


_READ = tuple(
    (
        column.name,
        _getter(column),
        _CONVERT[column.type],
        None if column.nullable else _EMPTY.get(column.type),
    )
    for column in _PLAIN
)


def row_values(record: TrialRecord) -> dict[str, Any]:
    """Every column but `spans` as plain values that fit it; times in microseconds since 1970."""
    values = {}
    for name, get, convert, empty in _READ:
        value = get(record)
        if value is not None:
            value = convert(value)
        values[name] = empty if value is None else value
    if record.stop_reason is None:
        values["stop_reason"] = "unknown"
    return values


def encode(
    records: Sequence[TrialRecord], rows: Sequence[dict[str, Any]] | None = None
) -> pa.Table:
    """One row a record, in the declared schema; `rows` are their `row_values` where known."""
    if rows is None:
        rows = [row_values(record) for record in records]
    arrays = {
        column.name: pa.array([row[column.name] for row in rows], column.type) for column in _PLAIN
    }
    arrays["spans"] = _span_lists([record.spans for record in records])
    return pa.Table.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def deltas(spans: Sequence[TokenSpan]) -> list[tuple[int, Ids]]:
    """(prefix_len, prompt_suffix) of each span against the span before it in its segment."""
    before: dict[int, TokenSpan] = {}
    coded = []
    for span in spans:
        coded.append(span.delta(before.get(span.segment)))
        before[span.segment] = span
    return coded


def stored_ids(record: TrialRecord) -> int:
    """How many ids the row holds on disk: prompt suffixes and sampled ids of all segments."""
    suffixes = sum(suffix.size for _, suffix in deltas(record.spans))
    return suffixes + sum(span.sampled.size for span in record.spans)


def _span_lists(rows: Sequence[Sequence[TokenSpan]]) -> pa.Array:
    spans = [span for row in rows for span in row]
    coded = [delta for row in rows for delta in deltas(row)]
    own: dict[str, list[Any]] = {
        "prefix_len": [prefix_len for prefix_len, _ in coded],
        "prompt_suffix": [suffix for _, suffix in coded],
    }
    children = [
        _ARRAYS[c.type](own.get(c.name) or [getattr(span, c.name) for span in spans])
        for c in SPAN_FIELDS
    ]
    structs = pa.StructArray.from_arrays(children, fields=list(SPAN))
    return pa.ListArray.from_arrays(offsets([len(row) for row in rows]), structs, type=SPANS)


def _int32(values: list[int]) -> pa.Array:
    return pa.array(np.array(values, np.int32))


def _id_lists(arrays: Sequence[Ids | None]) -> pa.Array:
    values = joined(arrays, np.dtype(np.int32))
    return list_array(arrays, pa.array(values), IDS)


def _logprob_lists(arrays: Sequence[Logprobs | None]) -> pa.Array:
    values = joined(arrays, np.dtype(np.float64))
    lost = ~np.isfinite(values)
    return list_array(arrays, pa.array(values, mask=lost if lost.any() else None), LOGPROBS)


_ARRAYS: dict[pa.DataType, Callable[[list[Any]], pa.Array]] = {
    INT32: _int32,
    IDS: _id_lists,
    LOGPROBS: _logprob_lists,
    TEXT: lambda words: pa.array(map(text, words), TEXT),
    BOOL: lambda flags: pa.array(flags, BOOL),
    VERSIONS: lambda runs: pa.array(map(versions, runs), VERSIONS),
}
