"""The datums of a dataset, streamed: one row group of records in memory."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wmo_distill.datums.advantages import with_advantages
from wmo_distill.datums.build import chat_datums
from wmo_distill.datums.datum import Account, TrainDatum
from wmo_distill.datums.groups import EpisodeGroup
from wmo_distill.datums.manifest import DatumSummary
from wmo_distill.datums.options import Baseline, DatumOptions
from wmo_distill.datums.table import Row
from wmo_distill.datums.teacher import Rescorer, Teacher
from wmo_distill.records import Sampling, TrialRecord
from wmo_distill.segment import Segment
from wmo_distill.shards.decode import SpanColumns, plain_list, secrets_of, segments_of
from wmo_distill.shards.scan import iter_batches
from wmo_distill.shards.schema import SCHEMA, SPAN

_SPANS = [f"spans.list.element.{field.name}" for field in SPAN]
_FLAT = [name for name in SCHEMA.names if name != "spans"]
# All that the filters and the builder look at; the rest goes from Arrow to Arrow.
_LOOKED_AT = (
    "episode_id", "trial_name", "step_name", "task_id", "stop_reason", "compactions",
    "completeness", "segments", "secrets", "train_step", "policy_version",
)  # fmt: skip


class Funnel:
    """Sums over records."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.account = Account()
        self.datum_tokens = 0
        self.longest_tokens = 0

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def measure(self, datums: list[TrainDatum]) -> None:
        """What breaks cost in the main chat."""
        sizes = [datum.token_ids.size for datum in datums if datum.segment == 0]
        self.datum_tokens += sum(sizes)
        self.longest_tokens += max(sizes, default=0)

    def summary(
        self,
        parts: list[str],
        teacher: Teacher | None = None,
        rescorer: Rescorer | None = None,
    ) -> DatumSummary:
        longest = self.longest_tokens
        return DatumSummary(
            **self.counts,
            expansion=self.datum_tokens / longest if longest else None,
            parts=parts,
            stats=self.account.stats(),
            teacher=None if teacher is None else teacher.sums.stats(),
            rescored=None if rescorer is None else rescorer.found,
        )


def iter_rows(
    source: Path,
    options: DatumOptions,
    groups: Mapping[str, EpisodeGroup],
    funnel: Funnel,
    teacher: Teacher | None = None,
    rescorer: Rescorer | None = None,
    *,
    newest: int | None = None,
) -> Iterator[list[Row]]:
    """For each record that counts, in order, its datums; `funnel` grows by what became of it.

    `newest` is the newest training step of the dataset, for `max_staleness`.
    """
    wanted = [name for name in _SPANS if options.routed_experts or not name.endswith(".extra")]

    def of_batch(batch: pa.RecordBatch) -> Iterator[list[Row]]:
        spans = SpanColumns.of(batch.column("spans"))
        flat = batch.select(_FLAT)
        columns = {name: plain_list(flat.column(name)) for name in _LOOKED_AT}
        for at in range(batch.num_rows):
            record, chats = (
                _record({k: column[at] for k, column in columns.items()}),
                spans.chats(at),
            )
            group = groups[record.episode_id]
            rows = _rows(record, chats, (flat, at), group, options, funnel, newest)
            if teacher is not None:
                rows = [_taught(row, teacher) for row in rows]
            if rescorer is not None:
                rows = [replace(row, datum=rescorer.put(row.datum)) for row in rows]
            yield rows

    return iter_batches(source, [*_FLAT, *wanted], of_batch)


def _record(values: dict[str, Any]) -> TrialRecord:
    """What the builder looks at, without its calls."""
    sampled_with = Sampling(
        train_step=values.pop("train_step"), policy_version=values.pop("policy_version")
    )
    segments = segments_of(values.pop("segments"))
    secrets = secrets_of(values.pop("secrets"))
    return TrialRecord(**values, segments=segments, secrets=secrets, sampled_with=sampled_with)


def _rows(
    record: TrialRecord,
    chats: Mapping[int, Segment],
    source: tuple[pa.RecordBatch, int],
    group: EpisodeGroup,
    options: DatumOptions,
    funnel: Funnel,
    newest: int | None,
) -> list[Row]:
    funnel.count("records")
    chosen = group.chosen
    if not options.wants(record.task_id, measured=chosen.measured, passed=chosen.passed):
        funnel.count("filtered")
        return []
    if not group.selected:
        funnel.count("unselected")
        return []
    if not any(chat.n_sampled for chat in chats.values()):
        funnel.count("without_tokens")
        return []
    if group.dropped:
        funnel.count("dropped_groups")
        return []
    if any(chat.sampled_logprobs.flat.size for chat in chats.values()):
        funnel.count("with_logprobs")
    datums = chat_datums(record, chats, options, funnel.account, newest)
    funnel.measure(datums)
    if datums and chosen.unknown_return:
        funnel.count("unknown_returns")
    if group.advantage is not None:
        part = group.advantage
        datums = [with_advantages(datum, np.full(datum.loss_tokens, part)) for datum in datums]
    elif options.advantages is not Baseline.NONE and datums:
        funnel.count("without_advantage")
        if chosen.measured:
            funnel.count("small_groups")
    trained = sum(datum.loss_tokens for datum in datums)
    weight = 1.0 / trained if options.normalize == "sequence" and trained else 1.0
    return [Row(datum, *source, group, len(datums), weight) for datum in datums]


def _taught(row: Row, teacher: Teacher) -> Row:
    datum = teacher.score(row.datum)
    scored = datum.teacher_logprobs is not None
    return replace(row, datum=datum, teacher=teacher.name if scored else None)
