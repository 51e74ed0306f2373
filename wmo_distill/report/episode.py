"""An episode call by call: what was fed in new, what was sampled, and what is known of each."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB, Ids, Logprobs
from wmo_distill.datums.chats import chats_of
from wmo_distill.datums.datum import BreakCause
from wmo_distill.decoding import Decoder, Kind
from wmo_distill.decoding.secrets import covered, marks_of
from wmo_distill.records import TrialRecord
from wmo_distill.report.tables import words
from wmo_distill.segment import Segment
from wmo_distill.shards.encode import calls

LEVELS = (0.9, 0.5, 0.1, 0.01)
"""Probabilities that part the five levels of a sampled token: level 0 is 0.9 and more."""
_BOUNDS = tuple(math.log(low) for low in LEVELS)


class Shown(NamedTuple):
    """One piece: the place of its first id in its list, its ids, and how to show them."""

    at: int
    ids: list[int]
    text: str | None
    """None where its ids are to be shown in place of text."""
    kind: Kind
    logprob: float | None = None
    """Sum over its ids; None where one is not recorded, or was fed in."""

    @property
    def level(self) -> int | None:
        """0 for the most likely to 4 for the least, None without a log-probability."""
        if self.logprob is None:
            return None
        return sum(self.logprob < bound for bound in _BOUNDS)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model in an episode."""

    chat: Segment
    at: int
    kind: str
    cause: BreakCause | None
    """Why its prompt does not extend the call before."""
    decoder: Decoder | None
    marks: Mapping[int, str]
    """What is shown in place of its new tokens that are of a secret."""

    @property
    def name(self) -> str:
        return f"segment {self.chat.number} {self.kind}, call {self.chat.call_index[self.at]}"

    @property
    def recorded(self) -> bool:
        """Whether its completion was."""
        return self.chat.sampled_token_ids[self.at] is not None

    def facts(self, policy: str | None) -> str:
        """Its counts, its log-probabilities, how it ended and which weights sampled it."""
        chat, at = self.chat, self.at
        kept, new = int(chat.prefix_len[at]), chat.suffix(at).size
        sampled = f"{chat.sampled(at).size:,} sampled" if self.recorded else "sampled: not recorded"
        runs = chat.versions[at]
        versions = [f"{name} from token {start:,}" for name, start in runs or ()]
        return words(
            f"{kept + new:,} fed in = {kept:,} as before + {new:,} new",
            sampled,
            _mean(chat.sampled_logprobs[at], chat.sampled(at).size),
            chat.finish_reason[at] and f"ends {chat.finish_reason[at]}",
            f"version {', '.join(versions) or policy}" if versions or policy else None,
            "not used by the agent" if chat.used[at] is False else None,
        )

    @property
    def broken(self) -> str | None:
        """What a break loses of the call before, and why."""
        if self.cause is None:
            return None
        before = int(self.chat.sequence_lens[self.at - 1])
        kept = int(self.chat.prefix_len[self.at])
        return f"break ({self.cause}): keeps {kept:,} of the {before:,} tokens before"

    def fed(self) -> Iterator[Shown]:
        """What its prompt adds to what came before."""
        return self._shown(self.chat.suffix(self.at), None, 0)

    def sampled(self) -> Iterator[Shown]:
        chat, at = self.chat, self.at
        return self._shown(chat.sampled(at), chat.sampled_logprobs[at], chat.suffix(at).size)

    def _shown(self, ids: Ids, logprobs: Logprobs | None, offset: int) -> Iterator[Shown]:
        """Its new tokens from number `offset` on."""
        tokens: list[int] = ids.tolist()
        known = [None] * len(tokens) if logprobs is None else _known(logprobs)
        if self.decoder is None:
            for at, (token, logprob) in enumerate(zip(tokens, known, strict=True)):
                yield Shown(at, [token], None, Kind.UNKNOWN, logprob)
            return
        pieces = covered(self.decoder.stream(tokens), self.marks, offset)
        for start, stop, text, kind in pieces:
            decodes = kind is not Kind.BYTES and kind is not Kind.UNKNOWN
            logprob = known[start] if stop == start + 1 else _sum(known[start:stop])
            yield Shown(start, tokens[start:stop], text if decodes else None, kind, logprob)


def calls_of(record: TrialRecord, decoder: Decoder | None) -> Iterator[Call]:
    """The calls in the order of the row; without a decoder their ids are shown.

    The text of `record.secrets` is not shown.
    """
    decode = None if decoder is None else decoder.text
    chats = {chat.calls.number: chat for chat in chats_of(record, decode)}
    marks = {number: marks_of(chat.calls, record.secrets) for number, chat in chats.items()}
    for recorded, at in calls(record):
        number = recorded.number
        kind = str(record.segments[number].kind) if record.segments else ""
        chat, cause = chats[number].calls, chats[number].causes.get(at)
        yield Call(chat, at, kind, cause, decoder, marks[number].get(at, {}))


def _known(logprobs: Logprobs) -> list[float | None]:
    finite = np.isfinite(logprobs).tolist()
    return [x if known else None for x, known in zip(logprobs.tolist(), finite, strict=True)]


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _mean(logprobs: Logprobs | None, sampled: int) -> str | None:
    """Over the usable ones, and how many those are where some are not."""
    if logprobs is None:
        return "no log-probabilities" if sampled else None
    usable = logprobs[np.isfinite(logprobs)]
    usable = usable[usable > IMPLAUSIBLE_LOGPROB]
    if not usable.size:
        return "no usable log-probability" if sampled else None
    of = "" if usable.size == sampled else f" of {usable.size:,} that are usable"
    return f"mean log-probability {usable.mean():.4f}{of}"
