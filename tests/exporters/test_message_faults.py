"""Chats as text of odd or damaged trajectories: right, or weight 0, or flagged, never lost."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.exporters.test_messages import FIXTURES, agent, trajectory
from tests.exporters.trajectories import (
    FAULTS,
    HANDOFF,
    NOTE,
    USER,
    answers,
    chats_of,
    exported,
    one_chat,
    said,
)
from wmo_distill.exporters.files import json_line
from wmo_distill.exporters.messages import NoChat, sharegpt
from wmo_distill.files import path_text, text_path
from wmo_distill.sources.harbor.messages import ChatFlag


def test_the_readme_says_what_each_flag_means() -> None:
    text = (FIXTURES.parent / "docs/training.md").read_text()
    table = text.split("| flag | what of the chat")[1].split("\n\n")[0]
    assert [line.split("`")[1] for line in table.splitlines()[2:]] == list(ChatFlag)


class TestFaultsOfUse:
    def test_after_a_compaction(self, tmp_path: Path) -> None:
        summary, (first, second) = exported(FAULTS / "messages-after-compaction/jobs", tmp_path)
        assert [m["content"] for m in second["messages"][:4]] == [
            "SYSTEM RULES + TASK: count the rows of a.csv",
            "You are picking up work from a previous agent. Task and summary: ... Ask questions.",
            "1. Which files exist?",
            "Here are the answers the other agent provided. Continue.",
        ]
        heads = [m["role"] for m in second["messages"][:4]]
        assert heads == ["user", "user", "assistant", "user"]
        assert second["messages"][2]["weight"] == 0
        assert (first["flags"], second["flags"], summary.flags) == ([], [], {})
        assert (summary.replies, summary.unweighted) == (4, 1)

    def test_replies_that_no_model_wrote(self, tmp_path: Path) -> None:
        summary, (row,) = exported(FAULTS / "messages-llm-call-count-0/jobs", tmp_path)
        weights = [m.get("weight") for m in row["messages"] if m["role"] == "assistant"]
        assert weights == [0, None, 0, None]
        assert (summary.replies, summary.unweighted) == (2, 2)
        assert (row["replies"], row["unweighted"]) == (2, 2)
        assert summary.flags == {ChatFlag.NOT_SAMPLED: 1}

    def test_several_results(self, tmp_path: Path) -> None:
        _, (row,) = exported(FAULTS / "messages-several-results/jobs", tmp_path)
        assert [(m.get("tool_call_id"), m["content"]) for m in row["messages"][2:5]] == [
            ("c2_0", "out of call 1"), ("c2_1", "out of call 2"), ("c2_2", "out of call 3"),
        ]  # fmt: skip
        assert row["flags"] == []


class TestReplies:
    @pytest.mark.parametrize(
        ("more", "weight"),
        [
            ({"llm_call_count": 0}, 0),
            ({"llm_call_count": 1}, None),
            ({"llm_call_count": 3}, None),
            ({"llm_call_count": None}, None),
            ({"llm_call_count": False}, None),
            ({"is_copied_context": True}, 0),
            ({"is_copied_context": True, "llm_call_count": 0}, 0),
            ({"message": 3}, 0),
            ({"message": None}, None),
            ({"message": "Technical difficulties. Please continue with the task."}, 0),
            ({"message": "Technical difficulties", "metrics": {"completion_tokens": 3}}, None),
        ],
    )
    def test_weight(self, tmp_path: Path, more: dict[str, Any], weight: int | None) -> None:
        chat = one_chat(tmp_path, USER, {**agent("a"), **more})
        assert chat.messages[1].get("weight") == weight
        assert (chat.replies, chat.unweighted) == ((0, 1) if weight == 0 else (1, 0))

    def test_an_empty_reply_is_flagged(self, tmp_path: Path) -> None:
        chat = one_chat(tmp_path, USER, {"source": "agent"}, agent("b"))
        assert chat.flags == {ChatFlag.EMPTY_REPLY}
        assert chat.replies == 2

    def test_parts_that_are_left_out(self, tmp_path: Path) -> None:
        image = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
        audio = {"type": "audio", "source": {"path": "a.wav"}}
        text = {"type": "text", "text": "see"}
        seen = agent("", {"source_call_id": "c", "content": [text, image]}, calls=["c"])
        chat = one_chat(tmp_path, USER, seen)
        assert answers(chat) == {"c": "see"}
        assert (chat.images, chat.flags) == (True, set())
        chat = one_chat(tmp_path / "b", {"source": "user", "message": [text, audio]}, agent("a"))
        assert (chat.images, chat.flags) == (False, {ChatFlag.PART_LEFT_OUT})

    def test_observations_of_others_are_said_to_the_model(self, tmp_path: Path) -> None:
        refs = {"subagent_trajectory_ref": [{"session_id": "s"}]}
        seen = {"observation": {"results": [{"content": "env reset"}, refs]}}
        chat = one_chat(tmp_path, USER, {"source": "system", "message": "note", **seen}, agent("a"))
        assert said(chat)[1:3] == [("system", "note"), ("user", "env reset")]

    def test_unknown_sources_and_steps(self, tmp_path: Path) -> None:
        chat = one_chat(tmp_path, 3, {"source": "environment", "message": "hi"}, agent("a"))
        assert said(chat)[0] == ("user", "hi")
        assert chat.flags == {ChatFlag.SOURCE_UNKNOWN, ChatFlag.STEP_UNREADABLE}


NAMES = st.sampled_from(["a", "b", "call_0", "", 7, None, "\ud800", {}])


CONTENT = st.sampled_from(["x", "", None, 3, ["p", 4, {"type": "image"}], {"a": 1}, "\udfff"])


CALL = st.one_of(
    st.just(3),
    st.fixed_dictionaries(
        {},
        optional={
            "tool_call_id": NAMES,
            "function_name": NAMES,
            "arguments": st.sampled_from([{}, None, "{}", "x", [float("nan")], {"\ud800": 2**70}]),
        },
    ),
)


RESULT = st.one_of(
    st.just("r"), st.fixed_dictionaries({}, optional={"source_call_id": NAMES, "content": CONTENT})
)


STEP = st.one_of(
    st.sampled_from([3, NOTE, HANDOFF]),
    st.fixed_dictionaries(
        {"source": st.sampled_from(["agent", "agent", "user", "system", "x", None])},
        optional={
            "message": CONTENT,
            "reasoning_content": CONTENT,
            "tool_calls": st.one_of(st.none(), st.just(3), st.lists(CALL, max_size=4)),
            "observation": st.one_of(
                st.just(3), st.fixed_dictionaries({"results": st.lists(RESULT, max_size=4)})
            ),
            "llm_call_count": st.sampled_from([0, 1, None]),
            "is_copied_context": st.booleans(),
        },
    ),
)


@settings(max_examples=examples(200))
@given(st.lists(STEP, max_size=6), st.lists(STEP, max_size=3))
def test_any_steps_give_chats_that_json_can_hold(
    tmp_path_factory: pytest.TempPathFactory, first: list[Any], second: list[Any]
) -> None:
    files = trajectory(tmp_path_factory.mktemp("t"), first, second)
    for chat in chats_of(files):
        ids: list[str] = []
        waiting: list[str] = []
        for message in chat.messages:
            assert message["content"] is not None
            assert NOTE["message"] not in message["content"]
            if message["role"] == "tool":
                assert message["tool_call_id"] == waiting.pop(0)
                continue
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            ids += waiting
            for call in message.get("tool_calls", ()):
                json.loads(call["function"]["arguments"], parse_constant=pytest.fail)
        assert not waiting
        assert len(ids) == len(set(ids))
        for form in (chat.messages, sharegpt(chat.messages)):
            line = json_line({"chat": form})
            assert "\\ud8" not in line.decode()
            assert json.loads(line) == {"chat": form}


def test_one_bad_trial_does_not_end_an_export(tmp_path: Path) -> None:
    good = json.dumps({"steps": [USER, agent("fine")]})
    bad = {
        "surrogates": json.dumps({"steps": [USER, {
            **agent("\ud800", {"source_call_id": "\udc00", "content": "\udfff"}),
            "reasoning_content": "\ud801",
            "tool_calls": [{"tool_call_id": "\udc00", "function_name": "\ud800",
                            "arguments": {"\ud800": "\udc00"}}],
        }]}),
        "deep": '{"steps": [' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "]}",
        "long-int": '{"steps": [{"source": "user", "message": ' + "9" * 5000 + "}]}",
        "utf-16": good.encode("utf-16").decode("latin-1"),
        "good": good,
    }  # fmt: skip
    for name, text in bad.items():
        place = tmp_path / "jobs" / name
        (place / "agent").mkdir(parents=True)
        result = {"trial_name": f"{name}\ud800", "task_name": "t\udfff", "id": name}
        (place / "result.json").write_text(json.dumps(result))
        (place / "agent/trajectory.json").write_text(text, "latin-1")
    for to in ("messages", "sharegpt"):
        summary, got = exported(tmp_path / "jobs", tmp_path / to, to)
        assert summary.refused == {NoChat.TRAJECTORY_UNREADABLE: 3}
        assert summary.flags == {ChatFlag.TEXT_REPLACED: 1}
        assert sorted(row["trial_name"] for row in got) == ["good\ufffd", "surrogates\ufffd"]


def test_directories_whose_names_are_not_utf_8(tmp_path: Path) -> None:
    for name in (b"plain", "é".encode(), b"bad\xff", rb"back\xff", rb"back\x5c"):
        place = tmp_path / os.fsdecode(b"jobs\xfe/" + name)
        assert text_path(path_text(place)) == place
        trajectory(place, [USER, agent("a")])
        result = {"trial_name": repr(name), "id": repr(name)}
        (place / "result.json").write_text(json.dumps(result))
    summary, _ = exported(tmp_path / os.fsdecode(b"jobs\xfe"), tmp_path)
    assert (summary.records, summary.exported) == (5, 5)


def test_sharegpt_holds_what_the_chat_holds(tmp_path: Path) -> None:
    step = agent("", {"content": "2"}, calls=["c"], reasoning_content="hm", llm_call_count=0)
    assert sharegpt(one_chat(tmp_path, USER, step).messages) == [
        {"from": "human", "value": "task"},
        {
            "from": "gpt",
            "value": '{"name": "run", "arguments": {"b": 1, "a": "é"}}',
            "reasoning_content": "hm",
            "weight": 0,
        },
        {"from": "tool", "value": "2"},
    ]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def json_values() -> Iterator[tuple[Any, Any]]:
    yield "\ud800x", "\ufffdx"
    yield {"\udc00": "\ud83d\ude00"[0]}, {"\ufffd": "\ufffd"}
    yield [2**64, -(2**63) - 1], [2**64, -(2**63) - 1]
    yield [2**64, float("nan"), float("inf")], [2**64, None, None]
    yield nested(300), nested(300)


@pytest.mark.parametrize(("value", "expected"), list(json_values()))
def test_a_line_of_json_holds_what_orjson_refuses(value: Any, expected: Any) -> None:
    line = json_line({"task_id": value, "é": "é"})
    assert json.loads(line) == {"task_id": expected, "é": "é"}
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert "é".encode() in line
