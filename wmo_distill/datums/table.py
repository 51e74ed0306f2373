"""The columns of datum shards: one row a sequence, flat, unshifted, readable without our code."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.datums.datum import TrainDatum
from wmo_distill.datums.groups import EpisodeGroup
from wmo_distill.files import plain_text
from wmo_distill.records import TrialRecord
from wmo_distill.shards.lists import joined, list_array

VERSION_KEY = b"wmo_distill.datum_schema_version"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A datum, the record it is from and the record's group."""

    datum: TrainDatum
    record: TrialRecord
    group: EpisodeGroup | None
    n_fragments: int
    weight: float


def datum_id(datum: TrainDatum) -> str:
    """What keys a teacher's scores: equal sequences share it."""
    data = np.ascontiguousarray(datum.token_ids, "<i4").tobytes()
    return hashlib.sha256(data).hexdigest()[:32]


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


def _of_record(name: str) -> _Take:
    return lambda row: _plain(getattr(row.record, name))


def _of_sampling(name: str) -> _Take:
    return lambda row: _plain(getattr(row.record.sampled_with, name))


def _of_group(name: str) -> _Take:
    return lambda row: None if row.group is None else getattr(row.group, name)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [str(x) for x in value]
    return plain_text(str(value)) if isinstance(value, str) else value


_S, _I, _L, _F, _B = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()

# name, type, nullable, where from; the per-token lists are built apart, from their arrays
_COLUMNS: tuple[tuple[str, pa.DataType, bool, _Take | None], ...] = (
    ("datum_id", _S, False, lambda row: datum_id(row.datum)),
    ("episode_id", _S, False, _of_record("episode_id")),
    ("trial_name", _S, False, _of_record("trial_name")),
    ("step_name", _S, True, _of_record("step_name")),
    ("step_index", _I, True, _of_record("step_index")),
    ("task_id", _S, True, _of_record("task_id")),
    ("group_id", _S, False, _of_record("group_id")),
    ("group_expected", _I, True, _of_record("group_expected")),
    ("attempt", _I, True, _of_record("attempt")),
    ("job", _S, True, _of_record("job")),
    ("agent_name", _S, True, _of_record("agent_name")),
    ("model_name", _S, True, _of_record("model_name")),
    ("segment", _I, False, lambda row: row.datum.segment),
    ("fragment_index", _I, False, lambda row: row.datum.fragment_index),
    ("n_fragments", _I, False, lambda row: row.n_fragments),
    ("token_ids", _list(_I), False, None),
    ("loss_mask", _list(_B), False, None),
    ("sampled_logprobs", _list(_F, nullable=True), False, None),
    ("advantages", _list(_F), True, None),
    ("teacher_logprobs", _list(_F, nullable=True), True, lambda row: None),
    ("call_starts", _list(_I), False, lambda row: list(row.datum.call_starts)),
    ("call_lengths", _list(_I), False, lambda row: list(row.datum.call_lengths)),
    ("reward", _F, True, _of_record("reward")),
    ("trial_reward", _F, True, _of_record("trial_reward")),
    ("reward_valid", _B, True, _of_record("reward_valid")),
    ("passed", _B, True, _of_record("passed")),
    ("group_size", _I, True, _of_group("size")),
    ("group_measured", _I, True, _of_group("measured")),
    ("group_mean", _F, True, _of_group("mean")),
    ("group_std", _F, True, _of_group("std")),
    ("stop_reason", _S, False, lambda row: str(row.record.stop_reason or "unknown")),
    ("completion", _S, False, _of_record("completion")),
    ("break_cause", _S, True, lambda row: _plain(row.datum.break_cause)),
    ("break_position", _I, True, lambda row: row.datum.break_position),
    ("weight", _F, False, lambda row: row.weight),
    ("teacher", _S, True, lambda row: None),
    ("routed_experts", _EXPERTS, True, lambda row: None),
    ("temperature", _F, True, _of_sampling("temperature")),
    ("top_p", _F, True, _of_sampling("top_p")),
    ("top_k", _I, True, _of_sampling("top_k")),
    ("logprob_mode", _S, False, _of_sampling("logprob_mode")),
    ("policy_version", _S, True, _of_sampling("policy_version")),
    ("train_step", _L, True, _of_sampling("train_step")),
    ("tokenizer", _S, True, _of_sampling("tokenizer")),
    ("declared", _list(_S), False, _of_sampling("declared")),
    ("sampling", _S, True, _of_sampling("sampling")),
)

DATUM_SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=nullable) for name, kind, nullable, _ in _COLUMNS],
    metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()},
)


def datum_table(rows: Sequence[Row]) -> pa.Table:
    """The rows in the declared schema; per-token lists straight from their arrays."""
    datums = [row.datum for row in rows]
    lists: dict[str, Sequence[NDArray[Any] | None]] = {
        "token_ids": [datum.token_ids for datum in datums],
        "loss_mask": [datum.loss_mask for datum in datums],
        "sampled_logprobs": [_recorded(datum) for datum in datums],
        "advantages": [datum.advantages for datum in datums],
    }
    arrays = []
    for name, kind, _, take in _COLUMNS:
        if take is None:
            values = joined(lists[name], kind.value_type.to_pandas_dtype())
            arrays.append(list_array(lists[name], pa.array(values, from_pandas=True), kind))
        else:
            arrays.append(pa.array([take(row) for row in rows], kind))
    return pa.Table.from_arrays(arrays, schema=DATUM_SCHEMA)


def _recorded(datum: TrainDatum) -> NDArray[np.float64]:
    """Log-probabilities as on disk: null, here NaN, where nothing is trained."""
    return np.where(datum.loss_mask, datum.sampled_logprobs, np.nan)
