"""Records to rows: the values of every column, safe for its type, and the Arrow table of a batch.

A value that its column cannot hold is null (or the column's empty value): reading has already
counted it as an issue, and writing never fails on it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.arrays import Lists
from wmo_distill.files import plain_text
from wmo_distill.records import Secret, SegmentInfo, TrialRecord
from wmo_distill.segment import Segment, Versions
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
from wmo_distill.shards.lists import joined, list_column, offsets
from wmo_distill.shards.schema import (
    COLUMNS,
    REWARDS,
    SCHEMA,
    SECRET_FIELDS,
    SECRETS,
    SEGMENT_FIELDS,
    SEGMENTS,
    SPAN,
    SPAN_FIELDS,
    SPANS,
    TESTS,
    VERSIONS,
    Group,
)

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
    return _structs(value, SEGMENT_FIELDS)


def _secrets(value: Sequence[Secret]) -> list[dict[str, Any]]:
    return _structs(value, SECRET_FIELDS)


def _structs(value: Sequence[Any], columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [{c.name: _CONVERT[c.type](getattr(one, c.name)) for c in columns} for one in value]


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
    SECRETS: _secrets,
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
    arrays["spans"] = _span_lists(records)
    return pa.Table.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def row_json(record: TrialRecord) -> dict[str, Any]:
    """The columns of a record's row for JSON, which has no NaN: null in its place."""
    (row,) = encode([record]).to_pylist()
    return cast("dict[str, Any]", _without_nan(row))


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_nan(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def calls(record: TrialRecord) -> Iterator[tuple[Segment, int]]:
    """Each call in the order of the row: its chat and its place there."""
    places = dict.fromkeys(record.chats, 0)
    for span in record.spans:
        yield record.chats[span.segment], places[span.segment]
        places[span.segment] += 1


def stored_ids(record: TrialRecord) -> int:
    """How many ids the row holds on disk: prompt suffixes and sampled ids of all segments."""
    return sum(chat.prompt_suffix.flat.size + chat.n_sampled for chat in record.chats.values())


def _span_lists(records: Sequence[TrialRecord]) -> pa.Array:
    chats = [chat for record in records for chat in record.chats.values()]
    numbers = [np.full(len(chat), chat.number, np.int32) for chat in chats]
    children = [
        _ARRAYS[c.type](numbers if c.name == "segment" else [getattr(x, c.name) for x in chats])
        for c in SPAN_FIELDS
    ]
    structs = pa.StructArray.from_arrays(children, fields=list(SPAN))
    order = _row_order(records)
    if order is not None:
        structs = structs.take(order)
    sizes = [len(record.spans) for record in records]
    return pa.ListArray.from_arrays(offsets(sizes), structs, type=SPANS)


def _row_order(records: Sequence[TrialRecord]) -> pa.Array | None:
    """Where each call is among the calls chat by chat; None where rows hold chat after chat."""
    order: list[int] = []
    for record in records:
        begins, size = {}, len(order)
        for number, chat in record.chats.items():
            begins[number] = size
            size += len(chat)
        order += [begins[chat.number] + at for chat, at in calls(record)]
    return None if order == list(range(len(order))) else pa.array(order, pa.int64())


def _int32(columns: Sequence[NDArray[np.int32]]) -> pa.Array:
    return pa.array(np.concatenate([np.zeros(0, np.int32), *columns]))


def _id_lists(columns: Sequence[Lists]) -> pa.Array:
    return list_column(columns, pa.array(joined(columns, np.int32)), IDS)


def _logprob_lists(columns: Sequence[Lists]) -> pa.Array:
    values = joined(columns, np.float64)
    lost = ~np.isfinite(values)
    return list_column(columns, pa.array(values, mask=lost if lost.any() else None), LOGPROBS)


def _plain(convert: Callable[[Any], Any], of: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda columns: pa.array([convert(x) for column in columns for x in column], of)


_ARRAYS: dict[pa.DataType, Callable[[Sequence[Any]], pa.Array]] = {
    INT32: _int32,
    IDS: _id_lists,
    LOGPROBS: _logprob_lists,
    TEXT: _plain(text, TEXT),
    BOOL: _plain(_flag, BOOL),
    VERSIONS: _plain(versions, VERSIONS),
}
