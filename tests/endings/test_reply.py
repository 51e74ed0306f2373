"""A reply claims completion where Harbor's own parser takes it so, and nowhere else."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.sources.harbor.reply import claims_completion

VERDICTS = Path(__file__).parents[2] / "fixtures" / "replies" / "harbor_verdicts.json"
TEXT = st.text(max_size=30)
QUOTED = st.sampled_from(
    ["echo '\"task_complete\": true'", "<task_complete>true</task_complete>", '{"a": 1}', "{", "}"]
)


@pytest.mark.parametrize("parser", ["json", "xml"])
def test_verdicts_are_those_of_harbor(parser: str) -> None:
    """The parsers of Harbor 0.26.0 and 0.1.45 gave the verdicts in the file; null: refused."""
    rows: list[dict[str, Any]] = json.loads(VERDICTS.read_text())
    assert {row[parser] for row in rows} == {True, False, None}
    wrong = [row for row in rows if claims_completion(row["text"], parser) is not row[parser]]
    assert wrong == []


@given(complete=st.booleans(), keystrokes=TEXT | QUOTED, before=st.text("ab \n`", max_size=9))
def test_json_says_it_itself(complete: bool, keystrokes: str, before: str) -> None:
    """Whatever a command types, and whatever prose is around."""
    reply = {
        "analysis": keystrokes,
        "plan": "p",
        "commands": [{"keystrokes": keystrokes, "duration": 0.1}],
        "task_complete": complete,
    }
    for indent in (None, 2):
        text = before + json.dumps(reply, indent=indent) + "\nafter"
        assert claims_completion(text, "json") is complete
        assert claims_completion(text) is complete


@given(TEXT)
def test_any_text_has_an_answer(text: str) -> None:
    for parser in (None, "json", "xml", "other"):
        assert claims_completion(text, parser) in (True, False, None)


WHOLE = '{"analysis": "", "plan": "", "commands": [], "task_complete": true}'


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        (WHOLE, True),
        (WHOLE.replace("true", "1"), True),
        (WHOLE.replace("true", "0"), False),
        (WHOLE.replace("true", "null"), False),
        (WHOLE.replace("true", '" true "'), False),
        (WHOLE.removesuffix("}"), True),
        (WHOLE.replace(",", "", 1), None),
        (WHOLE.replace('"plan": "", ', ""), None),
        (WHOLE.replace("[]", "[5]"), True),
        (WHOLE.replace("[]", "[5]").replace("true", "false"), None),
        (f"<think>{WHOLE}</think>" + WHOLE.replace("true", "false"), True),
        ('<think>"task_complete": true</think>' + WHOLE.replace("true", "false"), False),
        ('<think>"task_complete": true</think>', None),
        ("<response><commands></commands></response>", False),
        ("<response><task_complete> TRUE </task_complete></response>", True),
        ("<task_complete>true</task_complete>", None),
    ],
)
def test_replies_where_no_parser_is_recorded(text: str, claims: Any) -> None:
    assert claims_completion(text) is claims


def test_the_recorded_parser_decides() -> None:
    xml = "<response><task_complete>true</task_complete></response>"
    assert claims_completion(xml, "xml") is True
    assert claims_completion(xml, "json") is None
    assert claims_completion(WHOLE, "xml") is None


@pytest.mark.parametrize(
    "text", ["{" * 100_000, '{"a":' * 100_000, "[" * 100_000, "{" + "{}" * 50_000, '"' * 99_999]
)
def test_a_hostile_reply_is_refused(text: str) -> None:
    assert claims_completion(text) is None
