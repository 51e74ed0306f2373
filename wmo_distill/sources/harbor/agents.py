"""Which of Harbor's agents can record the tokens that they sample."""

from enum import StrEnum
from typing import Any

from wmo_distill.sources.values import at


class AgentKind(StrEnum):
    """What can be expected of the trials of an agent."""

    RECORDS = "records"
    """Samples a model and writes its tokens, if its settings say so."""
    NEEDS_RECORDER = "needs_recorder"
    """Samples a model and writes no tokens: a recorder has to."""
    NO_MODEL = "no_model"
    """Samples no model, so that nothing can be missing."""
    UNKNOWN = "unknown"
    """None of Harbor's own."""


# By the names of Harbor 0.26.0 and the places where its agents fill `rollout_details`.
_RECORDS = ("terminus-2", "computer-1")
_NO_MODEL = ("oracle", "nop")
_NEEDS_RECORDER = (
    "acp", "aider", "antigravity-cli", "antigravity-sdk", "claude-code", "cline-cli", "code-puppy",
    "codex", "copilot-cli", "cortex-code", "cursor-cli", "deerflow", "devin", "dspy-rlm", "eve",
    "fabric", "fx", "fx-dev", "gemini-cli", "goose", "grok-build", "hermes", "junie", "kimi-cli",
    "kimi-code", "langgraph", "mcode", "mimo", "mini-swe-agent", "muse-code", "nemo-agent",
    "openclaw", "opencode", "opencode-v2", "openhands", "openhands-sdk", "pi", "qwen-coder",
    "rovodev-cli", "strands", "swe-agent", "terminus", "terminus-1", "trae-agent", "vibe",
)  # fmt: skip
_KINDS = {
    **dict.fromkeys(_RECORDS, AgentKind.RECORDS),
    **dict.fromkeys(_NO_MODEL, AgentKind.NO_MODEL),
    **dict.fromkeys(_NEEDS_RECORDER, AgentKind.NEEDS_RECORDER),
}


def agent_kind(config: Any) -> AgentKind:
    """The kind of a trial's agent, from its config; a class of the user's own is unknown."""
    name = at(config, "agent", "name")
    if at(config, "agent", "import_path") is not None or not isinstance(name, str):
        return AgentKind.UNKNOWN
    return _KINDS.get(name, AgentKind.UNKNOWN)


def records_tokens(name: str) -> bool:
    """Whether this is the name of an agent of Harbor's that can record tokens."""
    return name in _RECORDS
