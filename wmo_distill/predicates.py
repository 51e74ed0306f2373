"""Words for "yes" and "no" that several parts need: each is decided here, once."""

import math
from collections.abc import Collection
from typing import Any

from wmo_distill.issues import Issue

_CUT = frozenset(
    {
        "length",  # OpenAI, vLLM, SGLang, TGI, Ollama, tinker
        "max_tokens",  # Anthropic, Bedrock, Gemini, Cohere
        "max_output_tokens",  # OpenAI Responses
        "max_length",
        "max_new_tokens",
        "model_length",  # Mistral
        "model_context_window_exceeded",  # Anthropic
        "context_length_exceeded",
        "limit",  # llama.cpp
    }
)
_ABORTED = frozenset({"abort", "aborted", "cancel", "cancelled", "canceled"})
_PREFIXES = ("finish_reason_", "stop_reason_")


def is_measured(
    reward: float | None,
    reward_valid: bool | None,
    *,
    infra_failed: bool = False,
    issues: Collection[str] = (),
) -> bool:
    """Whether a grade counts: a finite reward that is valid.

    What a cell calls an infrastructure failure does not count. A reward file in the place of a
    missing grade does: the caller asked for it.
    """
    graded = reward is not None and reward_valid is True and math.isfinite(reward)
    return graded and (not infra_failed or Issue.REWARD_FROM_FILE in issues)


def passes(reward: float | None, pass_at: float | None) -> bool | None:
    """Exactly 1.0, or at least `pass_at`; None without a reward."""
    if reward is None:
        return None
    return reward == 1.0 if pass_at is None else reward >= pass_at


def finish_reason_of(finish_reason: Any, stop_reason: Any = None) -> str | None:
    """The provider's word for why a call ended, None where none was recorded.

    SGLang's own interface has {"type": "length", ...}. A `stop_reason` is taken where there is no
    finish reason and it is a word for a limit or an abort: vLLM's names the stop string that was
    met, "</tool>", or is null.
    """
    word = finish_reason.get("type") if isinstance(finish_reason, dict) else finish_reason
    if isinstance(word, str):
        return word
    if isinstance(stop_reason, str) and (cut_at_cap(stop_reason) or aborted(stop_reason)):
        return stop_reason
    return None


def cut_at_cap(finish_reason: str | None) -> bool | None:
    """Whether a provider's finish reason says that a token limit ended the call.

    "length", "MAX_TOKENS" and "FINISH_REASON_MAX_TOKENS" do; None where none was recorded.
    """
    return None if finish_reason is None else _word(finish_reason) in _CUT


def aborted(finish_reason: str | None) -> bool | None:
    """Whether a provider's finish reason says that the call was stopped from outside."""
    return None if finish_reason is None else _word(finish_reason) in _ABORTED


def _word(finish_reason: str) -> str:
    # The text of a Python enumeration's member is "FinishReason.MAX_TOKENS".
    word = finish_reason.strip().lower().rpartition(".")[2].replace("-", "_").replace(" ", "_")
    for prefix in _PREFIXES:
        word = word.removeprefix(prefix)
    return word
