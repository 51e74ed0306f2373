"""The stop reason that a recorder wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.run_trace import RunTrace, read_run_trace

GOOD = {"stop_reason": "max_turns"}
FAULT = (Issue.RUN_TRACE_UNREADABLE,)


@pytest.mark.parametrize(
    ("agent", "root", "trace"),
    [
        (None, None, RunTrace()),
        (GOOD, None, RunTrace("max_turns", "max_turns")),
        (None, GOOD, RunTrace("max_turns", "max_turns")),
        ({"stop_reason": "a"}, GOOD, RunTrace("a", "a")),
        ("{", GOOD, RunTrace("max_turns", None, FAULT)),
        ("", GOOD, RunTrace("max_turns", None, FAULT)),
        ("[]", GOOD, RunTrace("max_turns", None, FAULT)),
        ({"stop_reason": 5}, GOOD, RunTrace("max_turns", None, FAULT)),
        ({}, GOOD, RunTrace("max_turns", None, FAULT)),
        ({}, None, RunTrace(None, None, FAULT)),
        ({}, "{", RunTrace(None, None, FAULT * 2)),
        (GOOD, "{", RunTrace("max_turns", "max_turns")),
        ({"stop_reason": ""}, GOOD, RunTrace("", "")),
    ],
)
@pytest.mark.parametrize("step", ["", "steps/one"])
def test_the_first_file_that_holds_a_word(
    tmp_path: Path, agent: Any, root: Any, trace: RunTrace, step: str
) -> None:
    (tmp_path / step / "agent").mkdir(parents=True)
    for place, content in (("agent/wmo-run.json", agent), ("wmo-run.json", root)):
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (tmp_path / step / place).write_text(text)
    assert read_run_trace(TrialFiles(tmp_path), step) == trace


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "wmo-run.json").write_bytes(b'{"stop_reason": "\xe9"}')
    assert read_run_trace(TrialFiles(tmp_path), "") == RunTrace(None, None, FAULT)


def test_a_directory_of_that_name(tmp_path: Path) -> None:
    """The reference looks at regular files alone, and so goes on to the second place."""
    (tmp_path / "agent/wmo-run.json").mkdir(parents=True)
    (tmp_path / "wmo-run.json").write_text(json.dumps(GOOD))
    trace = read_run_trace(TrialFiles(tmp_path), "")
    assert trace == RunTrace("max_turns", "max_turns", FAULT)
