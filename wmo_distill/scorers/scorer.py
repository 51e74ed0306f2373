"""What a scorer is, what it may answer, and why an answer is not taken."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import ID_LIMIT, IMPLAUSIBLE_LOGPROB, Ids, Logprobs
from wmo_distill.datums.topk import Candidates
from wmo_distill.visible import visible

Needed = NDArray[np.bool_]
"""For each token of a sequence whether its score is needed: it is trained."""


class ScoreFault(StrEnum):
    """Why a sequence has no score."""

    UNAVAILABLE = "unavailable"
    """No answer after all retries: connection, time-out, rate limit, server error."""
    REFUSED = "refused"
    """The server says that the request is wrong, such as a sequence beyond its context."""
    UNREADABLE = "unreadable"
    """An answer in another form than the scorer's."""
    ANSWER_TOO_LARGE = "answer_too_large"
    """More bytes than an answer about so many tokens and candidates can have."""
    WRONG_LENGTH = "wrong_length"
    OTHER_TOKENS = "other_tokens"
    """The answer is about other ids than were asked about."""
    NOT_FINITE = "not_finite"
    """A trained token's log-probability is missing, NaN, infinite or a server's stand-in for it."""
    POSITIVE = "positive"
    """A log-probability above 0."""
    UNKNOWN_DATUM = "unknown_datum"
    """An answer to a sequence that these datums do not hold."""
    CONTRADICTED = "contradicted"
    """Two answers to one sequence differ."""


class ScoreError(Exception):
    """A sequence could not be scored; what was found is made safe to show."""

    def __init__(self, fault: ScoreFault, found: str, *, after: float | None = None) -> None:
        super().__init__(f"{fault}: {one_line(found)}")
        self.fault = fault
        self.after = after
        """Seconds that the server asked to wait."""


def one_line(text: str, most: int = 200) -> str:
    """Text from elsewhere on one line: cut, and what is no printable character escaped."""
    line = visible(text[: most + 1])
    return line if len(line) <= most else line[: most - 1] + "…"


def without_key(text: str, key: str) -> str:
    """The text with `***` for whatever it has in common with an API key."""
    if len(key) < 4:
        return text.replace(key, "***") if key else text
    while True:  # the text gets shorter each time
        same = SequenceMatcher(None, text, key, autojunk=False).find_longest_match()
        if same.size < min(6, len(key)):
            return text
        text = f"{text[: same.a]}***{text[same.a + same.size :]}"


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Log-probability of each token given those before it, NaN at position 0; natural logarithm.

    NaN too where a scorer gave no number at a token that is not trained. `top` holds, where it was
    asked for, the likeliest tokens of each position.
    """

    logprobs: Logprobs
    top: Sequence[Candidates | None] | None = None


class Scorer(Protocol):
    """Anything that gives log-probabilities of a sequence; several calls run at once."""

    tokenizer: str | None
    """A fingerprint of the tokenizer behind the ids, None where it is not known."""

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        """ScoreError where there is no answer."""
        ...

    async def close(self) -> None:
        """Let go of what the calls of this event loop held; another loop's calls may follow."""
        ...


# Log-probabilities are rounded sums: one of a sure token may come out a little above 0.
_ABOVE = 1e-3


def number(value: Any) -> float:
    """A JSON number; NaN for anything else, which `checked` then finds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value)


_DIGITS = re.compile("0|[1-9][0-9]{0,9}")


def token_id(value: Any) -> int:
    """A token id, written as a number or, as a key, in digits; ScoreError for anything else."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    if type(value) is not int:
        raise ScoreError(ScoreFault.UNREADABLE, "a token id that is none")
    return value


def candidates(row: Any, top_k: int) -> Candidates | None:
    """A list of at most `top_k` pairs (token id, log-probability), or None."""
    if row is None:
        return None
    try:
        pairs = [(token_id(token), number(logprob)) for token, logprob in row]
    except (TypeError, ValueError):
        raise ScoreError(ScoreFault.UNREADABLE, "a candidate that is no pair") from None
    if len(pairs) > top_k:
        raise ScoreError(ScoreFault.UNREADABLE, f"over {top_k} candidates for a token")
    return pairs


def checked(score: Score, tokens: int, needed: Needed | None = None) -> Score:
    """The score if it fits a sequence of `tokens` tokens, else ScoreError.

    Only the `needed` tokens (those trained; None: all) must have a sound number, and the first
    never has one. Whatever is unsound elsewhere becomes NaN.
    """
    values = score.logprobs
    if values.size != tokens:
        raise ScoreError(ScoreFault.WRONG_LENGTH, f"{values.size} values for {tokens} tokens")
    if score.top is not None and len(score.top) != tokens:
        raise ScoreError(ScoreFault.WRONG_LENGTH, f"top of {len(score.top)} for {tokens} tokens")
    if tokens > 1 and np.isfinite(values[0]):
        raise ScoreError(ScoreFault.UNREADABLE, "a number for the first token: is it shifted?")
    wanted = np.ones(tokens, np.bool_) if needed is None else needed.copy()
    wanted[:1] = False
    with np.errstate(invalid="ignore"):
        missing = ~np.isfinite(values) | (values <= IMPLAUSIBLE_LOGPROB)
        above = values > _ABOVE
    if (missing & wanted).any():
        raise ScoreError(ScoreFault.NOT_FINITE, f"position {int((missing & wanted).argmax())}")
    if (above & wanted).any():
        raise ScoreError(ScoreFault.POSITIVE, f"position {int((above & wanted).argmax())}")
    kept = np.where(missing | above, math.nan, np.minimum(values, 0.0))
    kept[:1] = math.nan
    if score.top is None:
        return Score(kept, None)
    rows = zip(score.top, wanted.tolist(), strict=True)
    return Score(kept, [_candidates(row, needed=one) for row, one in rows])


def _candidates(row: Candidates | None, *, needed: bool) -> Candidates | None:
    """Without those that cannot be, which a softmax would not count either.

    None for a row that is unsound and not needed.
    """
    if row is None:
        return None
    if any(not 0 <= token < ID_LIMIT for token, _ in row):
        raise ScoreError(ScoreFault.UNREADABLE, "a candidate that is no token id")
    if any(math.isnan(logprob) or logprob > _ABOVE for _, logprob in row):
        if not needed:
            return None
        raise ScoreError(ScoreFault.NOT_FINITE, "a candidate's log-probability")
    return [(token, logprob) for token, logprob in row if logprob > IMPLAUSIBLE_LOGPROB]
