"""What a scorer is, what it may answer, and why an answer is not taken."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from wmo_distill.datums.topk import Candidates
from wmo_distill.tokens import ID_LIMIT, Ids, Logprobs


class ScoreFault(StrEnum):
    """Why a sequence has no score."""

    UNAVAILABLE = "unavailable"
    """No answer after all retries: connection, time-out, rate limit, server error."""
    REFUSED = "refused"
    """The server says that the request is wrong, such as a sequence beyond its context."""
    UNREADABLE = "unreadable"
    """An answer in another form than the scorer's."""
    WRONG_LENGTH = "wrong_length"
    OTHER_TOKENS = "other_tokens"
    """The answer speaks of other ids than were asked about."""
    NOT_FINITE = "not_finite"
    """A log-probability is missing, NaN, infinite or a server's stand-in for minus infinity."""
    POSITIVE = "positive"
    """A log-probability above 0."""
    UNKNOWN_DATUM = "unknown_datum"
    """An answer to a sequence that these datums do not hold."""
    CONTRADICTED = "contradicted"
    """Two answers to one sequence differ."""


class ScoreError(Exception):
    """A sequence could not be scored."""

    def __init__(self, fault: ScoreFault, found: str, *, after: float | None = None) -> None:
        super().__init__(f"{fault}: {found}")
        self.fault = fault
        self.after = after
        """Seconds that the server asked to wait."""


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Log-probability of each token given those before it, NaN at position 0; natural logarithm.

    `top` holds, where it was asked for, the likeliest tokens of each position.
    """

    logprobs: Logprobs
    top: Sequence[Candidates | None] | None = None


class Scorer(Protocol):
    """Anything that gives log-probabilities of a sequence; it is called from several threads."""

    tokenizer: str | None
    """A fingerprint of the tokenizer behind the ids, None where it is not known."""

    def score(self, token_ids: Ids, top_k: int) -> Score:
        """ScoreError where there is no answer."""
        ...

    def close(self) -> None:
        """Give up what is under way: the calls end with a ScoreError, soon."""
        ...


# Servers write this, or less, for minus infinity, which JSON has no number for.
NEVER = -9999.0
# Log-probabilities are rounded sums: one of a sure token may come out a little above 0.
_ABOVE = 1e-3


def number(value: Any) -> float:
    """A JSON number; NaN for anything else, which `checked` then finds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value)


def checked(score: Score, tokens: int) -> Score:
    """The score if it fits a sequence of `tokens` tokens, else ScoreError."""
    values = score.logprobs
    if values.size != tokens:
        raise ScoreError(ScoreFault.WRONG_LENGTH, f"{values.size} values for {tokens} tokens")
    if score.top is not None and len(score.top) != tokens:
        raise ScoreError(ScoreFault.WRONG_LENGTH, f"top of {len(score.top)} for {tokens} tokens")
    if tokens > 1 and np.isfinite(values[0]):
        raise ScoreError(ScoreFault.UNREADABLE, "a number for the first token: is it shifted?")
    given = values[1:]
    bad = ~np.isfinite(given) | (given <= NEVER)
    if bad.any():
        raise ScoreError(ScoreFault.NOT_FINITE, f"position {int(bad.argmax()) + 1}")
    if (given > _ABOVE).any():
        raise ScoreError(ScoreFault.POSITIVE, f"position {int((given > _ABOVE).argmax()) + 1}")
    kept = np.minimum(values, 0.0)
    if tokens:
        kept[0] = math.nan
    top = None if score.top is None else [_candidates(row) for row in score.top]
    return Score(kept, top)


def _candidates(row: Candidates | None) -> Candidates | None:
    """Without those that cannot be, which a softmax would not count either."""
    if row is None:
        return None
    if any(math.isnan(logprob) or logprob > _ABOVE for _, logprob in row):
        raise ScoreError(ScoreFault.NOT_FINITE, "a candidate's log-probability")
    if any(not 0 <= token < ID_LIMIT for token, _ in row):
        raise ScoreError(ScoreFault.UNREADABLE, "a candidate that is no token id")
    return [(token, logprob) for token, logprob in row if logprob > NEVER]
