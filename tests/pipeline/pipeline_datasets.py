"""What a dataset holds, read without the code under test where that is possible."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from wmo_distill.pipeline.build import Summary
from wmo_distill.pipeline.reading import Limits
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.verify import verify

SMALL = Limits(part_bytes=3000, part_trials=3)


def ledger(out: Path) -> dict[str, dict[str, Any]]:
    rows = pq.read_table(out / "ledger.parquet").to_pylist()
    return {row["path"]: row for row in rows}


def rows(out: Path, *columns: str) -> list[Any]:
    """The named columns of every row, in the order of the manifest's parts."""
    found = []
    for part in read_manifest(out).parts:
        for row in pq.read_table(out / part.file, columns=list(columns)).to_pylist():
            found.append(tuple(row.values()) if len(columns) > 1 else row[columns[0]])
    return found


def balanced(out: Path, summary: Summary) -> None:
    """Every invariant that a dataset must obey."""
    assert verify(out) == []
    assert summary.found == summary.written + sum(summary.skipped.values())
    assert summary.calls_found == summary.calls + sum(summary.calls_dropped.values())
    assert summary.found == len(ledger(out))
    assert summary.records == len(rows(out, "episode_id"))
    assert {p.name for p in out.iterdir()} == {"manifest.json", "ledger.parquet", "parts"}
