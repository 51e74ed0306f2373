"""Scores the sequences of datum shards: each once, in parallel, retried, resumable."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.arrays import Ids
from wmo_distill.datums.dataset import datum_parts, iter_datums
from wmo_distill.datums.manifest import read_datum_manifest
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.progress import Listener, Progress
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.calls import Calls
from wmo_distill.scorers.options import ScoreOptions
from wmo_distill.scorers.scorer import Needed, Score, ScoreError, ScoreFault, Scorer

PART_TOKENS = 2_000_000
"""Scores are put on disk in parts of at most so many values."""


class ScorePlan(BaseModel):
    """What there is to score; equal sequences are scored once."""

    model_config = ConfigDict(frozen=True)

    datums: int
    sequences: int
    cached: int
    requests: int
    tokens: int
    """Of the requests, prompt and completion together: what the teacher reads."""
    longest: int
    cost: float | None = None
    """In the currency of the price that was given for a million tokens."""


class ScoreSummary(BaseModel):
    """requests == scored + repeated + all faults; in a file of answers a request is a line."""

    model_config = ConfigDict(frozen=True)

    teacher: str
    sequences: int = 0
    cached: int = 0
    requests: int = 0
    scored: int = 0
    repeated: int = 0
    """Further answers that say the same."""
    tokens: int = 0
    faults: dict[ScoreFault, int] = Field(default_factory=dict)
    first_found: dict[ScoreFault, str] = Field(default_factory=dict)
    """For each fault what was found the first time."""


def plan_scores(
    datums: Path | str,
    cache: ScoreCache,
    teacher: str,
    *,
    top_k: int = 0,
    price: float | None = None,
) -> ScorePlan:
    """What `score_datums` would ask for; `price` is for a million tokens."""
    datums = Path(datums)
    total = read_datum_manifest(datums).summary.stats.datums
    missing = Missing(datums, cache, teacher, top_k)
    tokens = [ids.size for _, ids, _ in missing]
    asked = sum(tokens)
    return ScorePlan(
        datums=total,
        sequences=missing.cached + len(tokens),
        cached=missing.cached,
        requests=len(tokens),
        tokens=asked,
        longest=max(tokens, default=0),
        cost=None if price is None else asked / 1e6 * price,
    )


def score_datums(
    datums: Path | str,
    cache: ScoreCache,
    scorer: Scorer,
    teacher: str,
    options: ScoreOptions | None = None,
    *,
    progress: Listener | None = None,
    **changes: Any,
) -> ScoreSummary:
    """Fill `cache` with the teacher's scores of the sequences that have none.

    `changes` are fields of `ScoreOptions`.
    At most `concurrency` calls run at once; a sequence whose scorer is unavailable is tried
    `attempts` times, waiting from `wait` seconds on. It may be called where an event loop runs;
    `progress` is called from another thread. An interrupt ends it within 10 seconds. UsageError
    where the tokenizers are known to differ; DistillError once nothing is available any more.
    Whatever ends it, all scores so far are kept.
    """
    options = ScoreOptions.of(options, **changes)
    top_k = options.top_k
    datums = Path(datums)
    total = read_datum_manifest(datums).summary.stats.datums
    refuse_other_tokenizer(datums, scorer.tokenizer)
    missing = Missing(datums, cache, teacher, top_k)
    run = _Run(ScoreParts(cache, teacher, top_k))

    def take(sequence: tuple[str, int], answer: Score | ScoreError) -> None:
        run.settle(*sequence, answer)
        if progress is not None:
            found = {"scored": run.scored} | {str(fault): n for fault, n in run.faults.items()}
            progress(
                Progress(
                    done=missing.cached + run.requests,
                    total=total,
                    unit="sequences",
                    outcomes=found | {"cached": missing.cached},
                )
            )

    asked = (((name, ids.size), ids, needed) for name, ids, needed in missing)
    with cache.writing():
        calls = Calls(scorer, options.concurrency, options.attempts, options.wait)
        calls.make(asked, top_k, take, run.parts.close)
    return ScoreSummary(
        teacher=teacher,
        sequences=missing.cached + run.requests,
        cached=missing.cached,
        requests=run.requests,
        scored=run.scored,
        tokens=run.tokens,
        faults=run.faults,
        first_found=run.first_found,
    )


class ScoreParts:
    """Scores of one teacher wait here until they are enough for a part of the cache."""

    def __init__(self, cache: ScoreCache, teacher: str, top_k: int) -> None:
        self._cache, self._teacher, self._top_k = cache, teacher, top_k
        self._begin()

    def _begin(self) -> None:
        self._waiting: list[tuple[str, Score, int]] = []
        self._values = 0

    def add(self, name: str, score: Score) -> None:
        self._waiting.append((name, score, self._top_k))
        self._values += score.logprobs.size * (1 + 2 * self._top_k)
        if self._values >= PART_TOKENS:
            self.close()

    def close(self) -> None:
        """Put what waits on disk."""
        self._cache.add(self._teacher, self._waiting)
        self._begin()


@dataclass(slots=True)
class _Run:
    """What came of the calls so far."""

    parts: ScoreParts
    requests: int = 0
    scored: int = 0
    tokens: int = 0
    faults: dict[ScoreFault, int] = field(default_factory=dict)
    first_found: dict[ScoreFault, str] = field(default_factory=dict)
    _in_vain: int = 0

    def settle(self, name: str, tokens: int, answer: Score | ScoreError) -> None:
        self.requests += 1
        if isinstance(answer, ScoreError):
            self._fault(answer)
            return
        self._in_vain = 0
        self.scored += 1
        self.tokens += tokens
        self.parts.add(name, answer)

    def _fault(self, error: ScoreError) -> None:
        self.faults[error.fault] = self.faults.get(error.fault, 0) + 1
        self.first_found.setdefault(error.fault, str(error))
        # Refused from the first on is a wrong model's name, not a sequence that is too long.
        refused = error.fault is ScoreFault.REFUSED and not self.scored
        in_vain = error.fault is ScoreFault.UNAVAILABLE or refused
        self._in_vain = self._in_vain + 1 if in_vain else 0
        if self._in_vain >= _GONE:
            raise DistillError(
                f"scorer: expected an answer, found none in the last {self._in_vain} requests "
                f"({error}); {self.scored:,} scores are kept: see to the server and run it again"
            )


# So many requests without an answer, each with all its retries: the server is gone.
_GONE = 16


class Missing:
    """The sequences without a score, each once, in order; those of one token have none to get.

    Of rows that share their ids, the first one's loss mask says which tokens are needed; a score
    that lacks a token that another row trains is asked for again by the next run.
    """

    def __init__(self, datums: Path, cache: ScoreCache, teacher: str, top_k: int) -> None:
        self._datums, self._cache, self._teacher, self._top_k = datums, cache, teacher, top_k
        self.cached = 0
        """Sequences passed by so far because they have one."""

    def __iter__(self) -> Iterator[tuple[str, Ids, Needed]]:
        seen: set[str] = set()
        had: set[str] = set()
        for row in iter_datums(self._datums):
            name = row.datum_id
            if name in seen or row.datum.token_ids.size < 2:
                continue
            needed = row.datum.loss_mask
            if self._cache.has(name, self._teacher, self._top_k, needed):
                if name not in had:
                    had.add(name)
                    self.cached += 1
                continue
            if name in had:
                had.remove(name)
                self.cached -= 1
            seen.add(name)
            yield name, row.datum.token_ids, needed


def refuse_other_tokenizer(datums: Path, tokenizer: str | None) -> None:
    """UsageError where both tokenizers are known and differ."""
    if tokenizer is None:
        return

    def of_batch(batch: pa.RecordBatch) -> list[str | None]:
        names: list[str | None] = batch.column("tokenizer").unique().to_pylist()
        return names

    parts = datum_parts(datums)
    known = {name for part in parts for name in part.read(["tokenizer"], of_batch) if name}
    others = sorted(known - {tokenizer})
    if others:
        raise UsageError(
            f"{datums}: expected ids of the teacher's tokenizer {tokenizer!r}, "
            f"found {', '.join(map(repr, others))}; ids of one mean nothing to the other: "
            "use a teacher of the same tokenizer"
        )
