"""One call of the model, as a view of its chat."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wmo_distill.arrays import Ids, Logprobs, as_ids, as_logprobs, common_prefix
from wmo_distill.segment import Coded, Segment, Versions


class TokenSpan:
    """One call of the model, a view of its chat.

    `sampled_token_ids` is None where the completion was not recorded, empty where nothing was
    sampled. `sampled_logprobs` is one float64 for each sampled id (NaN: that element was not
    recorded), or None as a whole. `versions` are runs of one policy version over the sampled ids,
    each with the place where it starts; `sampling` is JSON. Both are None where all is as the
    record says. `used` is False where the agent went on from another answer.
    """

    __slots__ = ("_at", "_chat")
    _chat: Segment
    _at: int

    def __init__(
        self,
        call_index: int,
        prompt_token_ids: Any,
        sampled_token_ids: Any = None,
        sampled_logprobs: Any = None,
        *,
        segment: int = 0,
        finish_reason: str | None = None,
        versions: Versions | None = None,
        sampling: str | None = None,
        used: bool | None = None,
        extra: str | None = None,
    ) -> None:
        call = Coded(
            call_index,
            0,
            as_ids(prompt_token_ids),
            None if sampled_token_ids is None else as_ids(sampled_token_ids),
            None if sampled_logprobs is None else as_logprobs(sampled_logprobs),
            finish_reason,
            versions or None,
            sampling,
            used,
            extra,
        )
        self._chat, self._at = Segment.of(segment, [call]), 0

    @classmethod
    def of(cls, chat: Segment, at: int) -> "TokenSpan":
        span = cls.__new__(cls)
        span._chat, span._at = chat, at
        return span

    @property
    def segment(self) -> int:
        return self._chat.number

    @property
    def call_index(self) -> int:
        return int(self._chat.call_index[self._at])

    @property
    def prefix_len(self) -> int:
        """How many leading ids it shares with the call before in its chat."""
        return int(self._chat.prefix_len[self._at])

    @property
    def prompt_suffix(self) -> Ids:
        """What else is in the prompt."""
        return self._chat.suffix(self._at)

    @property
    def sampled_token_ids(self) -> Ids | None:
        return self._chat.sampled_token_ids[self._at]

    @property
    def sampled_logprobs(self) -> Logprobs | None:
        return self._chat.sampled_logprobs[self._at]

    @property
    def finish_reason(self) -> str | None:
        return self._chat.finish_reason[self._at]

    @property
    def versions(self) -> Versions | None:
        return self._chat.versions[self._at]

    @property
    def sampling(self) -> str | None:
        return self._chat.sampling[self._at]

    @property
    def used(self) -> bool | None:
        return self._chat.used[self._at]

    @property
    def extra(self) -> str | None:
        return self._chat.extra[self._at]

    @property
    def sampled(self) -> Ids:
        """The sampled ids, empty where they were not recorded."""
        return self._chat.sampled(self._at)

    @property
    def prompt_len(self) -> int:
        return self.prefix_len + self.prompt_suffix.size

    @property
    def sequence_len(self) -> int:
        """Prompt and sampled ids together."""
        return self.prompt_len + self.sampled.size

    @property
    def prompt_token_ids(self) -> Ids:
        """The whole prompt, a read-only int32 array; prompts of a clean chat share one buffer."""
        return self._chat.prompt(self._at)

    def _coded(self, before: "TokenSpan | None") -> Coded:
        """Against `before`, the call before in another chat than its own."""
        prompt = self.prompt_token_ids
        shared = 0
        if before is not None:
            shared = common_prefix(before.prompt_token_ids, prompt)
            if shared == before.prompt_len:
                shared += common_prefix(before.sampled, prompt[shared:])
        return Coded(self.call_index, shared, prompt[shared:], *self._values[2:])

    @property
    def _values(self) -> tuple[Any, ...]:
        return (self.call_index, self.prompt_token_ids, *(getattr(self, n) for n in _NAMED))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenSpan):
            return NotImplemented
        return self.segment == other.segment and all(map(_same, self._values, other._values))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        # A span pickled alone carries its whole prompt, and nothing else of its chat.
        call = self._coded(None)
        return _alone, (self.segment, call)

    def __repr__(self) -> str:
        return (
            f"TokenSpan(segment={self.segment}, call_index={self.call_index}, "
            f"prompt={self.prompt_len} ids, sampled={self.sampled.size} ids)"
        )


_NAMED = Coded._fields[3:]


def _alone(number: int, call: Coded) -> TokenSpan:
    return TokenSpan.of(Segment.of(number, [call]), 0)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return a is b or bool(type(a) is type(b) and a == b)


def spans_of(chat: Segment) -> list[TokenSpan]:
    return [TokenSpan.of(chat, at) for at in range(len(chat))]


def in_order(numbers: Iterable[int], chats: Mapping[int, Segment]) -> tuple[TokenSpan, ...]:
    """All calls of these chats; `numbers` says from which of them each next one is."""
    calls = {number: iter(spans_of(chat)) for number, chat in chats.items()}
    return tuple(next(calls[number]) for number in numbers)


def chat_of(spans: Sequence[TokenSpan]) -> Segment:
    """These calls, in this order, as one chat."""
    whole = spans[0]._chat
    if len(whole) == len(spans) and all(
        span._chat is whole and span._at == at for at, span in enumerate(spans)
    ):
        return whole
    coded = [span._coded(before) for before, span in zip([None, *spans], spans, strict=False)]
    return Segment.of(spans[0].segment, coded)


def chats_of(spans: Iterable[TokenSpan]) -> dict[int, Segment]:
    """The calls of each chat, in the order given, by its number."""
    found: dict[int, list[TokenSpan]] = {}
    for span in spans:
        found.setdefault(span.segment, []).append(span)
    return {number: chat_of(calls) for number, calls in found.items()}
