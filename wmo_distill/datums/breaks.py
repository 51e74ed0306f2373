"""Why a prompt does not extend all that came before it, as its ids show it."""

from collections.abc import Callable

from wmo_distill.arrays import Ids, find_all
from wmo_distill.datums.datum import BreakCause
from wmo_distill.predicates import cut_at_cap
from wmo_distill.segment import Segment

Decode = Callable[[list[int]], str]

# A completion that comes back after its thinking is recognised by this many of its last ids.
_ENDING = 8
# Another tokenization of the same text meets the sampled ids again within this many.
_RESYNC = 16


def break_cause(
    chat: Segment, at: int, *, summarized: bool, decode: Decode | None = None
) -> BreakCause:
    """Why call `at` does not extend the call before it.

    `summarized` says that the trajectory records a compaction here; `decode` gives the text of
    ids, and with it other ids for the same text are recognised for certain.
    """
    if summarized:
        return BreakCause.SUMMARIZED
    if cut_at_cap(chat.finish_reason[at - 1]):
        return BreakCause.TRUNCATED_TURN
    prefix_len = int(chat.prefix_len[at])
    kept = prefix_len - int(chat.prompt_lens[at - 1])
    if kept < 0:
        return BreakCause.REWRITTEN_HISTORY
    prompt = chat.prompt(at)[prefix_len:]
    lost = chat.sampled(at - 1)[kept:]
    if decode is not None and _same_text(decode(lost.tolist()), decode(prompt.tolist())):
        return BreakCause.RETOKENIZED
    if _comes_back(lost, prompt):
        return BreakCause.DROPPED_COMPLETION
    if kept == 0:
        return BreakCause.DROPPED_COMPLETION
    if decode is None and _meets_again(lost, prompt):
        return BreakCause.RETOKENIZED
    return BreakCause.PAST_STOP if prompt.size else BreakCause.UNKNOWN


def _same_text(lost: str, prompt: str) -> bool:
    return bool(lost) and prompt.startswith(lost)


def _comes_back(lost: Ids, prompt: Ids) -> bool:
    """Whether the prompt goes on with a later part of the completion: its thinking is gone."""
    ending = lost[-_ENDING:]
    if ending.size < 2 or ending.size == lost.size:
        return False
    if not find_all(lost[1:], prompt[: ending.size]).size:
        return False
    return _longest_end(lost[1:].tolist(), prompt[: lost.size - 1].tolist()) >= ending.size


def _longest_end(ids: list[int], start: list[int]) -> int:
    """How long the longest end of `ids` is that `start` begins with.

    Each id is looked at about twice (Knuth, Morris, Pratt): `back[k]` is the same for the first k
    ids of `start` and themselves.
    """
    back = [0, 0]
    size = 0
    for k in range(1, len(start)):
        while size and start[k] != start[size]:
            size = back[size]
        size += start[k] == start[size]
        back.append(size)
    size = 0
    for one in ids:
        while size and (size == len(start) or one != start[size]):
            size = back[size]
        size += one == start[size]
    return size


def _meets_again(lost: Ids, prompt: Ids) -> bool:
    """Whether lost ids and prompt agree again a few ids on, at different distances or not."""
    # Lists: of so few ids numpy's own comparison takes ten times as long.
    window, ids = prompt[:_RESYNC].tolist(), lost[: _RESYNC + 4].tolist()
    for start in range(1, min(lost.size - 1, _RESYNC)):
        run = ids[start : start + 4]
        if len(run) < 2:
            break
        if any(window[at : at + len(run)] == run for at in range(1, len(window) - len(run) + 1)):
            return True
    return False
