"""One call of the model: the ids it was given, the ids it sampled, their log-probabilities.

Prompts are held as (prefix_len, prompt_suffix) against the call before, so memory is linear in
tokens however often a history is repeated. `prompt_token_ids` gives the whole prompt back.
"""

from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Logprobs = NDArray[np.float64]
Versions = tuple[tuple[str, int], ...]
_Scalar = TypeVar("_Scalar", bound=np.generic)

ID_LIMIT = 2**31
IMPLAUSIBLE_LOGPROB = -1000.0
NO_IDS: Ids = np.zeros(0, np.int32)
NO_IDS.flags.writeable = False


def as_ids(values: Any) -> Ids:
    """Token ids as an int32 array; ValueError for anything that is not an integer in [0, 2^31)."""
    if isinstance(values, np.ndarray) and values.dtype == np.int32 and values.ndim == 1:
        array = values
    elif isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise ValueError(f"token ids: expected a flat list of integers, found {values.dtype}")
        if values.size and not (values.min() >= 0 and values.max() < ID_LIMIT):
            raise ValueError("token ids: expected integers in [0, 2^31)")
        array = values.astype(np.int32)
    else:
        items = list(values)
        if not all(type(x) is int and 0 <= x < ID_LIMIT for x in items):
            raise ValueError("token ids: expected integers in [0, 2^31)")
        array = np.array(items, np.int32)
    if array.size and int(array.min()) < 0:
        raise ValueError("token ids: expected integers in [0, 2^31)")
    return frozen(array)


def as_logprobs(values: Any) -> Logprobs:
    """Log-probabilities as a float64 array; None and NaN mean that element was not recorded."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1:
        return frozen(values)
    items = [float("nan") if x is None else x for x in values]
    if any(isinstance(x, bool) or not isinstance(x, (int, float)) for x in items):
        raise ValueError("log-probabilities: expected numbers or null")
    return frozen(np.array(items, np.float64))


def frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """The same values, read-only."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def common_prefix(a: Ids, b: Ids) -> int:
    """How many leading ids two arrays share."""
    n = min(a.size, b.size)
    if not n:
        return 0
    differs = a[:n] != b[:n]
    first = int(differs.argmax())
    return first if differs[first] else n


class TokenSpan:
    """One call of the model.

    `sampled_token_ids` is None where the completion was not recorded, empty where nothing was
    sampled. `sampled_logprobs` is one float64 for each sampled id (NaN: that element was not
    recorded), or None as a whole. `versions` are runs of one policy version over the sampled ids,
    each with the place where it starts; `sampling` is JSON. Both are None where all is as the
    record says. `used` is False where the agent went on from another answer.
    """

    __slots__ = (
        "_before",
        "_history",
        "_prompt",
        "call_index",
        "extra",
        "finish_reason",
        "prefix_len",
        "prompt_suffix",
        "sampled_logprobs",
        "sampled_token_ids",
        "sampling",
        "segment",
        "used",
        "versions",
    )

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
        prompt = as_ids(prompt_token_ids)
        self._set(
            call_index,
            segment,
            None if sampled_token_ids is None else as_ids(sampled_token_ids),
            None if sampled_logprobs is None else as_logprobs(sampled_logprobs),
            finish_reason,
            versions,
            sampling,
            used,
            extra,
        )
        self._before: TokenSpan | None = None
        self.prefix_len = 0
        self.prompt_suffix: Ids = prompt
        self._prompt: Ids | None = prompt

    @classmethod
    def after(
        cls,
        before: "TokenSpan | None",
        call_index: int,
        prefix_len: int,
        prompt_suffix: Ids,
        sampled_token_ids: Ids | None = None,
        sampled_logprobs: Logprobs | None = None,
        *,
        segment: int = 0,
        finish_reason: str | None = None,
        versions: Versions | None = None,
        sampling: str | None = None,
        used: bool | None = None,
        extra: str | None = None,
    ) -> "TokenSpan":
        """A span whose prompt is (before's prompt + sampled ids)[:prefix_len] + prompt_suffix.

        The caller has proved that `prefix_len` is the longest common prefix, and the ids sound.
        """
        span = cls.__new__(cls)
        span._set(
            call_index,
            segment,
            sampled_token_ids,
            sampled_logprobs,
            finish_reason,
            versions,
            sampling,
            used,
            extra,
        )
        span._before = before
        span.prefix_len = prefix_len
        span.prompt_suffix = frozen(prompt_suffix)
        span._prompt = None if before is not None else span.prompt_suffix
        return span

    def _set(
        self,
        call_index: int,
        segment: int,
        sampled: Ids | None,
        logprobs: Logprobs | None,
        finish_reason: str | None,
        versions: Versions | None,
        sampling: str | None,
        used: bool | None,
        extra: str | None,
    ) -> None:
        if logprobs is not None and logprobs.size != (0 if sampled is None else sampled.size):
            raise ValueError(
                f"call {call_index}: {0 if sampled is None else sampled.size} sampled ids but "
                f"{logprobs.size} log-probabilities"
            )
        self.call_index = call_index
        self.segment = segment
        self.sampled_token_ids: Ids | None = None if sampled is None else frozen(sampled)
        self.sampled_logprobs: Logprobs | None = None if logprobs is None else frozen(logprobs)
        self.finish_reason = finish_reason
        self.versions = versions or None
        self.sampling = sampling
        self.used = used
        self.extra = extra
        self._history: _History | None = None

    @property
    def sampled(self) -> Ids:
        """The sampled ids, empty where they were not recorded."""
        return NO_IDS if self.sampled_token_ids is None else self.sampled_token_ids

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
        if self._prompt is None:
            chain = [self]
            while chain[-1]._prompt is None and chain[-1]._before is not None:
                chain.append(chain[-1]._before)
            _fill_prompts(chain[::-1])
        assert self._prompt is not None
        return self._prompt

    def delta(self, before: "TokenSpan | None") -> tuple[int, Ids]:
        """(prefix_len, prompt_suffix) against `before`, the span before in the same segment."""
        if before is self._before:
            return self.prefix_len, self.prompt_suffix
        prompt = self.prompt_token_ids
        if before is None:
            return 0, prompt
        shared = common_prefix(before.prompt_token_ids, prompt)
        if shared == before.prompt_len:
            shared += common_prefix(before.sampled, prompt[shared:])
        return shared, prompt[shared:]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenSpan):
            return NotImplemented
        return (
            self.call_index == other.call_index
            and self.segment == other.segment
            and self.finish_reason == other.finish_reason
            and self.versions == other.versions
            and self.sampling == other.sampling
            and self.used == other.used
            and self.extra == other.extra
            and self.prompt_len == other.prompt_len
            and _same(self.sampled_token_ids, other.sampled_token_ids)
            and _same(self.sampled_logprobs, other.sampled_logprobs)
            and np.array_equal(self.prompt_token_ids, other.prompt_token_ids)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        # Chains are linked backwards: a span pickled alone carries its whole prompt.
        named = {name: getattr(self, name) for name in _NAMED}
        values = (
            self.call_index,
            self.prompt_token_ids,
            self.sampled_token_ids,
            self.sampled_logprobs,
        )
        return _rebuild, (values, named)

    def __repr__(self) -> str:
        return (
            f"TokenSpan(segment={self.segment}, call_index={self.call_index}, "
            f"prompt={self.prompt_len} ids, sampled={self.sampled.size} ids)"
        )


_NAMED = ("segment", "finish_reason", "versions", "sampling", "used", "extra")


def _rebuild(values: tuple[Any, ...], named: dict[str, Any]) -> TokenSpan:
    return TokenSpan(*values, **named)


def _same(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


class _History:
    """A growing array whose leading views are the prompts of a chat that only ever extends."""

    __slots__ = ("array", "used")

    def __init__(self, prompt: Ids, room: int) -> None:
        self.array: Ids = np.empty(room, np.int32)
        self.array[: prompt.size] = prompt
        self.used = prompt.size


def _fill_prompts(chain: list[TokenSpan]) -> None:
    """Build the prompts of a chain whose first span has its own.

    Each continues the array of the one before where it extends it, so that reading every prompt
    of a chat takes memory linear in its tokens.
    """
    for before, span in pairwise(chain):
        prompt, history = before._prompt, before._history
        assert prompt is not None
        kept = min(span.prefix_len, prompt.size)
        if (
            history is None
            or kept < prompt.size
            or history.used != prompt.size
            or history.array.size < span.prompt_len
        ):
            history = _History(prompt[:kept], 2 * span.prompt_len)
        array, prefix_len = history.array, span.prefix_len
        array[kept:prefix_len] = before.sampled[: prefix_len - kept]
        array[prefix_len : span.prompt_len] = span.prompt_suffix
        history.used = span.prompt_len
        span._history = history
        span._prompt = frozen(array[: span.prompt_len])
