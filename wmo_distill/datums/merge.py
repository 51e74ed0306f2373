"""The calls of one segment to fragments: runs in which each prompt extends what came before."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from wmo_distill.datums.breaks import Decode, break_cause
from wmo_distill.datums.datum import BreakCause
from wmo_distill.tokens import Ids, Logprobs, TokenSpan


@dataclass(slots=True)
class Fragment:
    """A growing sequence: context and sampled runs in turn."""

    cause: BreakCause | None = None
    position: int | None = None
    pieces: list[Ids] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    runs: list[tuple[Ids, Logprobs | None]] = field(default_factory=list)
    finish_reasons: list[str | None] = field(default_factory=list)
    calls: list[TokenSpan] = field(default_factory=list)
    size: int = 0
    longest_prompt: int = 0

    def add(self, context: Ids, span: TokenSpan) -> None:
        """Append what is new in the prompt, and then what was sampled."""
        self.calls.append(span)
        self.pieces.append(context)
        self.size += context.size
        self.longest_prompt = max(self.longest_prompt, self.size)
        sampled = span.sampled_token_ids
        if sampled is not None and sampled.size:
            self.starts.append(self.size)
            self.finish_reasons.append(span.finish_reason)
            self.runs.append((sampled, span.sampled_logprobs))
            self.pieces.append(sampled)
            self.size += sampled.size

    @property
    def sampled_tokens(self) -> int:
        return sum(sampled.size for sampled, _ in self.runs)

    def token_ids(self) -> Ids:
        return np.concatenate(self.pieces) if len(self.pieces) > 1 else self.pieces[0]


@dataclass(frozen=True, slots=True)
class Merged:
    """The fragments of a segment in order; `ties` of `reopen` had more than one longest match."""

    fragments: list[Fragment]
    last: Fragment | None
    """That of the last call; with `reopen` it can be an earlier one."""
    ties: int = 0


def merge(
    spans: Sequence[TokenSpan],
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
    fragments: list[Fragment] = []
    open_: Fragment | None = None
    before: TokenSpan | None = None
    ties = 0
    for span in sorted(spans, key=lambda one: one.call_index):
        prefix_len, suffix = span.delta(before)
        if open_ is not None and before is not None and 0 < prefix_len == before.sequence_len:
            open_.add(suffix, span)
        else:
            found, tied = _earlier(fragments, span.prompt_token_ids) if reopen else (None, False)
            ties += tied
            if found is not None:
                open_ = found
                open_.add(span.prompt_token_ids[open_.size :], span)
            else:
                open_ = Fragment()
                if before is not None:
                    open_.position = prefix_len
                    open_.cause = break_cause(
                        before,
                        span,
                        prefix_len,
                        summarized=span.call_index in compactions,
                        decode=decode,
                    )
                open_.add(span.prompt_token_ids, span)
                fragments.append(open_)
        before = span
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
