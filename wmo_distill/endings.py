"""Words for how an episode ended."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why the agent's episode ended."""

    SUBMITTED = "submitted"
    MAX_TURNS = "max_turns"
    BUDGET = "budget"
    CONTEXT_OVERFLOW = "context_overflow"
    OUTPUT_TRUNCATED = "output_truncated"
    PROVIDER_ERROR = "provider_error"
    SESSION_DIED = "session_died"
    CANCELLED = "cancelled"
    NOT_RUN = "not_run"
    ERROR = "error"
    NO_ACTION = "no_action"
    NO_TOOL_CALL = "no_tool_call"
    UNPARSED_TOOL_CALL = "unparsed_tool_call"
    UNKNOWN_DONE_REASON = "unknown_done_reason"
    UNKNOWN = "unknown"


class Completion(StrEnum):
    """How far the agent got in declaring the task complete; terminus-2 asks back once."""

    NONE = "none"
    CLAIMED = "claimed"
    CONFIRMED = "confirmed"
