"""A sample of sequences scored again by the student's own server, and compared with the records."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.datums.dataset import DatumRow, iter_datums
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.scorers.compare import Finding, Verdict, find_fault
from wmo_distill.scorers.laws import Law, Tokens
from wmo_distill.scorers.run import one_score, refuse_other_tokenizer
from wmo_distill.scorers.scorer import Score, ScoreError, ScoreFault, Scorer

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


class CheckReport(BaseModel):
    """`difference` is recorded - rescored, over trained tokens."""

    model_config = ConfigDict(frozen=True)

    verdict: Verdict
    sequences: int
    tokens: int
    mean_abs_difference: float
    mean_difference: float
    quantiles: dict[str, float]
    claimed: str
    """How the rows say that the tokens were sampled, and their log-probabilities taken."""
    fitted: str | None = None
    """What explains the records, where a temperature or a filter does."""
    shift: int = 0
    faults: dict[ScoreFault, int] = Field(default_factory=dict)
    """Sequences that could not be scored."""


def check_logprobs(
    datums: Path | str,
    scorer: Scorer,
    *,
    sample: int = 64,
    seed: int = 0,
    top_k: int = 20,
    tolerance: float = 0.05,
    concurrency: int = 8,
    attempts: int = 4,
    wait: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> CheckReport:
    """Score `sample` sequences again and name what is wrong with their log-probabilities.

    The scorer must answer with the model's own distribution (raw, temperature 1), which prompt
    log-probabilities are. `top_k` likeliest tokens are asked for: without them temperatures and
    filters cannot be told. UsageError for datums with nothing to check, DistillError where
    nothing could be scored.
    """
    rows = _sample(iter_datums(datums), sample, seed)
    if not rows:
        raise UsageError(
            f"{datums}: expected sequences with log-probabilities, found none; "
            "build with trials that hold them (see `wmo-distill doctor`)"
        )
    refuse_other_tokenizer(Path(datums), scorer.tokenizer)
    mode, law = _claim(rows)
    faults: dict[ScoreFault, int] = {}
    pieces: list[Tokens] = []
    runs = 0
    found = ""
    if law.top_k is not None and top_k:
        top_k = max(top_k, law.top_k)
    with ThreadPoolExecutor(concurrency) as threads:
        # A result is let go once it is taken in: the candidates of all need not be held.
        jobs = deque(
            threads.submit(one_score, scorer, row.datum.token_ids, top_k, attempts, wait)
            for row in rows
        )
        for number, row in enumerate(rows):
            try:
                pieces.append(compared(row, jobs.popleft().result(), top_k, runs))
                runs += len(row.datum.call_starts)
            except ScoreError as error:
                faults[error.fault] = faults.get(error.fault, 0) + 1
                found = found or str(error)
            except BaseException:
                for one in jobs:
                    one.cancel()
                scorer.close()
                raise
            if progress is not None:
                progress(number + 1, len(rows))
    if not pieces:
        raise DistillError(f"scorer: expected answers, found none ({found}); see to the server")
    tokens = Tokens(*(np.concatenate([getattr(p, f.name) for p in pieces]) for f in fields(Tokens)))
    finding = find_fault(tokens, law, processed=mode == "processed", tolerance=tolerance)
    return _report(finding, tokens, len(pieces), f"{law}, {mode}", faults)


def _report(
    finding: Finding, tokens: Tokens, sequences: int, claimed: str, faults: dict[ScoreFault, int]
) -> CheckReport:
    difference = tokens.recorded - tokens.rescored
    return CheckReport(
        verdict=finding.verdict,
        sequences=sequences,
        tokens=difference.size,
        mean_abs_difference=float(np.abs(difference).mean()),
        mean_difference=float(difference.mean()),
        quantiles={
            f"{share:g}": float(value)
            for share, value in zip(QUANTILES, np.quantile(difference, QUANTILES), strict=True)
        },
        claimed=claimed,
        fitted=None if finding.law is None else str(finding.law),
        shift=finding.shift,
        faults=faults,
    )


def _sample(rows: Iterator[DatumRow], n: int, seed: int) -> list[DatumRow]:
    """n rows with a trained, recorded token, each as likely as any other, in their order."""
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, DatumRow]] = []
    seen = 0
    for number, row in enumerate(rows):
        datum = row.datum
        if datum.token_ids.size < 2 or not _recorded(row).any():
            continue
        seen += 1
        if len(kept) < n:
            kept.append((number, _own(row)))
        elif (place := int(rng.integers(0, seen))) < n:
            kept[place] = number, _own(row)
    return [row for _, row in sorted(kept, key=lambda one: one[0])]


def _own(row: DatumRow) -> DatumRow:
    """The row with arrays of its own: views would keep its whole row group in memory."""
    datum = row.datum
    own = replace(
        datum,
        token_ids=datum.token_ids.copy(),
        loss_mask=datum.loss_mask.copy(),
        sampled_logprobs=datum.sampled_logprobs.copy(),
        advantages=None,
        teacher_logprobs=None,
        routed_experts=None,
    )
    return DatumRow(own, row.values)


def _recorded(row: DatumRow) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which tokens can be compared: trained, with a log-probability, and not the first."""
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = row.datum.loss_mask & np.isfinite(
        row.datum.sampled_logprobs
    )
    found[0] = False
    return found


def _claim(rows: list[DatumRow]) -> tuple[str, Law]:
    """What the rows say of their sampling; unknown counts as raw, at temperature 1."""
    claims = {
        (
            row.values["logprob_mode"],
            row.values["temperature"],
            row.values["top_k"],
            row.values["top_p"],
        )
        for row in rows
    }
    if len(claims) > 1:
        raise UsageError(
            f"datums: expected one way of sampling, found {len(claims)} "
            "(temperature, top_p, top_k, logprob_mode differ); check each dataset by itself"
        )
    ((mode, temperature, top_k, top_p),) = claims
    if temperature == 0.0:  # greedy
        return mode, Law(top_k=1)
    law = Law(
        temperature=1.0 if temperature is None else temperature,
        top_k=top_k if top_k is not None and top_k > 0 else None,
        top_p=top_p if top_p is not None and top_p < 1.0 else None,
    )
    return mode, law


def compared(row: DatumRow, score: Score, width: int, run: int) -> Tokens:
    """The tokens of a sequence that can be compared; its runs are numbered from `run` on.

    Where candidates were asked for, a token without any is left out.
    """
    datum, usable = row.datum, _recorded(row)
    if width and score.top is not None:
        usable &= np.array([bool(listed) for listed in score.top])
    opening = datum.fragment_index == 0 and datum.segment == 0
    place_of = np.full(usable.size, -1)
    for call, (start, size) in enumerate(zip(datum.call_starts, datum.call_lengths, strict=True)):
        place_of[start : start + size] = call
    usable &= place_of >= 0
    places = np.flatnonzero(usable)
    top = np.full((places.size, width if score.top is not None else 0), -np.inf)
    if score.top is not None:
        for at, place in enumerate(places.tolist()):
            values = sorted((value for _, value in score.top[place] or ()), reverse=True)[:width]
            top[at, : len(values)] = values
    return Tokens(
        datum.sampled_logprobs[places],
        score.logprobs[places],
        top,
        run + place_of[places],
        (place_of[places] == 0) & opening,
    )
