"""The calls of one segment to fragments: runs in which each prompt extends what came before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from wmo_distill.arrays import Ids
from wmo_distill.datums.breaks import Decode, break_cause
from wmo_distill.datums.datum import BreakCause
from wmo_distill.segment import Segment
from wmo_distill.tokens import chat_of, spans_of


@dataclass(slots=True)
class Fragment:
    """A growing sequence: what each prompt adds, and what was sampled, in turn."""

    chat: Segment
    cause: BreakCause | None = None
    position: int | None = None
    calls: list[int] = field(default_factory=list)
    """Their places in the chat."""
    pieces: list[Ids] = field(default_factory=list)
    """Of each call the ids that its prompt adds, and those that it sampled."""
    size: int = 0
    longest_prompt: int = 0
    sampled_tokens: int = 0

    def add(self, at: int, context: Ids) -> None:
        """Append what is new in a call's prompt, and then what was sampled."""
        sampled = self.chat.sampled(at)
        self.calls.append(at)
        self.pieces += (context, sampled)
        self.longest_prompt = max(self.longest_prompt, self.size + context.size)
        self.size += context.size + sampled.size
        self.sampled_tokens += sampled.size

    def token_ids(self) -> Ids:
        return np.concatenate(self.pieces)


@dataclass(frozen=True, slots=True)
class Merged:
    """The fragments of a segment in order; `ties` of `reopen` had more than one longest match."""

    fragments: list[Fragment]
    last: Fragment | None
    """That of the last call; with `reopen` it can be an earlier one."""
    ties: int = 0


def merge(
    chat: Segment,
    *,
    compactions: Sequence[int] = (),
    reopen: bool = False,
    decode: Decode | None = None,
) -> Merged:
    """Join the calls of one segment, in ascending call_index.

    A prompt that starts with all of the open fragment extends it; another closes it and begins
    one with the whole prompt. `reopen` lets a prompt extend an earlier fragment, the longest
    that it starts with.
    """
    if (chat.call_index[1:] < chat.call_index[:-1]).any():
        chat = chat_of(sorted(spans_of(chat), key=attrgetter("call_index")))
    fragments: list[Fragment] = []
    open_: Fragment | None = None
    ties = 0
    for at, extends in enumerate(chat.extends.tolist()):
        if open_ is not None and extends:
            open_.add(at, chat.suffix(at))
            continue
        prompt = chat.prompt(at)
        found, tied = _earlier(fragments, prompt) if reopen else (None, False)
        ties += tied
        if found is not None:
            open_ = found
            open_.add(at, prompt[open_.size :])
            continue
        open_ = Fragment(chat)
        if at:
            open_.position = int(chat.prefix_len[at])
            summarized = int(chat.call_index[at]) in compactions
            open_.cause = break_cause(chat, at, summarized=summarized, decode=decode)
        open_.add(at, prompt)
        fragments.append(open_)
    return Merged(fragments, open_, ties)


def _earlier(fragments: Sequence[Fragment], prompt: Ids) -> tuple[Fragment | None, bool]:
    """The longest fragment that the prompt starts with, and whether another is as long."""
    matching = [
        fragment
        for fragment in fragments
        if 0 < fragment.size <= prompt.size
        and np.array_equal(fragment.token_ids(), prompt[: fragment.size])
    ]
    if not matching:
        return None, False
    longest = max(fragment.size for fragment in matching)
    best = [fragment for fragment in matching if fragment.size == longest]
    return best[-1], len(best) > 1
