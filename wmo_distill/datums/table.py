"""The columns of datum shards: one row a sequence, flat, unshifted, readable without our code."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.arrays import Lists
from wmo_distill.datums.datum import TrainDatum
from wmo_distill.datums.experts import packed
from wmo_distill.datums.groups import EpisodeGroup
from wmo_distill.datums.manifest import SCHEMA_VERSION
from wmo_distill.shards.columns import (
    BOOL,
    FLOAT,
    IDS,
    INT32,
    LOGPROBS,
    TEXT,
    Column,
    column,
    columns_table,
    list_of,
    schema_of,
)
from wmo_distill.shards.encode import versions
from wmo_distill.shards.lists import list_column
from wmo_distill.shards.schema import COLUMNS, VERSIONS, Group

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


_Take = Callable[[Row], Any]


def _experts(row: Row) -> dict[str, Any] | None:
    experts = row.datum.routed_experts
    return None if experts is None else packed(experts)


_EXPERTS = pa.struct(
    [pa.field("data", pa.binary()), pa.field("shape", IDS), pa.field("dtype", TEXT)]
)
_FLOATS = list_of(FLOAT)
_RECORD, _TOKENS = "record", "tokens"
_OF_RECORD = {c.name: c for c in COLUMNS}


def _as_in_record(*names: str) -> tuple[Column, ...]:
    return tuple(replace(_OF_RECORD[name], group=_RECORD) for name in names)


def _per_token(*columns: Column) -> tuple[Column, ...]:
    return tuple(replace(column, group=_TOKENS) for column in columns)


# The group says where a value is from: the record's column of that name, the arrays of the datum
# or `_TAKE`, below.
DATUM_COLUMNS = (
    column("datum_id", TEXT, "hash of the ids: equal sequences share it, scores are kept under it"),
    *_as_in_record(
        "episode_id", "trial_name", "step_name", "step_index", "task_id", "group_id",
        "group_expected", "attempt", "job", "agent_name", "model_name",
    ),
    column("segment", INT32, "0 is the main chat"),
    column("fragment_index", INT32, "from 0 within the segment"),
    column("n_fragments", INT32, "sequences of the episode, all segments"),
    *_per_token(
        column("token_ids", IDS, "context and sampled ids"),
        column("loss_mask", list_of(BOOL), "true where trained"),
        column("sampled_logprobs", LOGPROBS,
            "null where not trained, and in a supervised build where none was recorded; "
            "`iter_datums` gives 0.0 and NaN"),
        column("advantages?", _FLOATS, "0 where not trained; null where there are none"),
        column("teacher_logprobs?", LOGPROBS, "of every token but the first, which is null"),
        column("rescored_logprobs?", LOGPROBS,
            "with `--rescored`: the student's own, asked again, of every token but the first; "
            "exp(rescored - recorded) is a token's importance weight"),
    ),
    column("call_starts", IDS, "where each sampled run begins, trained or not"),
    column("call_lengths", IDS, "how long each of these runs is"),
    column("finish_reasons", list_of(TEXT, nullable=True),
        "why each of these calls ended, in the provider's words; an element is null where none was "
        "recorded"),
    column("versions?", VERSIONS,
        "runs of one policy version: from the sampled token at position `start` on; null where "
        "`policy_version` says it for all, and where it is not known of some"),
    column("ends_chat", BOOL,
        "the last recorded call of the episode's main chat is in this sequence"),
    column("reward?", FLOAT,
        "the one that `--reward` chose, on which the episode trains and which exports carry; null "
        "where a return is not known"),
    column("reward_valid?", BOOL,
        "whether that reward counts; measured is a reward with true here"),
    column("passed?", BOOL,
        "the record's own; with `--reward trial` whether the trial's reward passes, by the build's "
        "`--pass-at`"),
    column("step_reward?", FLOAT, "the record's own reward, whatever was chosen"),
    *_as_in_record("trial_reward"),
    column("group_size?", INT32, "episodes of its `group_id` and `step_name`"),
    column("group_measured?", INT32, "those of them whose chosen reward is measured"),
    column("group_mean?", FLOAT, "of the measured rewards"),
    column("group_std?", FLOAT, "of these, with n - 1; null below two"),
    *_as_in_record("stop_reason", "completion"),
    column("break_cause?", TEXT, "why it is not the sequence before, gone on"),
    column("break_position?", INT32,
        "leading ids that its first prompt shares with what came before"),
    column("weight", FLOAT, "1, or with `--normalize sequence` 1 / the episode's trained tokens"),
    column("teacher?", TEXT, "whose `teacher_logprobs` they are"),
    column("routed_experts?", _EXPERTS,
        "with `--routed-experts`: [tokens - 1, layers, experts a token], little-endian"),
    *_as_in_record(*(c.name for c in COLUMNS if c.group == Group.SAMPLING)),
)  # fmt: skip
_TAKE: dict[str, _Take] = {
    "datum_id": lambda row: datum_id(row.datum),
    "reward": lambda row: row.group.chosen.reward,
    "reward_valid": lambda row: row.group.chosen.valid,
    "passed": lambda row: row.group.chosen.passed,
    "step_reward": lambda row: row.group.chosen.step_reward,
    "group_size": lambda row: row.group.size,
    "group_measured": lambda row: row.group.measured,
    "group_mean": lambda row: row.group.mean,
    "group_std": lambda row: row.group.std,
    "routed_experts": _experts,
    "versions": lambda row: versions(row.datum.versions),
    **{name: attrgetter(name) for name in ("n_fragments", "weight", "teacher")},
}

DATUM_SCHEMA = schema_of(DATUM_COLUMNS, VERSION_KEY, SCHEMA_VERSION)
PER_TOKEN = tuple(c.name for c in DATUM_COLUMNS if c.group == _TOKENS)
RECORD_COLUMNS = tuple(c.name for c in DATUM_COLUMNS if c.group == _RECORD)


def datum_columns_table() -> str:
    """The columns as Markdown: a table of those that a record has not, and the others' names."""
    own = [c for c in DATUM_COLUMNS if c.group != _RECORD]
    names = ", ".join(f"`{name}`" for name in RECORD_COLUMNS)
    return f"{columns_table(own)}\n\nAs in the record: {names}."


def datum_table(rows: Sequence[Row]) -> pa.Table:
    """The rows in the declared schema; per-token lists straight from their arrays."""
    records = _records(rows)
    lists = _token_lists([row.datum for row in rows])
    arrays = []
    for c in DATUM_COLUMNS:
        if c.group == _RECORD:
            arrays.append(records.column(c.name))
        elif c.group == _TOKENS:
            arrays.append(lists[c.name])
        else:
            take = _TAKE.get(c.name) or attrgetter(f"datum.{c.name}")
            arrays.append(pa.array(map(take, rows), c.type))
    return pa.Table.from_arrays(arrays, schema=DATUM_SCHEMA)


def _records(rows: Sequence[Row]) -> pa.Table:
    """For each row its record's columns."""
    tables = []
    for _, run in groupby(rows, key=lambda row: id(row.source)):
        same = list(run)
        batch = same[0].source.select(list(RECORD_COLUMNS))
        tables.append(pa.Table.from_batches([batch]).take(pa.array([row.at for row in same])))
    return pa.concat_tables(tables).combine_chunks()


def _token_lists(datums: Sequence[TrainDatum]) -> dict[str, pa.Array]:
    types = {c.name: c.type for c in DATUM_COLUMNS}
    ids = Lists.of([datum.token_ids for datum in datums], np.int32)
    starts = pa.array(ids.starts)
    mask = Lists.of([datum.loss_mask for datum in datums], np.bool_).flat
    logprobs = Lists.of([datum.sampled_logprobs for datum in datums], np.float64).flat
    recorded = mask if not np.isnan(logprobs).any() else mask & ~np.isnan(logprobs)

    def lists(name: str, values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(starts, values, type=types[name])

    def floats(name: str) -> pa.Array:
        rows = Lists.of([getattr(datum, name) for datum in datums], np.float64)
        return list_column([rows], pa.array(rows.flat, from_pandas=True), types[name])

    return {
        "token_ids": lists("token_ids", pa.array(ids.flat)),
        "loss_mask": lists("loss_mask", _bits(mask)),
        "sampled_logprobs": lists("sampled_logprobs", _floats(logprobs, recorded)),
        **{n: floats(n) for n in ("advantages", "teacher_logprobs", "rescored_logprobs")},
    }


def _packed(bits: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def _bits(values: NDArray[np.bool_]) -> pa.Array:
    return pa.Array.from_buffers(BOOL, values.size, [None, _packed(values)])


def _floats(values: NDArray[np.float64], present: NDArray[np.bool_]) -> pa.Array:
    return pa.Array.from_buffers(FLOAT, values.size, [_packed(present), pa.py_buffer(values)])
