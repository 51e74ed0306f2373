"""The columns of datum shards: one row a sequence, flat, unshifted, readable without our code."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.datums.datum import TrainDatum
from wmo_distill.datums.experts import packed
from wmo_distill.datums.groups import EpisodeGroup
from wmo_distill.datums.manifest import SCHEMA_VERSION
from wmo_distill.shards.lists import joined, list_array, offsets

VERSION_KEY = b"wmo_distill.datum_schema_version"


@dataclass(frozen=True, slots=True)
class Row:
    """A datum, the row of its record and that record's group."""

    datum: TrainDatum
    source: pa.RecordBatch
    at: int
    group: EpisodeGroup
    n_fragments: int = 1
    weight: float = 1.0
    teacher: str | None = None


def datum_id(datum: TrainDatum) -> str:
    """What keys a teacher's scores: equal sequences share it."""
    data = np.ascontiguousarray(datum.token_ids, "<i4")
    return hashlib.sha256(data.data).hexdigest()[:32]


def _list(of: pa.DataType, *, nullable: bool = False) -> pa.DataType:
    return pa.list_(pa.field("element", of, nullable=nullable))


_EXPERTS = pa.struct(
    [
        pa.field("data", pa.binary()),
        pa.field("shape", _list(pa.int32())),
        pa.field("dtype", pa.string()),
    ]
)
_Take = Callable[[Row], Any]


def _experts(row: Row) -> dict[str, Any] | None:
    experts = row.datum.routed_experts
    return None if experts is None else packed(experts)


def _of_group(name: str) -> _Take:
    return lambda row: getattr(row.group, name)


def _chosen(name: str) -> _Take:
    return lambda row: getattr(row.group.chosen, name)


_S, _I, _L, _F, _B = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()
_RECORD, _TOKENS = "record", "tokens"

# name, type, nullable, where from: the record's column of that name, the arrays of the datum,
# or a value of the row
_COLUMNS: tuple[tuple[str, pa.DataType, bool, _Take | str], ...] = (
    ("datum_id", _S, False, lambda row: datum_id(row.datum)),
    ("episode_id", _S, False, _RECORD),
    ("trial_name", _S, False, _RECORD),
    ("step_name", _S, True, _RECORD),
    ("step_index", _I, True, _RECORD),
    ("task_id", _S, True, _RECORD),
    ("group_id", _S, False, _RECORD),
    ("group_expected", _I, True, _RECORD),
    ("attempt", _I, True, _RECORD),
    ("job", _S, True, _RECORD),
    ("agent_name", _S, True, _RECORD),
    ("model_name", _S, True, _RECORD),
    ("segment", _I, False, lambda row: row.datum.segment),
    ("fragment_index", _I, False, lambda row: row.datum.fragment_index),
    ("n_fragments", _I, False, lambda row: row.n_fragments),
    ("token_ids", _list(_I), False, _TOKENS),
    ("loss_mask", _list(_B), False, _TOKENS),
    ("sampled_logprobs", _list(_F, nullable=True), False, _TOKENS),
    ("advantages", _list(_F), True, _TOKENS),
    ("teacher_logprobs", _list(_F, nullable=True), True, _TOKENS),
    ("rescored_logprobs", _list(_F, nullable=True), True, _TOKENS),
    ("call_starts", _list(_I), False, lambda row: list(row.datum.call_starts)),
    ("call_lengths", _list(_I), False, lambda row: list(row.datum.call_lengths)),
    ("finish_reasons", _list(_S, nullable=True), False, lambda row: row.datum.finish_reasons),
    ("ends_chat", _B, False, lambda row: row.datum.ends_chat),
    ("reward", _F, True, _chosen("reward")),
    ("reward_valid", _B, True, _chosen("valid")),
    ("passed", _B, True, _chosen("passed")),
    ("step_reward", _F, True, _chosen("step_reward")),
    ("trial_reward", _F, True, _RECORD),
    ("group_size", _I, True, _of_group("size")),
    ("group_measured", _I, True, _of_group("measured")),
    ("group_mean", _F, True, _of_group("mean")),
    ("group_std", _F, True, _of_group("std")),
    ("stop_reason", _S, False, _RECORD),
    ("completion", _S, False, _RECORD),
    ("break_cause", _S, True, lambda row: row.datum.break_cause),
    ("break_position", _I, True, lambda row: row.datum.break_position),
    ("weight", _F, False, lambda row: row.weight),
    ("teacher", _S, True, lambda row: row.teacher),
    ("routed_experts", _EXPERTS, True, _experts),
    ("temperature", _F, True, _RECORD),
    ("top_p", _F, True, _RECORD),
    ("top_k", _I, True, _RECORD),
    ("logprob_mode", _S, False, _RECORD),
    ("policy_version", _S, True, _RECORD),
    ("train_step", _L, True, _RECORD),
    ("tokenizer", _S, True, _RECORD),
    ("declared", _list(_S), False, _RECORD),
    ("sampling", _S, True, _RECORD),
)

DATUM_SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=nullable) for name, kind, nullable, _ in _COLUMNS],
    metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()},
)
PER_TOKEN = tuple(name for name, _, _, origin in _COLUMNS if origin == _TOKENS)
RECORD_COLUMNS = tuple(name for name, _, _, origin in _COLUMNS if origin == _RECORD)


def datum_table(rows: Sequence[Row]) -> pa.Table:
    """The rows in the declared schema; per-token lists straight from their arrays."""
    records = _records(rows)
    lists = _per_token([row.datum for row in rows])
    arrays = []
    for name, kind, _, origin in _COLUMNS:
        if origin == _RECORD:
            arrays.append(records.column(name))
        elif origin == _TOKENS:
            arrays.append(lists[name])
        else:
            assert callable(origin)
            arrays.append(pa.array([origin(row) for row in rows], kind))
    return pa.Table.from_arrays(arrays, schema=DATUM_SCHEMA)


def _records(rows: Sequence[Row]) -> pa.Table:
    """For each row its record's columns."""
    tables = []
    for _, run in groupby(rows, key=lambda row: id(row.source)):
        same = list(run)
        batch = same[0].source.select(list(RECORD_COLUMNS))
        tables.append(pa.Table.from_batches([batch]).take(pa.array([row.at for row in same])))
    return pa.concat_tables(tables).combine_chunks()


def _per_token(datums: Sequence[TrainDatum]) -> dict[str, pa.Array]:
    types = {name: kind for name, kind, _, _ in _COLUMNS}
    ids = [datum.token_ids for datum in datums]
    starts = offsets([array.size for array in ids])
    mask = joined([datum.loss_mask for datum in datums], np.dtype(bool))
    logprobs = joined([datum.sampled_logprobs for datum in datums], np.dtype(np.float64))
    recorded = mask if not np.isnan(logprobs).any() else mask & ~np.isnan(logprobs)
    return {
        "token_ids": pa.ListArray.from_arrays(
            starts, pa.array(joined(ids, np.dtype(np.int32))), type=types["token_ids"]
        ),
        "loss_mask": pa.ListArray.from_arrays(starts, _bits(mask), type=types["loss_mask"]),
        "sampled_logprobs": pa.ListArray.from_arrays(
            starts, _floats(logprobs, recorded), type=types["sampled_logprobs"]
        ),
        **{
            name: list_array(
                values,
                pa.array(joined(values, np.dtype(np.float64)), from_pandas=True),
                types[name],
            )
            for name, values in (
                ("advantages", [datum.advantages for datum in datums]),
                ("teacher_logprobs", [datum.teacher_logprobs for datum in datums]),
                ("rescored_logprobs", [datum.rescored_logprobs for datum in datums]),
            )
        },
    }


def _packed(bits: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def _bits(values: NDArray[np.bool_]) -> pa.Array:
    return pa.Array.from_buffers(_B, values.size, [None, _packed(values)])


def _floats(values: NDArray[np.float64], present: NDArray[np.bool_]) -> pa.Array:
    return pa.Array.from_buffers(_F, values.size, [_packed(present), pa.py_buffer(values)])
