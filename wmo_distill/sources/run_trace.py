"""`wmo-run.json`: the stop reason that a token recorder beside the agent wrote down."""

from dataclasses import dataclass
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue

NAME = "wmo-run.json"


@dataclass(frozen=True, slots=True)
class RunTrace:
    """`word` is from the first file that holds one; the reference looks at the first file only."""

    word: str | None = None
    reference_word: str | None = None
    issues: tuple[Issue, ...] = ()


def read_run_trace(files: TrialFiles, root: str) -> RunTrace:
    """The trace in `root`/agent, or in `root` itself ("" for the trial directory)."""
    prefix = f"{root}/" if root else ""
    read = [files.read_json(prefix + name) for name in (f"agent/{NAME}", NAME)]
    found = [value for value in read if value is not Absent.MISSING]
    words = [_word(value) for value in found]
    word = next((w for w in words if w is not None), None)
    faulty = bool(words) and words[0] is None
    return RunTrace(
        word=word,
        reference_word=words[0] if words else None,
        issues=(Issue.RUN_TRACE_UNREADABLE,) if faulty else (),
    )


def _word(value: Any) -> str | None:
    word = value.get("stop_reason") if isinstance(value, dict) else None
    return word if isinstance(word, str) else None
