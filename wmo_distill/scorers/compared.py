"""The sampled tokens of a sample of sequences: as recorded, and as scored again."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.dataset import DatumRow
from wmo_distill.errors import UsageError
from wmo_distill.scorers.filters import Bools, Floats, Ints, SamplingParams
from wmo_distill.scorers.scorer import Score


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """N tokens in the order of their sequences. All arrays have N rows."""

    recorded: Floats
    rescored: Floats
    top: Floats
    """[N, K] log-probabilities of the likeliest tokens, falling, -inf where there are fewer."""
    top_seen: Bools
    """[N, K] whether that candidate is in the sequence before this token."""
    seen: Bools
    """Whether the token itself is."""
    top_repeats: Ints
    """[N, K] how often that candidate is in the same call before this token."""
    repeats: Ints
    """How often the token itself is."""
    run: Ints
    """Which sampled run (call) the token is in, numbered over the sample."""
    sequence: Ints
    episode: Ints
    turn: Ints
    """Number of the call within its sequence, from 0."""
    position: Ints
    """Place in the sequence."""
    offset: Ints
    """Place in the call."""
    last: Bools
    """Whether it is the call's last token."""
    opening: Bools
    """Whether it is in the first call of its episode's main chat."""
    version: Ints
    """Number of the policy version, -1 where none is recorded."""

    def __len__(self) -> int:
        return self.recorded.size

    def where(self, chosen: Bools) -> "Compared":
        """The chosen tokens."""
        return Compared(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def thinned(self, most: int) -> "Compared":
        """At most so many of the tokens, evenly taken."""
        step = -(-len(self) // most)
        if step <= 1:
            return self
        return Compared(*(getattr(self, field.name)[::step] for field in fields(self)))


def joined(pieces: Sequence[Compared]) -> Compared:
    """The tokens of several sequences; fewer candidates are filled up with -inf."""
    width = max(piece.top.shape[1] for piece in pieces)
    arrays = []
    for field in fields(Compared):
        found = [getattr(piece, field.name) for piece in pieces]
        if field.name.startswith("top"):
            fill = -np.inf if field.name == "top" else 0
            found = [
                np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=fill)
                for one in found
            ]
        arrays.append(np.concatenate(found))
    return Compared(*arrays)


def comparable(row: DatumRow) -> Bools:
    """Which tokens can be compared: trained, with a plausible log-probability, not the first."""
    recorded = row.datum.sampled_logprobs
    found: Bools = row.datum.loss_mask & np.isfinite(recorded) & (recorded > IMPLAUSIBLE_LOGPROB)
    found[0] = False
    return found


def implausible(row: DatumRow) -> int:
    """How many sampled tokens' recorded values stand for minus infinity."""
    datum = row.datum
    return int((datum.loss_mask & (datum.sampled_logprobs <= IMPLAUSIBLE_LOGPROB)).sum())


def compared(
    row: DatumRow, score: Score, *, sequence: int, run: int, episode: int, version: int
) -> Compared:
    """The tokens of a sequence that can be compared; its runs are numbered from `run` on.

    Where candidates were asked for, a token without any is left out.
    """
    datum, usable = row.datum, comparable(row)
    usable &= np.isfinite(score.logprobs) & (score.logprobs > IMPLAUSIBLE_LOGPROB)
    if score.top is not None:
        usable &= np.array([bool(listed) for listed in score.top])
    call = np.full(usable.size, -1)
    offset = np.zeros(usable.size, np.int64)
    last = np.zeros(usable.size, np.bool_)
    for number, (start, size) in enumerate(zip(datum.call_starts, datum.call_lengths, strict=True)):
        call[start : start + size] = number
        offset[start : start + size] = np.arange(size)
        if size:
            last[start + size - 1] = True
    usable &= call >= 0
    places = np.flatnonzero(usable)
    n = places.size
    rows = [] if score.top is None else [score.top[place] or () for place in places.tolist()]
    width = max((len(listed) for listed in rows), default=0)
    top = np.full((n, width), -np.inf)
    top_seen, seen = np.zeros((n, width), np.bool_), np.zeros(n, np.bool_)
    top_repeats, repeats = np.zeros((n, width), np.int64), np.zeros(n, np.int64)
    ids = datum.token_ids.tolist()
    before: set[int] = set()
    counted = 0
    in_call: Counter[int] = Counter()
    for at, place in enumerate(places.tolist()):
        before.update(ids[counted:place])
        began = place - int(offset[place])
        in_call = Counter(ids[began:place]) if counted <= began else in_call
        if counted > began:
            in_call.update(ids[counted:place])
        counted = place
        seen[at], repeats[at] = ids[place] in before, in_call[ids[place]]
        if rows:
            ranked = sorted(rows[at], key=lambda one: -one[1])
            top[at, : len(ranked)] = [value for _, value in ranked]
            top_seen[at, : len(ranked)] = [token in before for token, _ in ranked]
            top_repeats[at, : len(ranked)] = [in_call[token] for token, _ in ranked]
    opening = datum.fragment_index == 0 and datum.segment == 0
    return Compared(
        datum.sampled_logprobs[places],
        score.logprobs[places],
        top,
        top_seen,
        seen,
        top_repeats,
        repeats,
        run + call[places],
        np.full(n, sequence),
        np.full(n, episode),
        call[places],
        places,
        offset[places],
        last[places],
        (call[places] == 0) & opening,
        np.full(n, version),
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """How the rows say that their tokens were sampled, and their log-probabilities taken."""

    params: SamplingParams
    mode: str
    temperature_stated: bool = True
    others: tuple[str, ...] = ()
    """Stated parameters that alter the distribution in a way that is not computed here."""

    @property
    def processed(self) -> bool:
        return self.mode == "processed"

    def __str__(self) -> str:
        return ", ".join([str(self.params), self.mode, *self.others])


# Parameters that alter a distribution, with the value at which each does nothing.
_ALTERING = {
    "repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "top_a": 0.0,
    "typical_p": 1.0, "tfs": 1.0, "no_repeat_ngram_size": 0, "mirostat": 0, "dry_multiplier": 0.0,
    "xtc_probability": 0.0, "min_tokens": 0,
}  # fmt: skip
_CONSTRAINING = ("logit_bias", "bad_words", "allowed_token_ids", "response_format", "guided_json",
    "guided_regex", "guided_choice", "guided_grammar", "structured_outputs")  # fmt: skip


def claim_of(rows: Sequence[DatumRow]) -> Claim:
    """What the rows say of their sampling; UsageError where they say different things.

    An unknown temperature counts as 1, an unknown mode as raw.
    """
    claims = {_claim(row) for row in rows}
    if len(claims) > 1:
        raise UsageError(
            f"datums: expected one way of sampling, found {len(claims)} "
            "(temperature, top_p, top_k, min_p, penalties or logprob_mode differ); "
            "check each dataset by itself"
        )
    (claim,) = claims
    return claim


def _claim(row: DatumRow) -> Claim:
    stated = json.loads(row.sampling) if row.sampling else {}
    temperature, top_k, top_p = row.temperature, row.top_k, row.top_p
    min_p = stated.get("min_p")
    if not isinstance(min_p, (int, float)) or not 0.0 < min_p <= 1.0:
        min_p = None
    others = [
        f"{name} {stated[name]}"
        for name, off in _ALTERING.items()
        if stated.get(name) not in (None, off)
    ]
    others += [name for name in _CONSTRAINING if stated.get(name)]
    if temperature is not None and temperature < 1e-5:  # greedy, as vLLM takes it
        return Claim(SamplingParams(top_k=1), row.logprob_mode, others=tuple(others))
    return Claim(
        SamplingParams(
            temperature=1.0 if temperature is None else temperature,
            top_k=top_k if top_k is not None and top_k > 0 else None,
            top_p=top_p if top_p is not None and 0.0 < top_p < 1.0 else None,
            min_p=min_p,
        ),
        row.logprob_mode,
        temperature_stated=temperature is not None,
        others=tuple(others),
    )
