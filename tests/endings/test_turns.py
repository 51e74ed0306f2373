"""The turns of a trajectory, the text of a message, and the first prompts of summarizers."""

from pathlib import Path
from typing import Any

import pytest

from tests.endings.test_trajectory import claim, ids_of, read, step, work, write
from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.harbor.trajectory import (
    message_text,
    summarizer_prompts,
)

PARSE_ERROR = "Previous response had parsing errors:\nERROR: No valid JSON found"


def failed(answer: str | None = PARSE_ERROR) -> dict[str, Any]:
    observation = {} if answer is None else {"observation": {"results": [{"content": answer}]}}
    return {"source": "agent", "message": "not json", **observation}


class TestTurns:
    """What a turn says, as (claims, parse_error)."""

    def turns(self, root: Path, *steps: dict[str, Any]) -> list[tuple[bool, bool]]:
        return [(s.claims, s.parse_error) for s in read(root, *steps).steps]

    def test_a_reply_that_did_not_parse(self, tmp_path: Path) -> None:
        spoken = step(observation={"results": [{"content": "New Terminal Output:\n"}]})
        assert self.turns(tmp_path, claim(), failed(), failed(None), spoken, step()) == [
            (True, False),
            (False, True),
            (False, True),
            (False, False),
            (False, False),
        ]

    @pytest.mark.parametrize("calls", [{}, "x", 3, [None], ["mark_task_complete"], [{}], []])
    def test_tool_calls_of_any_type(self, tmp_path: Path, calls: Any) -> None:
        assert self.turns(tmp_path, claim(), step(tool_calls=calls)) == [
            (True, False),
            (False, False),
        ]

    def test_null_is_no_tool_call(self, tmp_path: Path) -> None:
        unparsed = {"source": "agent", "message": "not json", "tool_calls": None}
        assert self.turns(tmp_path, claim(), unparsed)[1] == (False, True)

    def test_raw_content(self, tmp_path: Path) -> None:
        whole = '{"analysis": "a", "plan": "p", "commands": [], "task_complete": true}'
        yes = step(message=whole)
        no = step(message=whole.replace("true", "false"))
        refused = step(message='{"commands": [], "task_complete": true}')
        wrong = step(message='{"task_complete": true', **{"observation": failed()["observation"]})
        prose = step(message="I am done")
        assert self.turns(tmp_path, yes, no, refused, wrong, prose) == [
            (True, False),
            (False, False),
            (False, True),
            (False, True),
            (False, True),
        ]

    def test_raw_content_is_read_by_the_parser_that_was_used(self, tmp_path: Path) -> None:
        reply = step(message="<response><task_complete>true</task_complete></response>")
        for parser, turn in (("xml", (True, False)), ("json", (False, True)), (7, (True, False))):
            found = read(tmp_path, reply, agent={"extra": {"parser": parser}})
            assert [(s.claims, s.parse_error) for s in found.steps] == [turn]

    def test_text_claims_nothing_where_there_are_tool_calls(self, tmp_path: Path) -> None:
        said = step(message='{"task_complete": true}')
        assert self.turns(tmp_path, work(), said)[1] == (False, True)


@pytest.mark.parametrize(
    ("message", "text", "image"),
    [
        ("a", "a", False),
        (None, "", False),
        ({"text": "a"}, "", False),
        ([{"type": "text", "text": "a"}, "b", 3], "a\nb", False),
        ([{"type": "image", "source": {}}, {"type": "text", "text": "a"}], "a", True),
        ([{"type": "image_url"}, {"type": None, "text": 5}], "", True),
    ],
)
def test_message_text(message: Any, text: str, image: bool) -> None:
    assert message_text(message) == (text, image)


def test_an_image_is_noted_once(tmp_path: Path) -> None:
    parts = [{"type": "image", "source": {}}]
    found = read(tmp_path, step("user", message=parts), work(message=parts))
    assert found.issues == (Issue.IMAGE_IN_MESSAGE,)
    assert len(found.steps) == 1


def test_the_first_own_prompt_of_each_summarizer(tmp_path: Path) -> None:
    def ids(*values: int) -> dict[str, Any]:
        return {"prompt_token_ids": list(values)}

    write(tmp_path, "trajectory.json", [work(metrics=ids(9))])
    write(
        tmp_path,
        "trajectory.summarization-1-summary.json",
        [work(is_copied_context=True, metrics=ids(8)), step("user"), work(metrics=ids(1, 2))],
    )
    write(tmp_path, "trajectory.summarization-1-answers.json", [work(metrics=ids(3)), work()])
    write(tmp_path, "trajectory.summarization-2-summary.json", [work()])
    (tmp_path / "agent" / "trajectory.summarization-3-summary.json").write_text("{")
    found = summarizer_prompts(TrialFiles(tmp_path), "agent")
    assert ids_of(*found) == [[1, 2], [3]]  # in the order of the calls
