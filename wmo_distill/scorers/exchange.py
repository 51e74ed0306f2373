"""Scores by a batch job elsewhere: requests written to a file, answers read from one.

A request is a JSON line {datum_id, token_ids}. An answer is a JSON line {datum_id, logprobs},
one number a token, null for the first and where a token that is not trained has none, and
optionally `top`: for each position a list of
[token id, log-probability], or null.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson

from wmo_distill.datums.dataset import iter_datums
from wmo_distill.errors import UsageError
from wmo_distill.files import whole_file
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.run import Missing, ScoreParts, ScoreSummary
from wmo_distill.scorers.scorer import (
    Needed,
    Score,
    ScoreError,
    ScoreFault,
    candidates,
    checked,
    number,
)


def write_requests(
    datums: Path | str, cache: ScoreCache, teacher: str, file: Path | str, *, top_k: int = 0
) -> int:
    """Write what the teacher has not scored yet; gives the number of requests."""
    count = 0
    with whole_file(Path(file)) as temporary, temporary.open("wb") as lines:
        for name, ids, _ in Missing(Path(datums), cache, teacher, top_k):
            value = {"datum_id": name, "token_ids": ids, "top_k": top_k}
            lines.write(
                orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
            )
            count += 1
    return count


def read_answers(
    datums: Path | str, cache: ScoreCache, teacher: str, file: Path | str, *, top_k: int = 0
) -> ScoreSummary:
    """Take the answers that fit these datums into `cache`; the others are counted by fault.

    An answer is given to the sequence that it names, whatever the order. Two answers to one
    sequence that differ are both left out. UsageError for a file that cannot be opened.
    """
    masks: dict[str, Needed] = {}
    for row in iter_datums(datums):
        masks.setdefault(row.datum_id, row.datum.loss_mask.copy())
    before = sum(cache.has(name, teacher, top_k, mask) for name, mask in masks.items())
    found: dict[str, Score] = {}
    contradicted: set[str] = set()
    faults: dict[ScoreFault, int] = {}
    first: dict[ScoreFault, str] = {}
    lines = repeated = 0
    for at, line in _lines(Path(file)):
        lines += 1
        try:
            name, score = _answer(line, masks, top_k)
            if name in contradicted or (name in found and _differ(found[name], score)):
                raise ScoreError(ScoreFault.CONTRADICTED, name)
        except ScoreError as error:
            faults[error.fault] = faults.get(error.fault, 0) + 1
            first.setdefault(error.fault, f"line {at}: {error}")
            if error.fault is ScoreFault.CONTRADICTED and found.pop(name, None) is not None:
                contradicted.add(name)
                faults[error.fault] += 1
            continue
        repeated += name in found
        found[name] = score
    with cache.writing():
        parts = ScoreParts(cache, teacher, top_k)
        for name, score in found.items():
            parts.add(name, score)
        parts.close()
    return ScoreSummary(
        teacher=teacher,
        sequences=len(masks),
        cached=before,
        requests=lines,
        scored=len(found),
        repeated=repeated,
        tokens=sum(masks[name].size for name in found),
        faults=faults,
        first_found=first,
    )


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with file.open("rb") as lines:
            for at, line in enumerate(lines, 1):
                if line.strip():
                    yield at, line
    except OSError as error:
        raise UsageError(
            f"{file}: expected a file of answers, found: {error.strerror}; name another"
        ) from None


def _answer(line: bytes, masks: dict[str, Needed], top_k: int) -> tuple[str, Score]:
    """The name and the checked score of a line."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise ScoreError(ScoreFault.UNREADABLE, "no JSON") from None
    if not isinstance(value, dict) or not isinstance(value.get("datum_id"), str):
        raise ScoreError(ScoreFault.UNREADABLE, "no datum_id")
    name = value["datum_id"]
    if name not in masks:
        raise ScoreError(ScoreFault.UNKNOWN_DATUM, name)
    logprobs, top = value.get("logprobs"), value.get("top")
    if not isinstance(logprobs, list):
        raise ScoreError(ScoreFault.UNREADABLE, "no logprobs")
    if top_k and not isinstance(top, list):
        raise ScoreError(ScoreFault.UNREADABLE, "no top")
    rows = [candidates(row, top_k) for row in top or []] if top_k else None
    score = Score(np.array([number(x) for x in logprobs]), rows)
    return name, checked(score, masks[name].size, masks[name])


def _differ(a: Score, b: Score) -> bool:
    return not np.array_equal(a.logprobs, b.logprobs, equal_nan=True) or a.top != b.top
