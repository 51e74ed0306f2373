"""Calls, fragments and tokens of an episode's chats."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wmo_distill.segment import Segment


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Totals of one episode's spans; all but `subagent_tokens` count segment 0."""

    n_calls: int
    fragments: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    prompt_tokens: int
    subagent_tokens: int
    expansion: float | None


def count_tokens(chats: Mapping[int, Segment]) -> TokenCounts:
    """A fragment is a run of calls whose prompts each extend all of the call before."""
    main = chats.get(0)
    lengths = [] if main is None else _fragment_lengths(main)
    total, longest = sum(lengths), max(lengths, default=0)
    output = 0 if main is None else main.n_sampled
    return TokenCounts(
        n_calls=0 if main is None else len(main),
        fragments=len(lengths),
        input_tokens=total - output,
        output_tokens=output,
        total_tokens=total,
        prompt_tokens=0 if main is None else int(main.prompt_lens.sum(dtype=np.int64)),
        subagent_tokens=sum(
            sum(_fragment_lengths(chat)) for number, chat in chats.items() if number
        ),
        expansion=total / longest if longest else None,
    )


def _fragment_lengths(chat: Segment) -> list[int]:
    """The length of each fragment's last call, prompt and sampled ids."""
    ends = np.append(~chat.extends[1:], True)
    lengths: list[int] = chat.sequence_lens[ends].tolist()
    return lengths
