"""The hole witness: calls that were sampled and that no record holds, as the tokens prove it.

Every prompt ends with the header of the answer to come. In what a prompt adds to the call that it
extends, the header is there once, at the end; once more is an answer that no recorded call sampled:

    call 0   ... H          samples  a0 E
    call 1   ... H a0 E u1 H              one header: whole
    call 2   ... H a0 E u1 H x E u2 H     two: between calls 0 and 2 one is missing if call 1 is

Before an answer of the history a template may write less. Then only what it writes there is looked
for, and where that is nothing of its own, nothing can be proved:

    call 0   ... u0 E assistant <think>   samples  a0 E
    call 1   ... u0 E assistant a0 E u1 E assistant <think>     `E assistant` recurs, no `<think>`
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wmo_distill.arrays import NO_IDS, Ids, find_all
from wmo_distill.segment import Segment

# No template's header is as long; what is common beyond it is the end of an observation.
_LONGEST_HEADER = 64


def header_of(chats: Sequence[Segment]) -> Ids:
    """What every prompt of an episode ends with, from its last end of a turn on.

    Empty where the prompts share no end, and where there is but one prompt.
    """
    if not provable(chats):
        return NO_IDS
    tails = [tail for chat in chats for tail in _tails(chat)]
    shared = tails[0]
    for tail in tails[1:]:
        n = min(shared.size, tail.size)
        differs = np.flatnonzero(shared[shared.size - n :] != tail[tail.size - n :])
        shared = shared[shared.size - (n - 1 - int(differs[-1]) if differs.size else n) :]
    for end in _turn_ends(chats):
        places = np.flatnonzero(shared == end)
        if places.size and places[-1] < shared.size - 1:
            return shared[places[-1] :]
    return shared


def provable(chats: Sequence[Segment]) -> bool:
    """Whether there are two different prompts, without which there is no header to see."""
    calls = _calls(chats)
    chat, at = next(calls, (None, 0))
    if chat is None:
        return False
    first = chat.prompt(at)
    return any(
        other.prompt_lens[k] != first.size or not np.array_equal(other.prompt(k), first)
        for other, k in calls
    )


@dataclass(frozen=True, slots=True)
class Witness:
    """What is looked for in the prompts of an episode."""

    header: Ids
    """What is written before each answer of the history."""
    unwritten: int = 0
    """How many ids more each prompt ends with."""
    recurs: bool = True
    """Whether the place of a recorded answer in a later prompt shows it."""

    @property
    def is_telling(self) -> bool:
        """Whether it can prove anything: one id alone may be a word, or end other messages."""
        return self.recurs and self.header.size > 1


def witness_of(chats: Sequence[Segment], header: Ids) -> Witness:
    """The shortest start of the header that recurs and that other messages do not begin with.

    `header` is that of the chats, see `header_of`.
    """
    size = header.size
    if size < 2 or all(chat.extends[1:].all() for chat in chats):
        return Witness(header)
    followed = [(chat, k, extends) for chat in chats for k, extends in _followed(chat)]
    begun = [start for chat in chats for start in starts_of(chat, size - 1)[1:]]
    reached = [
        size if extends else _reached(start, size)
        for (_, _, extends), start in zip(followed, begun, strict=True)
    ]
    starts = sorted({*reached} - {0})
    if starts and starts[0] < size:
        ends = _turn_ends(chats)
        end = header[0] if header[0] in ends or not ends else ends[0]
        asked = []
        for (chat, k, extends), n in zip(followed, reached, strict=True):
            before = chat.sampled(k - 1)[-1:] if extends else header[:n]
            new = np.concatenate([before, chat.suffix(k)])[:-size]
            turns = np.flatnonzero(new == end)
            # The last message before the header, from the end of the turn before it on.
            asked.append(new[turns[-1] :] if turns.size else new)
        starts = [n for n in starts if not any(find_all(ids, header[:n]).size for ids in asked)]
    written = min(starts, default=size)
    return Witness(header[:written], size - written, bool(starts))


class Start(NamedTuple):
    """A call whose prompt, but for its end, a later prompt begins with."""

    call: int
    given: int
    """How many ids its prompt has."""
    shared: int
    """How many of them are at least shared."""


def _followed(chat: Segment) -> Iterator[tuple[int, bool]]:
    """(a call that has one before it in its chat, whether it extends that)."""
    return enumerate(chat.extends[1:].tolist(), 1)


def _reached(start: Start | None, size: int) -> int:
    """How many ids of the header before an earlier answer a prompt holds as well.

    Of the last one of which it holds any; 0 where there is none.
    """
    return 0 if start is None else min(size, start.shared - (start.given - size))


def holes(chat: Segment, witness: Witness, positions: Sequence[int]) -> int:
    """How many answers of one chat no call holds; `positions` are the places among all found.

    A prompt that was rewritten is held against the call whose prompt it starts with, and the
    recorded calls between the two account for a header each.
    """
    header = witness.header
    if not witness.is_telling or len(chat) < 2:
        return 0
    if chat.extends[1:].all():
        # In one look, headers that span two prompts among them: more than one a prompt is a reason
        # to look at each.
        new = chat.prompt_suffix[1 : len(chat)].flat
        if find_all(new, header).size < len(chat):
            return 0
    starts = starts_of(chat, witness.unwritten, shorter=True)
    missing = [0] * (len(chat) + 1)  # before each call, and before the end
    followed = dict(_followed(chat))
    for k in range(len(chat)):
        missing[k + 1] = missing[k]
        found = _added(chat, k, followed[k], starts[k], witness) if k in followed else None
        if found is not None:
            j, answers = found
            known = positions[k] - positions[j] - 1 + missing[k] - missing[j + 1]
            missing[k + 1] += max(0, answers - 1 - known)
    return missing[-1]


def _added(
    chat: Segment, k: int, extends: bool, start: Start | None, witness: Witness
) -> tuple[int, int] | None:
    """(the call whose prompt a prompt begins with, how many headers of answers it adds to that).

    None where there is no such call; it is `start` where the prompt does not extend one.
    """
    header = witness.header
    if extends:
        # The answer before has ended.
        new = np.concatenate([header[:1], chat.suffix(k)])
        return k - 1, _answers(new, header, _parted(new, header))
    if start is None:
        return None
    j, given, _ = start
    if j == k - 1:
        written = max(0, int(chat.prefix_len[k]) - given)
        new = np.concatenate([chat.sampled(j)[:written], chat.suffix(k)])
    else:
        new = chat.prompt(k)[given - witness.unwritten :]
    parted = _parted(new, header)
    return j, _answers(new, header, parted) - _answers(chat.sampled(j), header, parted)


def starts_of(chat: Segment, unwritten: int, *, shorter: bool = False) -> list[Start | None]:
    """For each call the latest one before of whose prompt all but `unwritten` ids begin its own.

    With `shorter` only one of which less begins it than it is long. At least so much is shared:
    what each prompt between shares with the one before it. A prompt that a later one does not keep
    is never looked at again, so each is put away once:

        prompt   1 2   1 2 3   1 2 9   1 2 9 4        none is unwritten
        start    -     0       0       2
    """
    sizes, shares = chat.prompt_lens.tolist(), chat.prefix_len.tolist()
    # Calls, each with the least that prompts shared after it, up to the next one here.
    kept: list[tuple[int, int]] = []
    found: list[Start | None] = []
    for k, size in enumerate(sizes):
        least, start = shares[k], None
        while kept and start is None:
            j, between = kept.pop()
            least = min(least, between)
            known = sizes[j] - unwritten
            # One that is as long ends where this one will be kept: it is not needed any more.
            if known <= least and not (shorter and known >= size):
                start = Start(j, sizes[j], least)
                kept.append((j, least))
        found.append(start)
        kept.append((k, size))
    return found


def _parted(new: Ids, header: Ids) -> bool:
    """Whether messages end with the id that the header begins with, as the last one shows."""
    places = find_all(new, header)
    last = [0, *(places + header.size).tolist()][-2:]
    return places.size > 0 and bool((new[last[0] : places[-1]] == header[0]).any())


def _answers(ids: Ids, header: Ids, parted: bool) -> int:
    """How many headers there are, without those of an answer's second half.

    No message ends between an answer and its second half, where messages are `parted`:

        a0 E assistant a1 E u1 E assistant      the first header begins no other answer
    """
    places = find_all(ids, header)
    if not parted:
        return places.size
    starts = [0, *(places + header.size).tolist()]
    return sum(bool((ids[a:b] == header[0]).any()) for a, b in zip(starts, places, strict=False))


def history_before(chat: Segment, witness: Witness) -> bool:
    """Whether a chat's first prompt already holds an answer: few-shot, or a resumed history."""
    return witness.is_telling and find_all(chat.prompt(0), witness.header).size > 1


def _calls(chats: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    return ((chat, at) for chat in chats for at in range(len(chat)))


def _tails(chat: Segment) -> Iterator[Ids]:
    """The last ids of each prompt, which may be those of the call before, asked again."""
    extends, lengths = chat.extends, chat.prompt_suffix.lengths
    tail = NO_IDS
    for at, size in enumerate(lengths.tolist()):
        if not at or size >= _LONGEST_HEADER:
            tail = chat.suffix(at)
        elif extends[at]:
            tail = np.concatenate([tail, chat.sampled(at - 1)[-_LONGEST_HEADER:], chat.suffix(at)])
        else:
            tail = chat.prompt(at)
        tail = tail[-_LONGEST_HEADER:]
        yield tail


def _turn_ends(chats: Sequence[Segment]) -> list[int]:
    """Ids that may end a turn: what most answers end with, else what most often follows them.

    Servers return the end of a turn with the answer, or leave it to the next prompt.
    """
    ends: Counter[int] = Counter()
    after: Counter[int] = Counter()
    for chat in chats:
        extends = chat.extends
        for at in range(len(chat)):
            sampled, suffix = chat.sampled(at), chat.suffix(at)
            if sampled.size:
                ends[int(sampled[-1])] += 1
            if extends[at] and suffix.size:
                after[int(suffix[0])] += 1
    return [
        end
        for counted in (ends, after)
        for end, count in counted.most_common(1)
        if 2 * count >= counted.total()
    ]
