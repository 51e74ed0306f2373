"""The calls of one segment to fragments: runs in which each prompt extends what came before."""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import Ids, Lists
from wmo_distill.datums.breaks import Decode, break_cause
from wmo_distill.datums.datum import BreakCause
from wmo_distill.segment import Segment
from wmo_distill.tokenjson.tree import ROOT, IdTree
from wmo_distill.tokens import chat_of, spans_of


class Tokens(NamedTuple):
    """A sequence, which of its ids were sampled, and how many ids each prompt and call adds."""

    ids: Ids
    sampled: NDArray[np.bool_]
    sizes: NDArray[np.int32]
    """What a prompt adds and what was sampled then, in turn."""


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
        return _joined([column[calls] for calls, _ in self.runs])

    def of_tokens(self, column: Lists) -> NDArray[Any]:
        """The numbers of the calls in a column of lists."""
        return _joined([column[calls].flat for calls, _ in self.runs])

    def tokens(self) -> Tokens:
        """The sequence itself."""
        suffixes, sampled = self.chat.prompt_suffix, self.chat.sampled_token_ids
        context: list[Ids] = []
        sizes: list[NDArray[np.int32]] = []
        for calls, first in self.runs:
            pieces = np.empty((calls.stop - calls.start, 2), np.int32)
            pieces[:, 0], pieces[:, 1] = suffixes.lengths[calls], sampled.lengths[calls]
            pieces[0, 0] = first.size
            sizes.append(pieces.ravel())
            context += (first, suffixes[calls.start + 1 : calls.stop].flat)
        turns = _joined(sizes)
        mask = np.repeat(np.arange(turns.size) % 2 == 1, turns)
        ids = np.empty(mask.size, np.int32)
        ids[mask], ids[~mask] = self.of_tokens(sampled), np.concatenate(context)
        return Tokens(ids, mask, turns)


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
    known = frozenset(compactions)
    open_ = -1
    ties = 0
    ends = _Ends(chat)
    begins = np.flatnonzero(~chat.extends).tolist()
    for at, stop in pairwise([*begins, len(chat)]):
        prompt, calls = chat.prompt(at), slice(at, stop)
        found, tied = ends.longest(at) if reopen else (None, False)
        ties += tied
        if found is not None:
            open_ = found
            fragments[found].add(calls, prompt[fragments[found].size :])
        else:
            open_ = len(fragments)
            fragments.append(Fragment(chat))
            if at:
                summarized = int(chat.call_index[at]) in known
                fragments[open_].position = int(chat.prefix_len[at])
                fragments[open_].cause = break_cause(chat, at, summarized=summarized, decode=decode)
            fragments[open_].add(calls, prompt)
        if reopen:
            ends.put(open_, calls)
    return Merged(fragments, fragments[open_] if fragments else None, ties)


@dataclass(slots=True)
class _Ends:
    """Where fragments end, in a tree of the ids of all calls; those are put in one by one."""

    chat: Segment
    tree: IdTree = field(default_factory=IdTree)
    ending: dict[int, list[int]] = field(default_factory=dict)
    """By node the numbers of the fragments that end there, ascending."""
    last: int = ROOT
    """Where the last call that was put in ends."""

    def longest(self, at: int) -> tuple[int | None, bool]:
        """The longest fragment that a prompt starts with, the last of several as long, taken out.

        Also whether there are others.
        """
        node = self._prompt(at)
        while node != ROOT:
            if ended := self.ending.get(node):
                return ended.pop(), bool(ended)
            node = self.tree.up[node]
        return None, False

    def put(self, number: int, calls: slice) -> None:
        """Put in a fragment that ends with these calls."""
        for at in range(calls.start, calls.stop):
            self.last = self.tree.walk(self._prompt(at), self.chat.sampled(at))
        insort(self.ending.setdefault(self.last, []), number)

    def _prompt(self, at: int) -> int:
        """The node of a prompt, that of the call after the last one."""
        known = self.tree.above(self.last, int(self.chat.prefix_len[at]))
        return self.tree.walk(known, self.chat.suffix(at))


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
