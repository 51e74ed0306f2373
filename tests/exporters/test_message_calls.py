"""Tool calls and their results in chats as text: every result answers one call."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exporters.test_messages import agent
from tests.exporters.trajectories import (
    USER,
    answers,
    one_chat,
)
from wmo_distill.sources.harbor.messages import ChatFlag
from wmo_distill.sources.harbor.tool_calls import (
    CallIds,
    Result,
    ToolCall,
    arguments_text,
    match_results,
)


class TestCalls:
    @pytest.mark.parametrize(
        ("recorded", "text", "exact", "is_object"),
        [
            ({"b": 1, "a": "é"}, '{"b": 1, "a": "é"}', True, True),
            ('{"b":1}', '{"b":1}', True, True),
            (None, "{}", True, True),
            ("", "{}", True, True),
            ("[1]", "[1]", True, False),
            ("ls -la", '"ls -la"', True, False),
            ('{"cut', '"{\\"cut"', True, False),
            ([1, 2], "[1, 2]", True, False),
            ({"n": 2**70}, '{"n": 1180591620717411303424}', True, True),
            ({"x": float("nan"), "y": [float("-inf")]}, '{"x": null, "y": [null]}', False, True),
            ('{"x": NaN}', '"{\\"x\\": NaN}"', True, False),
            ({"a": "\ud83d"}, '{"a": "\ufffd"}', True, True),
            ({"\udc00": 1}, '{"\ufffd": 1}', True, True),
            ('{"a": "\\ud83d"}', '{"a": "\ufffd"}', True, True),
            ('{"a": "\\ud83d\\ude00"}', '{"a": "\\ud83d\\ude00"}', True, True),
        ],
    )
    def test_arguments(self, recorded: Any, text: str, exact: bool, is_object: bool) -> None:
        assert arguments_text(recorded) == (text, exact, is_object)
        json.loads(text)

    def test_deep_arguments(self) -> None:
        deep: Any = {}
        for _ in range(500):
            deep = {"a": deep}
        assert arguments_text(deep)[0] == '{"a": ' * 500 + "{}" + "}" * 500
        for _ in range(200_000):
            deep = [deep]
        assert arguments_text(deep)[:2] == ("{}", False)

    def test_a_call_without_a_name_is_kept_and_not_trained(self, tmp_path: Path) -> None:
        calls = [{"tool_call_id": "a", "arguments": {}}, 3, {"function_name": "run"}]
        step = {**agent("go", {"source_call_id": "a", "content": "1"}), "tool_calls": calls}
        chat = one_chat(tmp_path, USER, step)
        names = [call["function"]["name"] for call in chat.messages[1]["tool_calls"]]
        assert names == ["", "", "run"]
        assert answers(chat) == {"a": "1", "call_0": "", "call_1": ""}
        assert chat.messages[1]["weight"] == 0
        assert chat.flags == {ChatFlag.CALL_UNREADABLE}

    def test_ids_are_unique_in_a_chat(self, tmp_path: Path) -> None:
        """A made-up id takes none that is recorded later; the second `x` has another."""
        run = {"function_name": "run"}
        first = [
            {**run, "tool_call_id": "x"},
            {**run, "tool_call_id": "x"},
            run,
            {**run, "tool_call_id": 7},
        ]
        second = [{**run, "tool_call_id": "call_0"}, {**run, "tool_call_id": "x"}]
        results = [{"source_call_id": name, "content": text} for name, text in
                   (("x", "1"), ("x", "2"), (None, "3"), (7, "4"))]  # fmt: skip
        chat = one_chat(
            tmp_path,
            {**agent("a", *results), "tool_calls": first},
            {**agent("b", {"source_call_id": "x", "content": "6"},
                     {"source_call_id": "call_0", "content": "5"}), "tool_calls": second},
        )  # fmt: skip
        assert answers(chat) == {
            "x": "1", "x_0": "2", "call_1": "3", "7": "4", "call_0": "5", "x_1": "6",
        }  # fmt: skip
        assert chat.flags == set()

    @pytest.mark.parametrize(
        ("ids", "results", "expected", "guessed"),
        [
            ("abc", [(None, "1"), (None, "2"), (None, "3")], ["1", "2", "3"], False),
            ("abc", [("c", "3"), ("a", "1"), ("b", "2")], ["1", "2", "3"], False),
            ("abc", [(None, "1"), ("b", "2"), (None, "3")], ["1", "2", "3"], False),
            ("ab", [("a", "1"), ("a", "2")], ["1\n2", ""], False),
            ("ab", [("a", "1"), ("z", "2")], ["1", "2"], True),
            ("ab", [("z", "1"), ("y", "2")], ["1", "2"], True),
            ("abc", [(None, "1"), (None, "2")], ["1", "2", ""], True),
            ("abc", [(None, "1")], ["", "", "1"], True),
            ("ab", [(None, "1"), (None, "2"), (None, "3")], ["1", "2\n3"], True),
            ("a", [("a", "1"), (None, "2")], ["1\n2"], True),
            ("a", [], [""], False),
        ],
    )
    def test_which_result_answers_which_call(
        self, ids: str, results: list[tuple[str | None, str]], expected: list[str], guessed: bool
    ) -> None:
        calls = [ToolCall(name, "run", "{}", name) for name in ids]
        texts, guess = match_results(calls, [Result(*result) for result in results])
        assert (["\n".join(told) for told in texts], guess) == (expected, guessed)

    def test_the_joint_result_of_terminus_2_is_no_guess(self) -> None:
        calls = [ToolCall(name, "bash_command", "{}", name) for name in "ab"]
        assert match_results(calls, [Result(None, "1")]) == ([[], ["1"]], False)


@given(
    st.lists(st.sampled_from("aabc") | st.none(), min_size=1, max_size=5),
    st.lists(st.sampled_from("abcz") | st.none(), max_size=7),
)
def test_every_result_answers_one_call(ids: list[str | None], named: list[str | None]) -> None:
    taken = CallIds(frozenset(name for name in ids if name))
    calls = [ToolCall(taken.take(name), "run", "{}", name) for name in ids]
    results = [Result(name, str(number)) for number, name in enumerate(named)]
    texts, guessed = match_results(calls, results)
    assert sorted(text for told in texts for text in told) == [str(n) for n in range(len(named))]
    for call, told in zip(calls, texts, strict=True):
        if not guessed:
            assert all(named[int(text)] in (call.recorded, None) for text in told)
