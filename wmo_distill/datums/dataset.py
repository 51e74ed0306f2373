"""Datum shards read back: sequences, each with the other columns of its row."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wmo_distill.datums.datum import BreakCause, TrainDatum
from wmo_distill.datums.experts import unpacked
from wmo_distill.datums.manifest import DATUMS, read_datum_manifest
from wmo_distill.datums.table import DATUM_SCHEMA, PER_TOKEN
from wmo_distill.outputs.stored import Stored
from wmo_distill.shards.decode import runs_of, word_of

_APART = (*PER_TOKEN, "call_starts", "call_lengths", "finish_reasons", "versions", "routed_experts")
_PLAIN = tuple(name for name in DATUM_SCHEMA.names if name not in _APART)
_OF_DATUM = tuple(
    f.name for f in fields(TrainDatum) if f.name in _PLAIN and f.name != "break_cause"
)
_OF_ROW = tuple(name for name in _PLAIN if name not in _OF_DATUM and name != "break_cause")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DatumRow:
    """One row of datum shards: the sequence, and the columns that are not of it.

    Their meanings are those of `DATUM_COLUMNS`.
    """

    datum: TrainDatum
    datum_id: str
    step_index: int | None
    task_id: str | None
    group_id: str
    group_expected: int | None
    attempt: int | None
    job: str | None
    agent_name: str | None
    model_name: str | None
    n_fragments: int
    reward: float | None
    reward_valid: bool | None
    passed: bool | None
    step_reward: float | None
    trial_reward: float | None
    group_size: int | None
    group_measured: int | None
    group_mean: float | None
    group_std: float | None
    stop_reason: str
    completion: str
    weight: float
    teacher: str | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    logprob_mode: str
    policy_version: str | None
    policy_versions: list[str]
    train_step: int | None
    tokenizer: str | None
    declared: list[str]
    sampling: str | None


def iter_datums(datums: Path | str) -> Iterator[DatumRow]:
    """The rows in the order of the parts, one row group in memory.

    UsageError where `datums` holds no datum shards.
    """
    datums = Path(datums)
    for part in datum_parts(datums):
        yield from part.read(None, rows_of)


def datum_parts(datums: Path) -> list[Stored]:
    """The parts of datum shards, to read from."""
    return [DATUMS.stored(datums, p, DATUM_SCHEMA) for p in read_datum_manifest(datums).parts]


def rows_of(batch: pa.RecordBatch) -> Iterator[DatumRow]:
    """The rows of a batch of `DATUM_SCHEMA`."""
    lists = {name: _lists(batch.column(name)) for name in PER_TOKEN}
    plain = {name: batch.column(name).to_pylist() for name in _PLAIN}
    starts = batch.column("call_starts").to_pylist()
    lengths = batch.column("call_lengths").to_pylist()
    reasons = batch.column("finish_reasons").to_pylist()
    runs = batch.column("versions").to_pylist()
    experts = batch.column("routed_experts").to_pylist()
    for at in range(batch.num_rows):
        mask, logprobs = lists["loss_mask"][at], lists["sampled_logprobs"][at]
        cause = plain["break_cause"][at]
        yield DatumRow(
            datum=TrainDatum(
                token_ids=lists["token_ids"][at],
                loss_mask=mask,
                sampled_logprobs=np.where(mask, logprobs, 0.0),
                call_starts=tuple(starts[at]),
                call_lengths=tuple(lengths[at]),
                finish_reasons=tuple(reasons[at]),
                versions=None if runs[at] is None else runs_of(runs[at]),
                break_cause=None if cause is None else word_of(BreakCause, cause),
                advantages=lists["advantages"][at],
                teacher_logprobs=lists["teacher_logprobs"][at],
                rescored_logprobs=lists["rescored_logprobs"][at],
                routed_experts=None if experts[at] is None else unpacked(experts[at]),
                **{name: plain[name][at] for name in _OF_DATUM},
            ),
            **{name: plain[name][at] for name in _OF_ROW},
        )


def _lists(column: pa.ListArray) -> list[Any]:
    """For each row its array, None where the list is null; null elements become NaN."""
    values = column.values.to_numpy(zero_copy_only=False)
    edges = column.offsets.to_numpy()
    present = column.is_valid().to_numpy(zero_copy_only=False)
    return [
        values[start:end] if there else None
        for start, end, there in zip(edges[:-1], edges[1:], present, strict=True)
    ]
