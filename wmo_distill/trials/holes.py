"""The hole witness: calls that were sampled and that no record holds, as the tokens prove it.

Every prompt ends with the header of the answer to come. In what a prompt adds to the call that it
extends, the header is there once, at the end; once more is an answer that no recorded call sampled:

    call 0   ... H          samples  a0 E
    call 1   ... H a0 E u1 H              one header: whole
    call 2   ... H a0 E u1 H x E u2 H     two: between calls 0 and 2 one is missing if call 1 is
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import NO_IDS, Ids
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
            header = shared[places[-1] + 1 :]
            # One id may be an ordinary word; with the end of a turn before it, it is none.
            return header if header.size > 1 else shared[places[-1] :]
    return shared


def is_telling(header: Ids) -> bool:
    """Whether a header can prove anything: one id alone may be a word, or end other messages."""
    return header.size > 1


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


def holes(chat: Segment, header: Ids, positions: Sequence[int]) -> int:
    """How many answers of one chat no call holds; `positions` are the places among all found.

    A prompt that was rewritten is held against the call whose prompt it starts with, and the
    recorded calls between the two account for a header each.
    """
    if not is_telling(header) or len(chat) < 2:
        return 0
    missing = 0
    extends = chat.extends
    if extends[1:].all():
        # In one look, headers that span two prompts among them: more than one a prompt is a reason
        # to look at each.
        new = chat.prompt_suffix[1 : len(chat)].flat
        if find_all(new, header).size < len(chat):
            return 0
    for k in range(1, len(chat)):
        if extends[k]:
            between = positions[k] - positions[k - 1] - 1
            missing += max(0, find_all(chat.suffix(k), header).size - 1 - between)
        else:
            missing += _rewritten(chat, k, header, positions)
    return missing


def _rewritten(chat: Segment, k: int, header: Ids, positions: Sequence[int]) -> int:
    sizes, shared = chat.prompt_lens, int(chat.prefix_len[k])
    for j in range(k - 1, -1, -1):
        known = int(sizes[j])
        if known <= shared and known < sizes[k]:
            if j == k - 1:
                new = np.concatenate([chat.sampled(j)[: shared - known], chat.suffix(k)])
            else:
                new = chat.prompt(k)[known:]
            own = find_all(chat.sampled(j), header).size
            between = positions[k] - positions[j] - 1
            return max(0, find_all(new, header).size - 1 - between - own)
        # At least so much is shared with the call before that one.
        shared = min(shared, known, int(chat.prefix_len[j]))
    return 0


def history_before(chat: Segment, header: Ids) -> bool:
    """Whether a chat's first prompt already holds an answer: few-shot, or a resumed history."""
    return is_telling(header) and find_all(chat.prompt(0), header).size > 1


def find_all(ids: Ids, wanted: Ids) -> NDArray[np.intp]:
    """Where `wanted` starts in `ids`."""
    last = ids.size - wanted.size
    if last < 0 or not wanted.size:
        return np.empty(0, np.intp)
    places = np.flatnonzero(ids[: last + 1] == wanted[0])
    for offset in range(1, wanted.size):
        if not places.size:
            break
        places = places[ids[places + offset] == wanted[offset]]
    return places


def _calls(chats: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    return ((chat, at) for chat in chats for at in range(len(chat)))


def _tails(chat: Segment) -> Iterator[Ids]:
    """The last ids of each prompt: what it adds, and if that is little, the answer before."""
    extends, lengths = chat.extends, chat.prompt_suffix.lengths
    for at, size in enumerate(lengths.tolist()):
        suffix = chat.suffix(at)
        if at and size < _LONGEST_HEADER:
            if not extends[at]:
                suffix = chat.prompt(at)
            else:
                suffix = np.concatenate([chat.sampled(at - 1)[-_LONGEST_HEADER:], suffix])
        yield suffix[-_LONGEST_HEADER:]


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
