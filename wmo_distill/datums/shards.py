"""Datum shards: the training sequences of a dataset, streamed into Parquet parts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.datums.build import record_datums
from wmo_distill.datums.datum import Account, DatumStats, TrainDatum
from wmo_distill.datums.groups import COLUMNS, EpisodeGroup, episode_groups
from wmo_distill.datums.options import Baseline, DatumOptions
from wmo_distill.datums.table import DATUM_SCHEMA, SCHEMA_VERSION, Row, datum_table
from wmo_distill.errors import UsageError
from wmo_distill.files import Absent, parse_json, whole_file
from wmo_distill.records import TrialRecord
from wmo_distill.shards.manifest import read_manifest, tool_version
from wmo_distill.shards.scan import iter_records, scan
from wmo_distill.shards.writer import parquet_writer

KIND = "wmo-distill datums"
MANIFEST = "manifest.json"
GROUP_TOKENS = 1_000_000
PART_TOKENS = 64_000_000


class DatumSummary(BaseModel):
    """The funnel from records to datums, and what was lost on the way; tokens are sampled ones.

    records == filtered + without_tokens + dropped_groups + the records that `stats` speaks of.
    """

    model_config = ConfigDict(frozen=True)

    records: int = 0
    filtered: int = 0
    without_tokens: int = 0
    dropped_groups: int = 0
    with_logprobs: int = 0
    without_advantage: int = 0
    expansion: float | None = None
    parts: list[str] = Field(default_factory=list)
    stats: DatumStats = DatumStats()


def build_datum_shards(
    source: Path | str,
    out: Path | str,
    options: DatumOptions = DatumOptions(),  # noqa: B008 - frozen
    *,
    progress: Callable[[int, int], None] | None = None,
) -> DatumSummary:
    """Write the datums of the dataset in `source` to `out`, replacing those of an earlier build.

    One record and one row group are in memory. UsageError for a source that is no dataset, or an
    `out` that is something else.
    """
    source, out = Path(source), Path(out)
    manifest = read_manifest(source)
    old = _old_parts(out)
    rows = scan(source).select(COLUMNS).collect().to_dicts()
    groups = episode_groups(rows, options)
    writer = _Parts(out, _next_number(old))
    funnel = _Funnel()
    for number, record in enumerate(iter_records(source)):
        writer.add(_rows(record, groups.get(record.episode_id), options, funnel))
        if progress is not None:
            progress(number + 1, len(rows))
    parts = writer.close()
    summary = funnel.summary(parts)
    told = {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "tool_version": tool_version(),
        "source": manifest.dataset_hash,
        "options": options.model_dump(mode="json"),
        "parts": parts,
        "summary": summary.model_dump(mode="json"),
    }
    with whole_file(out / MANIFEST) as temporary:
        temporary.write_text(json.dumps(told, indent=1) + "\n")
    for name in old:
        (out / name).unlink(missing_ok=True)
    return summary


class _Funnel:
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

    def summary(self, parts: list[str]) -> DatumSummary:
        longest = self.longest_tokens
        return DatumSummary(
            **self.counts,
            expansion=self.datum_tokens / longest if longest else None,
            parts=parts,
            stats=self.account.stats(),
        )


def _rows(
    record: TrialRecord, group: EpisodeGroup | None, options: DatumOptions, funnel: _Funnel
) -> list[Row]:
    funnel.count("records")
    if not options.wants(record):
        funnel.count("filtered")
        return []
    if not any(span.sampled.size for span in record.spans):
        funnel.count("without_tokens")
        return []
    if group is not None and group.dropped:
        funnel.count("dropped_groups")
        return []
    if any(span.sampled_logprobs is not None and span.sampled.size for span in record.spans):
        funnel.count("with_logprobs")
    datums = record_datums(record, options.rules(), funnel.account)
    funnel.measure(datums)
    advantage = None if group is None else group.advantage
    if advantage is not None:
        datums = [_advantaged(datum, advantage) for datum in datums]
    elif options.advantages is not Baseline.NONE and datums:
        funnel.count("without_advantage")
    trained = sum(datum.loss_tokens for datum in datums)
    weight = 1.0 / trained if options.normalize == "sequence" and trained else 1.0
    return [Row(datum, record, group, len(datums), weight) for datum in datums]


def _advantaged(datum: TrainDatum, advantage: float) -> TrainDatum:
    """The same advantage at every loss token, 0 elsewhere."""
    return replace(datum, advantages=np.where(datum.loss_mask, advantage, 0.0))


class _Parts:
    """Writes rows into numbered parts of bounded size, each of which appears whole."""

    def __init__(self, out: Path, number: int) -> None:
        self._out, self._number = out, number
        self._waiting: list[Row] = []
        self._waiting_tokens = self._part_tokens = 0
        self._writer: pq.ParquetWriter | None = None
        self._file: Any = None
        self.names: list[str] = []
        (out / "parts").mkdir(parents=True, exist_ok=True)

    def add(self, rows: list[Row]) -> None:
        for row in rows:
            tokens = row.datum.token_ids.size
            if self._waiting and self._waiting_tokens + tokens > GROUP_TOKENS:
                self._flush()
            self._waiting.append(row)
            self._waiting_tokens += tokens

    def close(self) -> list[str]:
        self._flush()
        if not self.names:
            self._open()
        self._finish()
        return self.names

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            name = f"parts/datums-{self._number:05d}.parquet"
            self._number += 1
            self._file = whole_file(self._out / name)
            self._writer = parquet_writer(self._file.__enter__(), DATUM_SCHEMA)
            self.names.append(name)
        return self._writer

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._part_tokens + self._waiting_tokens > PART_TOKENS:
            self._finish()
        self._open().write_table(datum_table(self._waiting), row_group_size=len(self._waiting))
        self._part_tokens += self._waiting_tokens
        self._waiting, self._waiting_tokens = [], 0

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._file.__exit__(None, None, None)
        self._writer, self._part_tokens = None, 0


def _old_parts(out: Path) -> list[str]:
    """The parts of an earlier build in `out`."""
    if not out.exists():
        return []
    if not out.is_dir():
        raise UsageError(f"{out}: expected a directory for datums, found a file; name another")
    if not any(out.iterdir()):
        return []
    path = out / MANIFEST
    value = parse_json(path.read_bytes()) if path.is_file() else Absent.MISSING
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise UsageError(
            f"{out}: expected an empty directory or datums of an earlier build, "
            "found something else; name another directory"
        )
    return [str(name) for name in value.get("parts", [])]


def _next_number(old: list[str]) -> int:
    numbers = [int(name.rsplit("-", 1)[1].split(".")[0]) for name in old]
    return max(numbers, default=-1) + 1
