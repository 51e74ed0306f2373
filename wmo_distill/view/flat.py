"""An episode as one line of tokens: what each prompt adds, then what was sampled, call by call.

    call 0: prompt [1 2 3], sampled [4 5]
    call 1: prompt [1 2 3 4 5 6], sampled [7]

is the line 1 2 3 4 5 6 7: call 1 keeps 5 ids, which are not repeated, and adds one. Token k of a
call's prompt and completion as one sequence, with k from `kept` on, is at `start + k - kept`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import NO_IDS, Ids, common_prefix
from wmo_distill.datums.chats import Chat
from wmo_distill.datums.datum import BreakCause
from wmo_distill.decoding.secrets import marks_of, own_tokens
from wmo_distill.records import TrialRecord

Floats = NDArray[np.float64]
_MARGIN = 8
"""Tokens decoded on both sides of a slice, so that a character across its edge is whole."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the model, and where its tokens are on the line."""

    segment: int
    at: int
    """Its place in its chat."""
    call_index: int
    kept: int
    """Leading ids of its prompt that are those of the call before."""
    lost: int
    """Ids of the call before that the prompt leaves out."""
    start: int
    """Where what the prompt adds begins on the line."""
    sampled_at: int
    stop: int
    cause: BreakCause | None
    """Why its prompt does not extend all that came before; None where it does, or is the first."""
    finish_reason: str | None
    used: bool | None
    recorded: bool
    """Whether its sampled ids are recorded; without them nothing of it is on the line."""


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """The line of an episode, and what is known of each token; NaN where nothing is."""

    calls: tuple[Call, ...]
    ids: Ids
    sampled: NDArray[np.bool_]
    logprobs: Floats
    call: NDArray[np.int32]
    """For each token the place of its call in `calls`."""
    version: NDArray[np.int32]
    """For each token the place of its policy version in `versions`; -1 where it is not known."""
    versions: tuple[str, ...]
    masked: NDArray[np.bool_]
    """Whether it is of a secret that is not to be trained."""
    marks: dict[int, str]
    """What is shown in place of the text of a secret's tokens, by position."""
    of_datums: dict[str, NDArray[Any]] = field(default_factory=dict)
    """What training sequences say, by name: see `sequences.py`."""
    sequences: tuple[dict[str, Any], ...] = ()

    def __len__(self) -> int:
        return self.ids.size

    @property
    def main_stop(self) -> int:
        """Where the main chat ends on the line."""
        return max((call.stop for call in self.calls if call.segment == 0), default=0)

    @property
    def nbytes(self) -> int:
        """About the memory it takes."""
        return 120 * len(self)

    def parts(self, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """Runs of one call's context or completion in a slice, each with where its whole run is."""
        first = int(np.searchsorted([call.stop for call in self.calls], start, "right"))
        for call in self.calls[first:]:
            if call.start >= stop:
                return
            for low, high in ((call.start, call.sampled_at), (call.sampled_at, call.stop)):
                if low < stop and high > start and low < high:
                    yield max(low, start), min(high, stop), low, high

    def around(self, start: int, stop: int) -> Iterator[tuple[int, int, Ids]]:
        """For each run in a slice (its start, how many ids before it come with it, the ids)."""
        for begin, end, low, high in self.parts(start, stop):
            before = max(low, begin - _MARGIN)
            yield begin, begin - before, self.ids[before : min(high, end + _MARGIN)]

    def unlikely(self, most: int) -> list[int]:
        """The positions of the sampled tokens with the lowest log-probability, lowest first."""
        known = np.flatnonzero(np.isfinite(self.logprobs))
        values = self.logprobs[known]
        if known.size > most:
            some = np.argpartition(values, most)[:most]
            known, values = known[some], values[some]
        found: list[int] = known[np.lexsort((known, values))].tolist()
        return found


def flat_of(record: TrialRecord, chats: Sequence[Chat]) -> Flat:
    """The line of a record; it holds no view of what the record is a view of."""
    calls: list[Call] = []
    ids: list[Ids] = [NO_IDS]
    logprobs: list[Floats] = [np.empty(0)]
    for chat in chats:
        for call in _calls(chat, calls[-1].stop if calls else 0):
            calls.append(call)
            i = call.at
            suffix, sampled = chat.calls.suffix(i), chat.calls.sampled(i)
            values = chat.calls.sampled_logprobs[i]
            ids += (suffix, sampled)
            logprobs += (
                np.full(suffix.size, np.nan),
                np.full(sampled.size, np.nan) if values is None else values,
            )
    line = np.concatenate(ids)
    runs = np.array([[c.sampled_at - c.start, c.stop - c.sampled_at] for c in calls], np.int64)
    runs = runs.reshape(-1, 2)
    version, versions = _versions(record, chats, calls, line.size)
    return Flat(
        calls=tuple(calls),
        ids=line,
        sampled=np.repeat(np.arange(runs.size) % 2 == 1, runs.ravel()),
        logprobs=np.concatenate(logprobs),
        call=np.repeat(np.arange(len(calls), dtype=np.int32), runs.sum(1)),
        version=version,
        versions=versions,
        masked=_masked(record, chats, calls, line.size),
        marks=_marks(record, chats, calls),
    )


def _calls(chat: Chat, start: int) -> Iterator[Call]:
    calls = chat.calls
    before = 0
    for i in range(len(calls)):
        kept = int(calls.prefix_len[i])
        sampled_at = start + calls.suffix(i).size
        stop = sampled_at + calls.sampled(i).size
        yield Call(
            segment=calls.number,
            at=i,
            call_index=int(calls.call_index[i]),
            kept=kept,
            lost=before - kept,
            start=start,
            sampled_at=sampled_at,
            stop=stop,
            cause=chat.causes.get(i),
            finish_reason=calls.finish_reason[i],
            used=calls.used[i],
            recorded=calls.sampled_token_ids[i] is not None,
        )
        before, start = kept + stop - start, stop


def _versions(
    record: TrialRecord, chats: Sequence[Chat], calls: Sequence[Call], size: int
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """For each token the number of its policy version, and the versions by number."""
    numbers: dict[str, int] = {}
    found = np.full(size, -1, np.int32)
    own = record.sampled_with.policy_version
    recorded = [runs for chat in chats for runs in chat.calls.versions]
    for call, runs in zip(calls, recorded, strict=True):
        for version, start in runs or (((own, 0),) if own is not None else ()):
            number = numbers.setdefault(version, len(numbers))
            found[call.sampled_at + start : call.stop] = number
    return found, tuple(numbers)


def _on_line(chats: Sequence[Chat], calls: Sequence[Call]) -> Iterator[tuple[Chat, Sequence[Call]]]:
    """Each chat with its own calls."""
    first = 0
    for chat in chats:
        yield chat, calls[first : first + len(chat.calls)]
        first += len(chat.calls)


def _marks(record: TrialRecord, chats: Sequence[Chat], calls: Sequence[Call]) -> dict[int, str]:
    return {
        line[at].start + place: mark
        for chat, line in _on_line(chats, calls)
        for at, marks in marks_of(chat.calls, record.secrets).items()
        for place, mark in marks.items()
    }


def _masked(
    record: TrialRecord, chats: Sequence[Chat], calls: Sequence[Call], size: int
) -> NDArray[np.bool_]:
    """True at the tokens of secrets that are not to be trained."""
    masked = np.zeros(size, bool)
    for one, line in _on_line(chats, calls):
        for secret in record.secrets:
            if secret.masked and secret.segment == one.calls.number:
                for at, start, stop in own_tokens(one.calls, secret, one.causes):
                    first = line[at].start - line[at].kept
                    masked[first + start : first + stop] = True
    return masked


def first_difference(one: Flat, other: Flat, *, sampled: bool = False) -> list[int] | None:
    """The position in each at which their main chats differ first, None where they are the same.

    With `sampled` of the sampled tokens alone. Where one begins the other it is that one's last.
    """
    lines = (one, other)
    places = [
        np.flatnonzero(line.sampled[: line.main_stop]) if sampled else np.arange(line.main_stop)
        for line in lines
    ]
    ids = [line.ids[at] for line, at in zip(lines, places, strict=True)]
    same = common_prefix(*ids)
    if all(same == each.size for each in ids):
        return None
    return [
        int(at[same]) if same < at.size else max(0, line.main_stop - 1)
        for line, at in zip(lines, places, strict=True)
    ]
