"""Records to Arrow and back: `decode(encode(records)) == records`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from wmo_distill.issues import Issue
from wmo_distill.records import (
    Completion,
    GradedTests,
    LogprobMode,
    Sampling,
    SegmentKind,
    SpanSource,
    StopReason,
    TrialRecord,
)
from wmo_distill.shards.schema import SCHEMA, SPAN
from wmo_distill.tokens import TokenSpan

_SAMPLING = ("temperature", "top_p", "top_k", "logprob_mode", "policy_version", "train_step",
             "tokenizer", "declared", "sampling")  # fmt: skip
_COUNTS = ("n_calls", "fragments", "input_tokens", "output_tokens", "total_tokens",
           "prompt_tokens", "subagent_tokens", "expansion")  # fmt: skip


def encode(records: Sequence[TrialRecord]) -> pa.Table:
    """One row a record, in the schema of every part."""
    arrays = [_column(field, records) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def decode(table: pa.Table | pa.RecordBatch) -> Iterator[TrialRecord]:
    """The records of a table; ids and log-probabilities are views of its memory."""
    for batch in table.to_batches() if isinstance(table, pa.Table) else [table]:
        spans = _decode_spans(batch.column("spans"))
        plain = batch.drop_columns(["spans"]).to_pylist()
        for row, row_spans in zip(plain, spans, strict=True):
            yield _record(row, row_spans)


def row_values(record: TrialRecord) -> dict[str, Any]:
    """Every column of a record but `spans`, as plain values."""
    values: dict[str, Any] = {}
    for name in SCHEMA.names:
        if name != "spans":
            values[name] = _value(name)(record)
    return values


def _column(field: pa.Field, records: Sequence[TrialRecord]) -> pa.Array:
    if field.name == "spans":
        return _encode_spans(records)
    value = _value(field.name)
    return pa.array([value(record) for record in records], field.type)


def _value(name: str) -> Callable[[TrialRecord], Any]:
    if name in _SAMPLING:
        return lambda record: _plain(getattr(record.sampled_with, name))
    if name in _COUNTS:
        return lambda record: getattr(record.counts, name)
    if name == "rewards":
        return lambda record: [{"name": k, "value": v} for k, v in record.rewards.items()]
    if name == "tests":
        return lambda record: None if record.tests is None else record.tests.model_dump()
    return lambda record: _plain(getattr(record, name))


def _plain(value: Any) -> Any:
    """Tuples of words as lists of strings; an unset stop reason as the word for it."""
    if isinstance(value, tuple):
        return [str(x) if isinstance(x, str) else x for x in value]
    return str(value) if isinstance(value, str) else value


def _encode_spans(records: Sequence[TrialRecord]) -> pa.Array:
    spans: list[TokenSpan] = []
    prefixes: list[int] = []
    suffixes: list[np.ndarray[Any, Any]] = []
    for record in records:
        before: dict[int, TokenSpan] = {}
        for span in record.spans:
            prefix_len, suffix = span.delta(before.get(span.segment))
            before[span.segment] = span
            spans.append(span)
            prefixes.append(prefix_len)
            suffixes.append(suffix)
    sampled = [span.sampled_token_ids for span in spans]
    logprobs = [span.sampled_logprobs for span in spans]
    children = [
        pa.array(np.array([span.segment for span in spans], np.int32)),
        pa.array(np.array([span.call_index for span in spans], np.int32)),
        pa.array(np.array(prefixes, np.int32)),
        _lists(suffixes, np.dtype(np.int32)),
        _lists(sampled, np.dtype(np.int32)),
        _lists(logprobs, np.dtype(np.float64)),
        pa.array([span.finish_reason for span in spans], pa.string()),
        pa.array([span.extra for span in spans], pa.string()),
    ]
    structs = pa.StructArray.from_arrays(children, fields=list(SPAN))
    offsets = _offsets([len(record.spans) for record in records])
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=SCHEMA.field("spans").type)


def _lists(arrays: Sequence[Any], dtype: np.dtype[Any]) -> pa.Array:
    """Arrays, some of them None, as one list column; NaN becomes null."""
    present = [a for a in arrays if a is not None]
    flat = np.concatenate(present) if present else np.zeros(0, dtype)
    values = pa.array(flat.astype(dtype, copy=False), from_pandas=dtype.kind == "f")
    offsets = pa.array(_offsets([0 if a is None else a.size for a in arrays]))
    missing = np.array([a is None for a in arrays], bool)
    mask = pa.array(missing) if missing.any() else None
    return pa.ListArray.from_arrays(offsets, values, mask=mask)


def _offsets(lengths: Sequence[int]) -> np.ndarray[Any, Any]:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _decode_spans(column: pa.Array) -> Iterator[tuple[TokenSpan, ...]]:
    starts = column.offsets.to_numpy()
    structs = column.values
    fields = {field.name: structs.field(i) for i, field in enumerate(SPAN)}
    segments = fields["segment"].to_numpy()
    indices = fields["call_index"].to_numpy()
    prefixes = fields["prefix_len"].to_numpy()
    suffixes = _Lists(fields["prompt_suffix"])
    sampled = _Lists(fields["sampled_token_ids"])
    logprobs = _Lists(fields["sampled_logprobs"])
    reasons, extras = fields["finish_reason"], fields["extra"]
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        before: dict[int, TokenSpan] = {}
        spans: list[TokenSpan] = []
        for i in range(int(start), int(end)):
            segment = int(segments[i])
            suffix = suffixes[i]
            assert suffix is not None
            span = TokenSpan.after(
                before.get(segment),
                int(indices[i]),
                int(prefixes[i]),
                suffix,
                sampled[i],
                logprobs[i],
                segment=segment,
                finish_reason=reasons[i].as_py(),
                extra=extras[i].as_py(),
            )
            before[segment] = span
            spans.append(span)
        yield tuple(spans)


class _Lists:
    """Random access to a list column as NumPy views; null is None, a null element NaN."""

    def __init__(self, column: pa.ListArray) -> None:
        self.starts = column.offsets.to_numpy()
        self.valid = None if column.null_count == 0 else column.is_valid().to_numpy(False)
        values = column.values
        self.values = values.to_numpy(zero_copy_only=values.null_count == 0)

    def __getitem__(self, i: int) -> np.ndarray[Any, Any] | None:
        if self.valid is not None and not self.valid[i]:
            return None
        view: np.ndarray[Any, Any] = self.values[self.starts[i] : self.starts[i + 1]]
        return view


def _record(row: Mapping[str, Any], spans: tuple[TokenSpan, ...]) -> TrialRecord:
    values = {
        key: value for key, value in row.items() if key not in _SAMPLING and key not in _COUNTS
    }
    sampled_with = {key: row[key] for key in _SAMPLING}
    sampled_with["declared"] = tuple(row["declared"])
    sampled_with["logprob_mode"] = LogprobMode(row["logprob_mode"])
    tests = row["tests"]
    values |= {
        "sampled_with": Sampling(**sampled_with),
        "rewards": {item["name"]: item["value"] for item in row["rewards"]},
        "tests": None if tests is None else GradedTests(**tests),
        "stop_reason": StopReason(row["stop_reason"]),
        "completion": Completion(row["completion"]),
        "span_source": SpanSource(row["span_source"]),
        "segment_kinds": tuple(map(SegmentKind, row["segment_kinds"])),
        "issues": tuple(map(Issue, row["issues"])),
        "compactions": tuple(row["compactions"]),
    }
    return TrialRecord(**values, spans=spans)
