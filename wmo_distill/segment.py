"""A chat in flat arrays: the ids each call was given, the ids it sampled, log-probabilities.

Each prompt is held as (prefix_len, prompt_suffix) against the call before, so memory is linear in
tokens however often a history is repeated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import NO_IDS, Ids, Lists, Logprobs, frozen

Versions = tuple[tuple[str, int], ...]


class Coded(NamedTuple):
    """One call, its prompt coded against the call before; the fields are those of `TokenSpan`."""

    call_index: int
    prefix_len: int
    prompt_suffix: Ids
    sampled_token_ids: Ids | None = None
    sampled_logprobs: Logprobs | None = None
    finish_reason: str | None = None
    versions: Versions | None = None
    sampling: str | None = None
    used: bool | None = None
    extra: str | None = None


_COLUMNS = attrgetter(*Coded._fields)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The calls of one chat in flat arrays; entry i of each column is that of call i.

    The prompt of a call is (prompt + sampled ids of the call before)[:prefix_len] + prompt_suffix,
    and `prefix_len` is as long as it can be.
    """

    number: int
    call_index: NDArray[np.int32]
    prefix_len: NDArray[np.int32]
    prompt_suffix: Lists
    sampled_token_ids: Lists
    sampled_logprobs: Lists
    finish_reason: Sequence[str | None]
    versions: Sequence[Versions | None]
    sampling: Sequence[str | None]
    used: Sequence[bool | None]
    extra: Sequence[str | None]
    _prompts: list[Ids] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, number: int, calls: Iterable[Coded]) -> "Segment":
        columns: list[Any] = list(zip(*calls, strict=True))
        call_index, prefix_len, suffix, sampled, logprobs, *words = columns
        return cls(
            number,
            np.array(call_index, np.int32),
            np.array(prefix_len, np.int32),
            Lists.of(suffix, np.int32),
            Lists.of(sampled, np.int32),
            Lists.of(logprobs, np.float64),
            *words,
        ).checked()

    def part(self, number: int, start: int, stop: int) -> "Segment":
        """The calls of a chat that are next to each other; the first of them is its first."""
        place = slice(start, stop)
        return Segment(number, *[column[place] for column in self.columns])

    def checked(self) -> "Segment":
        """The same; ValueError unless log-probabilities are one for each sampled id."""
        ids, logprobs = self.sampled_token_ids.lengths, self.sampled_logprobs.lengths
        for at in np.flatnonzero((ids != logprobs) & self.sampled_logprobs.present).tolist():
            raise ValueError(
                f"call {self.call_index[at]}: {ids[at]} sampled ids but "
                f"{logprobs[at]} log-probabilities"
            )
        return self

    @property
    def columns(self) -> tuple[Any, ...]:
        """Those that `Coded` names, in its order."""
        columns: tuple[Any, ...] = _COLUMNS(self)
        return columns

    def __len__(self) -> int:
        return self.call_index.size

    def sampled(self, at: int) -> Ids:
        """The sampled ids of a call, empty where they were not recorded."""
        ids = self.sampled_token_ids[at]
        return NO_IDS if ids is None else ids

    def suffix(self, at: int) -> Ids:
        """What a prompt adds to `prefix_len` ids of the call before."""
        ids = self.prompt_suffix[at]
        assert ids is not None
        return ids

    @property
    def n_sampled(self) -> int:
        """How many ids its calls sampled."""
        return self.sampled_token_ids.flat.size

    @property
    def prompt_lens(self) -> NDArray[np.int32]:
        return self.prefix_len + self.prompt_suffix.lengths

    @property
    def sequence_lens(self) -> NDArray[np.int32]:
        """Prompts and sampled ids together."""
        return self.prompt_lens + self.sampled_token_ids.lengths

    @property
    def extends(self) -> NDArray[np.bool_]:
        """Whether a prompt extends the call before: begins with its prompt and all it sampled."""
        before = np.concatenate([np.zeros(1, np.int32), self.sequence_lens[:-1]])
        extends: NDArray[np.bool_] = (before > 0) & (self.prefix_len == before)
        return extends

    def prompt(self, at: int) -> Ids:
        """A whole prompt, a read-only int32 array."""
        if at == 0:
            return self.suffix(0)
        if at >= len(self._prompts):
            self._fill_prompts(at)
        return self._prompts[at]

    def _fill_prompts(self, last: int) -> None:
        """Build the prompts up to call `last`, and as many again as there are.

        Prompts of which each keeps the whole one before share an array, so that reading every
        prompt of a clean chat takes memory linear in its tokens.
        """
        sizes, prompts = self.prompt_lens, self._prompts
        last = max(last, 2 * len(prompts))
        cut = np.flatnonzero(self.prefix_len[1:] < sizes[:-1]) + 1
        for start, stop in pairwise([0, *cut.tolist(), len(self)]):
            if start > last:
                break
            if stop <= len(prompts):
                continue
            room = np.empty(sizes[stop - 1], np.int32)
            kept = int(self.prefix_len[start])
            if start:
                room[:kept] = prompts[start - 1][:kept]
            for at in range(start, stop):
                prefix, size = int(self.prefix_len[at]), int(sizes[at])
                if at > start:
                    room[kept:prefix] = self.sampled(at - 1)[: prefix - kept]
                room[prefix:size] = self.suffix(at)
                prompts.append(frozen(room[:size]))
                kept = size

    def __reduce__(self) -> tuple[Any, ...]:
        return Segment, (self.number, *self.columns)
