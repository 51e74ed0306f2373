"""A raw reply claims completion where the harness would have taken it so."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.sources.reply import claims_completion

TEXT = st.text(max_size=30)
QUOTED = st.sampled_from(
    ["echo '\"task_complete\": true'", "<task_complete>true</task_complete>", '{"a": 1}', "{", "}"]
)


@given(complete=st.booleans(), keystrokes=TEXT | QUOTED, before=st.text("ab \n`", max_size=9))
def test_json_says_it_itself(complete: bool, keystrokes: str, before: str) -> None:
    """Whatever a command types, and whatever prose stands around."""
    reply = {
        "analysis": keystrokes,
        "plan": "p",
        "commands": [{"keystrokes": keystrokes, "duration": 0.1}],
        "task_complete": complete,
    }
    for indent in (None, 2):
        text = before + json.dumps(reply, indent=indent) + "\nafter"
        assert claims_completion(text) is complete


@given(complete=st.booleans(), keystrokes=TEXT | QUOTED)
def test_xml_says_it_outside_of_its_commands(complete: bool, keystrokes: str) -> None:
    text = (
        f"<response><analysis>a</analysis><commands><keystrokes>{keystrokes}</keystrokes>"
        f"</commands><task_complete>{'true' if complete else 'false'}</task_complete></response>"
    )
    assert claims_completion(text) is complete


@given(TEXT)
def test_any_text_has_an_answer(text: str) -> None:
    assert claims_completion(text) in (True, False, None)


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("", None),
        ("I am done.", None),
        ("[1, 2]", None),
        ("{}", None),
        ('{"commands": []}', False),
        ('{"commands": [], "task_complete": "true"}', True),
        ('{"commands": [], "task_complete": 0}', False),
        ('{"commands": [], "task_complete": null}', False),
        ('{"commands": [{"task_complete": true}], "task_complete": false}', False),
        ('{"commands": [], "task_complete" : true', True),
        ('{"commands": [, "task_complete": false', False),
        ('<think>{"keys": [</think>{"commands": [], "task_complete": true}', True),
        ('{[}{"commands": [{"task_complete": true}], "task_complete": false}', False),
        ('<think>{"x": 1}</think>{"commands": [], "task_complete": false}', False),
        ("<task_complete> TRUE </task_complete>", True),
        ("<response><commands></commands></response>", False),
    ],
)
def test_replies(text: str, claims: Any) -> None:
    assert claims_completion(text) is claims


@pytest.mark.parametrize("text", ["{" * 100_000, '{"a":' * 100_000, "[" * 100_000])
def test_a_hostile_reply_is_read_in_a_moment(text: str) -> None:
    assert claims_completion(text) is None
