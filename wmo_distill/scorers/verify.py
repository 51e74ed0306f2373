"""Checks a score cache against its manifest, and the lists of every score against each other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wmo_distill.outputs.faults import Fault
from wmo_distill.outputs.manifest import PartFile
from wmo_distill.outputs.settled import settled
from wmo_distill.progress import Listener
from wmo_distill.scorers.cache import SCORE_SCHEMA, SCORES
from wmo_distill.shards.faults import batch_faults


@settled
def verify_scores(cache: Path, progress: Listener | None) -> list[Fault]:
    """Every fault found; UsageError where there is no manifest to check against."""
    parts = SCORES.read(cache, sealed=False).parts
    return list(SCORES.faults(cache, parts, lambda part: _row_faults(cache, part), progress))


def _row_faults(cache: Path, part: PartFile) -> Iterator[Fault]:
    def check(batch: pa.RecordBatch, first: int) -> Iterator[Fault]:
        for at, row in enumerate(batch.to_pylist(), first):
            for expected, found in _breaches(row):
                yield Fault(part.file, at, expected, found)

    return batch_faults(cache, part, SCORE_SCHEMA, check)


def _breaches(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    logprobs = np.array(row["logprobs"], np.float64)
    if not logprobs.size or not np.isnan(logprobs[0]):
        yield "no number at the first token", str(row["logprobs"][:1])
    if np.isinf(logprobs).any() or (logprobs > 0).any():
        yield "finite log-probabilities of at most 0", str(np.nanmax(logprobs))
    gaps = (np.flatnonzero(np.isnan(logprobs[1:])) + 1).tolist() or None
    if row["missing"] != gaps:
        yield f"missing {gaps}, where there is no number", str(row["missing"])
    counts, ids, tops = row["top_counts"], row["top_ids"], row["top_logprobs"]
    if (counts is None) != (ids is None) or (counts is None) != (tops is None):
        yield "candidates with ids, log-probabilities and counts", "some of the three"
    elif counts is not None:
        sizes = (len(counts), len(ids), len(tops))
        wanted = (logprobs.size, sum(counts), sum(counts))
        if sizes != wanted:
            yield f"{wanted} counts, ids and log-probabilities of candidates", str(sizes)
