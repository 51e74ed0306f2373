"""`wmo-run.json`: the stop reason that a token recorder wrote down."""

from itertools import takewhile
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.evidence import RunTrace

NAME = "wmo-run.json"


def read_run_trace(files: TrialFiles, root: str) -> RunTrace:
    """The trace in `root`/agent, or in `root` itself ("" for the trial directory)."""
    prefix = f"{root}/" if root else ""
    places = (f"{prefix}agent/{NAME}", prefix + NAME)
    found = {place: files.read_json(place) for place in places}
    words = {p: _word(value) for p, value in found.items() if value is not Absent.MISSING}
    word = next((w for w in words.values() if w is not None), None)
    passed_over = list(takewhile(lambda w: w is None, words.values()))
    return RunTrace(
        word=word,
        reference_word=next((w for p, w in words.items() if files.stat(p) is not None), None),
        issues=(Issue.RUN_TRACE_UNREADABLE,) * len(passed_over),
    )


def _word(value: Any) -> str | None:
    word = value.get("stop_reason") if isinstance(value, dict) else None
    return word if isinstance(word, str) else None
