"""The hole witness: calls that were sampled and that no record holds, as the tokens prove it.

Every prompt ends with the header of the answer to come. In what a prompt adds to the call that it
extends, the header is there once, at the end; once more is an answer that no recorded call sampled:

    call 0   ... H          samples  a0 E
    call 1   ... H a0 E u1 H              one header: whole
    call 2   ... H a0 E u1 H x E u2 H     two: between calls 0 and 2 one is missing if call 1 is
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from wmo_distill.tokens import NO_IDS, Ids, TokenSpan

# No template's header is as long; what is common beyond it is the end of an observation.
_LONGEST_HEADER = 64


def header_of(spans: Sequence[TokenSpan]) -> Ids:
    """What every prompt of an episode ends with, from its last end of a turn on.

    Empty where the prompts share no end, and where there is but one prompt.
    """
    if not provable(spans):
        return NO_IDS
    tails = [_tail(span) for span in spans]
    shared = tails[0]
    for tail in tails[1:]:
        n = min(shared.size, tail.size)
        differs = np.flatnonzero(shared[shared.size - n :] != tail[tail.size - n :])
        shared = shared[shared.size - (n - 1 - int(differs[-1]) if differs.size else n) :]
    for end in _turn_ends(spans):
        places = np.flatnonzero(shared == end)
        if places.size and places[-1] < shared.size - 1:
            return shared[places[-1] + 1 :]
    return shared


def provable(spans: Sequence[TokenSpan]) -> bool:
    """Whether there are two different prompts, without which there is no header to see."""
    return any(
        span.prompt_len != spans[0].prompt_len
        or not np.array_equal(span.prompt_token_ids, spans[0].prompt_token_ids)
        for span in spans[1:]
    )


def holes(spans: Sequence[TokenSpan], header: Ids, positions: Sequence[int]) -> int:
    """How many answers of one chat no call holds; `positions` are the places among all found.

    A prompt that was rewritten is held against the call whose prompt it starts with, and the
    recorded calls between the two account for a header each.
    """
    if not header.size:
        return 0
    missing = 0
    for k in range(1, len(spans)):
        before, span = spans[k - 1], spans[k]
        prefix, suffix = span.delta(before)
        if prefix == before.sequence_len:
            between = positions[k] - positions[k - 1] - 1
            missing += max(0, find_all(suffix, header).size - 1 - between)
        else:
            missing += _rewritten(spans, k, header, positions)
    return missing


def _rewritten(spans: Sequence[TokenSpan], k: int, header: Ids, positions: Sequence[int]) -> int:
    prompt = spans[k].prompt_token_ids
    for j in range(k - 1, -1, -1):
        known = spans[j].prompt_len
        if known < prompt.size and np.array_equal(spans[j].prompt_token_ids, prompt[:known]):
            own = find_all(spans[j].sampled, header).size
            between = positions[k] - positions[j] - 1
            return max(0, find_all(prompt[known:], header).size - 1 - between - own)
    return 0


def history_before(span: TokenSpan, header: Ids) -> bool:
    """Whether a chat's first prompt already holds an answer: few-shot, or a resumed history."""
    return bool(header.size) and find_all(span.prompt_token_ids, header).size > 1


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


def _tail(span: TokenSpan) -> Ids:
    if span.prompt_suffix.size >= _LONGEST_HEADER:
        return span.prompt_suffix[-_LONGEST_HEADER:]
    return span.prompt_token_ids[-_LONGEST_HEADER:]


def _turn_ends(spans: Iterable[TokenSpan]) -> list[int]:
    """Ids that may end a turn: what most answers end with, else what most often follows them.

    Servers return the end of a turn with the answer, or leave it to the next prompt.
    """
    ends: Counter[int] = Counter()
    after: Counter[int] = Counter()
    before: TokenSpan | None = None
    for span in spans:
        if span.sampled.size:
            ends[int(span.sampled[-1])] += 1
        if (
            before is not None
            and span.prefix_len == before.sequence_len
            and span.prompt_suffix.size
        ):
            after[int(span.prompt_suffix[0])] += 1
        before = span
    return [
        end
        for counted in (ends, after)
        for end, count in counted.most_common(1)
        if 2 * count >= counted.total()
    ]
