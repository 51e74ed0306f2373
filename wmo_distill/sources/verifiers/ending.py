"""Why a rollout ended, by the words of `verifiers`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wmo_distill.issues import Issue
from wmo_distill.records import StopReason

_WORDS = {
    "max_turns": StopReason.MAX_TURNS,
    "max_input_tokens": StopReason.BUDGET,
    "max_output_tokens": StopReason.BUDGET,
    "max_total_tokens": StopReason.BUDGET,
    "max_turn_tokens": StopReason.OUTPUT_TRUNCATED,
    "context_length": StopReason.CONTEXT_OVERFLOW,
    "compaction_failed": StopReason.CONTEXT_OVERFLOW,
    "harness_timeout": StopReason.BUDGET,
    "agent_timeout": StopReason.BUDGET,
    "setup_timeout": StopReason.NOT_RUN,
    "sandbox_error": StopReason.SESSION_DIED,
    "cancelled": StopReason.CANCELLED,
    "refusal": StopReason.NO_ACTION,
    "empty_action": StopReason.NO_ACTION,
}
_DONE = ("agent_completed", "user_closed")
_LATE = ("finalize_timeout", "scoring_timeout")
_FAULTS = (
    "harness_error", "toolset_error", "task_error", "interception_error", "tunnel_error",
    "env_error", "rollout_error",
)  # fmt: skip
_TOO_LONG = (400, 413)
_OLD_WORDS = {
    "max_turns_reached": StopReason.MAX_TURNS,
    "prompt_too_long": StopReason.CONTEXT_OVERFLOW,
    "timeout_reached": StopReason.BUDGET,
    "max_total_completion_tokens_reached": StopReason.BUDGET,
    "no_tools_called": StopReason.SUBMITTED,
}
_OLD_PROVIDER = ("ModelError", "EmptyModelResponseError", "InvalidModelResponseError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What a trace says of its end."""

    word: str | None = None
    failed: bool = False
    error: Mapping[str, Any] | None = None
    """The last one."""
    started: bool = True
    """Whether the agent ran at all."""
    cut: bool = False
    """Whether the main chat's last answer was cut off at the output cap."""
    turns: int = 0
    cap: int | None = None
    seconds: float | None = None
    allowed: float | None = None
    """Seconds that the agent had."""


def stop_of(signs: Signs) -> tuple[StopReason, tuple[Issue, ...]]:
    """The ending in our words; a stop function of a task's own says nothing that we know."""
    word = signs.word
    if word is None:
        return (_by_error(signs) if signs.failed else StopReason.UNKNOWN), ()
    if word in _WORDS:
        return _WORDS[word], ()
    if word in _DONE:
        return _done(signs), ()
    if word == "provider_error":
        return _provider(signs.error), ()
    if word in _FAULTS:
        return (StopReason.ERROR if signs.started else StopReason.NOT_RUN), ()
    if word == "error":
        return _by_error(signs), ()
    if word in _LATE:
        return _before_timeout(signs), (Issue.STOP_INFERRED,)
    return StopReason.UNKNOWN, (Issue.STOP_CONDITION_UNKNOWN,)


def old_stop_of(
    word: str | None, error: Any, truncated: bool
) -> tuple[StopReason, tuple[Issue, ...]]:
    """The ending of a row of the time before traces."""
    if error is not None:
        kind = error.get("error") if isinstance(error, dict) else error
        chain = str(error.get("error_chain_str", "")) if isinstance(error, dict) else ""
        named = (kind, *chain.split(" -> "))
        provider = any(name in _OLD_PROVIDER for name in named)
        if word in (None, "has_error"):
            return (StopReason.PROVIDER_ERROR if provider else StopReason.ERROR), ()
    if word in _OLD_WORDS:
        return _OLD_WORDS[word], ()
    if truncated:
        return StopReason.OUTPUT_TRUNCATED, ()
    if word == "has_error":
        return StopReason.ERROR, ()
    return StopReason.UNKNOWN, () if word is None else (Issue.STOP_CONDITION_UNKNOWN,)


def _done(signs: Signs) -> StopReason:
    return StopReason.OUTPUT_TRUNCATED if signs.cut else StopReason.SUBMITTED


def _before_timeout(signs: Signs) -> StopReason:
    """Why the agent had ended before grading took too long, which overwrote its own word."""
    if signs.seconds is not None and signs.allowed is not None and signs.seconds >= signs.allowed:
        return StopReason.BUDGET
    if signs.cap is not None and signs.turns >= signs.cap:
        return StopReason.MAX_TURNS
    return _done(signs)


def _by_error(signs: Signs) -> StopReason:
    error = signs.error or {}
    kind, message = error.get("type"), str(error.get("message") or "")
    if kind == "OverlongPromptError":
        return StopReason.CONTEXT_OVERFLOW
    if kind == "ProviderError":
        return _provider(error)
    if kind == "SandboxError":
        return StopReason.SESSION_DIED
    if kind == "HarnessError" and message.startswith("agent timeout"):
        return StopReason.BUDGET
    return StopReason.ERROR if signs.started else StopReason.NOT_RUN


def _provider(error: Mapping[str, Any] | None) -> StopReason:
    """A refused prompt that was too long is no failure of the endpoint."""
    error = error or {}
    message = str(error.get("message") or "").lower()
    long = "context" in message or (
        "prompt" in message and ("long" in message or "length" in message)
    )
    if error.get("status_code") in _TOO_LONG and long:
        return StopReason.CONTEXT_OVERFLOW
    return StopReason.PROVIDER_ERROR
