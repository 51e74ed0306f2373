"""Why a rollout ended: each word of `verifiers`, and what its errors say where a word does not."""

from typing import Any

import pytest

from wmo_distill.issues import Issue
from wmo_distill.sources.verifiers.ending import Signs, old_stop_of, stop_of

LONG = {"type": "ProviderError", "status_code": 400, "message": "maximum context length is 77"}
BUSY = {"type": "ProviderError", "status_code": 503, "message": "no context for you"}
SLOW = {"type": "HarnessError", "message": "agent timeout: rollout exceeded its 1.5s budget"}


@pytest.mark.parametrize(
    ("word", "signs", "expected"),
    [
        ("agent_completed", {}, "submitted"),
        ("agent_completed", {"cut": True}, "output_truncated"),
        ("agent_completed", {"failed": True, "error": {"type": "TaskError"}}, "submitted"),
        ("user_closed", {}, "submitted"),
        ("max_turns", {}, "max_turns"),
        ("max_input_tokens", {}, "budget"),
        ("max_output_tokens", {}, "budget"),
        ("max_total_tokens", {"cut": True}, "budget"),
        ("max_turn_tokens", {}, "output_truncated"),
        ("context_length", {}, "context_overflow"),
        ("compaction_failed", {}, "context_overflow"),
        ("harness_timeout", {}, "budget"),
        ("agent_timeout", {}, "budget"),
        ("setup_timeout", {}, "not_run"),
        ("provider_error", {"error": BUSY}, "provider_error"),
        ("provider_error", {"error": LONG}, "context_overflow"),
        ("provider_error", {"error": {**LONG, "message": "prompt too long"}}, "context_overflow"),
        ("provider_error", {"error": {**LONG, "message": "bad request"}}, "provider_error"),
        ("provider_error", {}, "provider_error"),
        ("sandbox_error", {}, "session_died"),
        *[
            (f"{name}_error", {"started": started}, "error" if started else "not_run")
            for name in (
                "harness", "toolset", "task", "interception", "tunnel", "env", "rollout"
            )
            for started in (True, False)
        ],
        ("error", {"error": {"type": "OverlongPromptError"}}, "context_overflow"),
        ("error", {"error": LONG}, "context_overflow"),
        ("error", {"error": BUSY}, "provider_error"),
        ("error", {"error": {"type": "SandboxError"}}, "session_died"),
        ("error", {"error": SLOW}, "budget"),
        ("error", {"error": {"type": "HarnessError", "message": "exited 3"}}, "error"),
        ("error", {"error": {"type": 7, "message": 8}, "started": False}, "not_run"),
        ("finalize_timeout", {"seconds": 2.0, "allowed": 1.5}, "budget"),
        ("scoring_timeout", {"turns": 3, "cap": 3}, "max_turns"),
        ("scoring_timeout", {"turns": 2, "cap": 3, "cut": True}, "output_truncated"),
        ("scoring_timeout", {"seconds": 1.0, "allowed": 1.5}, "submitted"),
        ("cancelled", {}, "cancelled"),
        ("refusal", {}, "no_action"),
        ("empty_action", {}, "no_action"),
        (None, {"failed": True, "error": SLOW}, "budget"),
        (None, {"failed": True, "started": False}, "not_run"),
        (None, {"error": BUSY}, "unknown"),
        ("my_own", {}, "unknown"),
    ],
)  # fmt: skip
def test_ending(word: str | None, signs: dict[str, Any], expected: str) -> None:
    reason, issues = stop_of(Signs(word=word, **signs))
    assert reason == expected
    late = word in ("finalize_timeout", "scoring_timeout")
    said = (Issue.STOP_INFERRED,) if late else ()
    assert issues == ((Issue.STOP_CONDITION_UNKNOWN,) if word == "my_own" else said)


@pytest.mark.parametrize(
    ("word", "error", "truncated", "expected"),
    [
        ("max_turns_reached", None, False, "max_turns"),
        ("max_turns_reached", None, True, "max_turns"),
        ("prompt_too_long", None, True, "context_overflow"),
        ("timeout_reached", None, False, "budget"),
        ("max_total_completion_tokens_reached", None, True, "budget"),
        ("no_tools_called", None, False, "submitted"),
        ("has_error", {"error": "ModelError"}, False, "provider_error"),
        (
            "has_error",
            {"error": "X", "error_chain_str": "X -> ModelError"},
            False,
            "provider_error",
        ),
        ("has_error", {"error": "ToolError"}, False, "error"),
        ("has_error", "ModelError", False, "provider_error"),
        ("has_error", None, False, "error"),
        (None, {"error": ["?"]}, False, "error"),
        (None, None, True, "output_truncated"),
        (None, None, False, "unknown"),
        ("my_own", None, False, "unknown"),
    ],
)
def test_ending_of_a_row(word: str | None, error: Any, truncated: bool, expected: str) -> None:
    reason, issues = old_stop_of(word, error, truncated)
    assert reason == expected
    assert bool(issues) is (word == "my_own")
