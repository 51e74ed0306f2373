"""The calls of one segment to fragments: runs in which each prompt extends what came before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import Ids, Lists
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
    runs: list[tuple[slice, Ids]] = field(default_factory=list)
    """Calls of which each but the first extends the one before, and what the first prompt adds."""
    size: int = 0
    longest_prompt: int = 0
    sampled_tokens: int = 0

    def add(self, calls: slice, context: Ids) -> None:
        """Append a run of calls; `context` is what is new in the first prompt."""
        suffixes = self.chat.prompt_suffix.lengths[calls]
        sampled = self.chat.sampled_token_ids.lengths[calls]
        self.runs.append((calls, context))
        self.sampled_tokens += int(sampled.sum())
        self.size += context.size + int(suffixes[1:].sum()) + int(sampled.sum())
        self.longest_prompt = max(self.longest_prompt, self.size - int(sampled[-1]))

    def of_calls(self, column: NDArray[Any]) -> NDArray[Any]:
        """The entries of the calls in a column of the chat."""
        return np.concatenate([column[calls] for calls, _ in self.runs])

    def of_tokens(self, column: Lists) -> NDArray[Any]:
        """The numbers of the calls in a column of lists."""
        return np.concatenate([column[calls].flat for calls, _ in self.runs])

    def sizes(self) -> NDArray[np.int64]:
        """Of each call what its prompt adds and what was sampled, in turn."""
        context = self.of_calls(self.chat.prompt_suffix.lengths)
        firsts = np.cumsum([0, *(calls.stop - calls.start for calls, _ in self.runs[:-1])])
        context[firsts] = [first.size for _, first in self.runs]
        sampled = self.of_calls(self.chat.sampled_token_ids.lengths)
        return np.column_stack([context, sampled]).ravel().astype(np.int64)

    def sampled(self) -> NDArray[np.bool_]:
        """Where sampled ids are."""
        sizes = self.sizes()
        return np.repeat(np.tile([False, True], sizes.size // 2), sizes)

    def token_ids(self) -> Ids:
        sampled = self.sampled()
        ids = np.empty(sampled.size, np.int32)
        ids[sampled] = self.of_tokens(self.chat.sampled_token_ids)
        pieces: list[Ids] = []
        for calls, context in self.runs:
            rest = self.chat.prompt_suffix[calls.start + 1 : calls.stop]
            pieces += (context, rest.flat)
        ids[~sampled] = np.concatenate(pieces)
        return ids


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
    begins = np.flatnonzero(~chat.extends).tolist()
    for at, stop in pairwise([*begins, len(chat)]):
        prompt, calls = chat.prompt(at), slice(at, stop)
        found, tied = _earlier(fragments, prompt) if reopen else (None, False)
        ties += tied
        if found is not None:
            open_ = found
            open_.add(calls, prompt[open_.size :])
            continue
        open_ = Fragment(chat)
        if at:
            open_.position = int(chat.prefix_len[at])
            summarized = int(chat.call_index[at]) in compactions
            open_.cause = break_cause(chat, at, summarized=summarized, decode=decode)
        open_.add(calls, prompt)
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
