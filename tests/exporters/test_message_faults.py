"""Chats as text of odd or damaged trajectories: right, or weight 0, or flagged, never lost."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmo_distill
from tests.effort import examples
from tests.exporters.test_messages import FIXTURES, TRIALS, agent, rows, trajectory
from wmo_distill.exporters.files import json_line
from wmo_distill.exporters.messages import NoChat, export_messages, sharegpt
from wmo_distill.files import TrialFiles, path_text, text_path
from wmo_distill.sources.harbor.messages import Chat, ChatFlag, read_chats
from wmo_distill.sources.harbor.tool_calls import (
    CallIds,
    Result,
    ToolCall,
    arguments_text,
    match_results,
)

FAULTS = FIXTURES / "faults"
NOTE = {
    "source": "system",
    "message": "Performed context summarization and handoff to continue task.",
    "extra": {"context_management": {"type": "compaction", "boundary": "replace"}},
}
USER = {"source": "user", "message": "task"}
HANDOFF = {"source": "user", "message": "Here are the answers: four"}


def exported(jobs: Path, place: Path, to: str = "messages") -> tuple[Any, list[Any]]:
    wmo_distill.build([jobs], place / "shards", workers=1)
    summary = export_messages(place / "shards", place / "chats", to)
    return summary, rows(place / "chats", summary)


def chats_of(files: TrialFiles) -> list[Chat]:
    chats = read_chats(files, "agent")
    assert isinstance(chats, list)
    return chats


def one_chat(place: Path, *steps: Any) -> Chat:
    (chat,) = chats_of(trajectory(place, list(steps)))
    return chat


def said(chat: Chat) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in chat.messages]


def answers(chat: Chat) -> dict[str, str]:
    return {m["tool_call_id"]: m["content"] for m in chat.messages if m["role"] == "tool"}


def note(*names: str, **more: str) -> dict[str, Any]:
    refs = [{"trajectory_path": name, **more} for name in names]
    return {**NOTE, "observation": {"results": [{"subagent_trajectory_ref": refs}]}}


def summarization(place: Path, number: int, kind: str, *steps: Any) -> str:
    name = f"trajectory.summarization-{number}-{kind}.json"
    (place / "agent" / name).write_text(json.dumps({"steps": list(steps)}))
    return name


def questions(text: str) -> list[dict[str, Any]]:
    return [{"source": "user", "message": f"ask {text}"}, agent(f"what is {text}?")]


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


class TestCompaction:
    def test_the_head_is_what_the_recorded_prompt_holds(self, tmp_path: Path) -> None:
        """06b: the ids of the first prompt after the break are those of the head's messages."""
        case = TRIALS / "06b-summarize-reactive-context-error"
        _, (_, row) = exported(case, tmp_path)
        head = row["messages"][:4]
        agent_dir = next(case.rglob("agent"))
        result = json.loads((agent_dir.parent / "result.json").read_text())
        main = result["agent_result"]["rollout_details"][0]["prompt_token_ids"]
        read = json.loads((agent_dir / "trajectory.summarization-1-questions.json").read_text())
        prompt, reply = read["steps"]
        metrics = reply["metrics"]
        asked, wrote = metrics["prompt_token_ids"], metrics["completion_token_ids"]
        assert [m["content"] for m in head[1:3]] == [prompt["message"], reply["message"]]
        start = 100264  # <|im_start|>, one for each message and one for the reply to come
        opening = main[0][: len(main[0]) - main[0][::-1].index(start) - 1]
        assert main[3][: len(opening) + len(asked) + len(wrote)] == opening + asked + wrote
        assert main[3].count(start) == len(head) + 1
        assert head[0]["content"] == row_first(agent_dir)

    @pytest.mark.parametrize("steps", [None, [], [USER], [{"source": "agent", "message": "q"}]])
    def test_without_its_questions_the_task_is_there_and_a_flag(
        self, tmp_path: Path, steps: list[Any] | None
    ) -> None:
        name = "trajectory.summarization-1-questions.json"
        files = trajectory(tmp_path, [USER, agent("a"), note(name), HANDOFF, agent("b")])
        if steps is not None:
            summarization(tmp_path, 1, "questions", *steps)
        first, second = chats_of(files)
        assert said(second)[:2] == [("user", "task"), ("user", HANDOFF["message"])]
        assert (first.flags, second.flags) == (set(), {ChatFlag.HEAD_INCOMPLETE})

    def test_each_compaction_has_its_own_questions(self, tmp_path: Path) -> None:
        """The first summarization failed, so that the files are numbered 2 and 3."""
        steps = [{"source": "system", "message": "rules"}, USER, agent("a")]
        for number in (2, 3):
            asked = f"trajectory.summarization-{number}-questions.json"
            steps += [note(asked), HANDOFF, agent(f"reply {number}")]
        files = trajectory(tmp_path, steps)
        for number in (1, 2, 3):
            summarization(tmp_path, number, "questions", *questions(str(number)))
        chats = chats_of(files)
        assert [said(chat)[:5] for chat in chats[1:]] == [
            [("system", "rules"), ("user", "task"), ("user", f"ask {n}"),
             ("assistant", f"what is {n}?"), ("user", HANDOFF["message"])]
            for n in (2, 3)
        ]  # fmt: skip
        assert [chat.replies for chat in chats] == [1, 1, 1]
        assert all(NOTE["message"] not in text for chat in chats for _, text in said(chat))

    def test_without_references_the_answers_tell_which_questions(self, tmp_path: Path) -> None:
        files = trajectory(tmp_path, [USER, agent("a"), NOTE, HANDOFF, agent("b")])
        for number, answer in ((1, "three"), (2, "four")):
            summarization(tmp_path, number, "questions", *questions(str(number)))
            summarization(tmp_path, number, "answers", {**USER, "is_copied_context": True},
                          USER, agent(answer))  # fmt: skip
        assert said(chats_of(files)[1])[1:3] == [
            ("user", "ask 2"), ("assistant", "what is 2?"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("first", "second", "head"),
        [("four", "three, then four", "ask 2"), ("three, then four", "four", "ask 1")],
    )
    def test_of_answers_that_hold_others_the_longest_tell(
        self, tmp_path: Path, first: str, second: str, head: str
    ) -> None:
        handoff = {"source": "user", "message": "Here are the answers: three, then four"}
        files = trajectory(tmp_path, [USER, agent("a"), NOTE, handoff, agent("b")])
        for number, answer in ((1, first), (2, second)):
            summarization(tmp_path, number, "questions", *questions(str(number)))
            summarization(tmp_path, number, "answers", USER, agent(answer))
        assert said(chats_of(files)[1])[1] == ("user", head)

    def test_the_same_answers_twice_tell_nothing(self, tmp_path: Path) -> None:
        files = trajectory(tmp_path, [USER, agent("a"), NOTE, HANDOFF, agent("b")])
        for number in (1, 2):
            summarization(tmp_path, number, "questions", *questions(str(number)))
            summarization(tmp_path, number, "answers", USER, agent("four"))
        assert ChatFlag.HEAD_INCOMPLETE in chats_of(files)[1].flags

    def test_an_embedded_subagent_trajectory(self, tmp_path: Path) -> None:
        refs = [{"trajectory_id": "x-summary"}, {"trajectory_id": "x-questions"}]
        told = {**NOTE, "observation": {"results": [{"subagent_trajectory_ref": refs}]}}
        files = trajectory(tmp_path, [USER, agent("a"), told, HANDOFF, agent("b")])
        file = tmp_path / "agent/trajectory.json"
        document = json.loads(file.read_text())
        document["subagent_trajectories"] = [
            3,
            {"trajectory_id": "x-summary", "steps": []},
            {"trajectory_id": "x-questions", "steps": questions("it")},
        ]
        file.write_text(json.dumps(document))
        chats = chats_of(files)
        assert said(chats[1])[:3] == [
            ("user", "task"), ("user", "ask it"), ("assistant", "what is it?"),
        ]  # fmt: skip

    def test_a_continuation_that_repeats_the_task_is_whole(self) -> None:
        """Harbor's own linear history: its copied head has the form that is made elsewhere."""
        place = FIXTURES / "trajectories/linear-history"
        first, second = (c for c in chats_of(TrialFiles(place)) if c.replies)
        heads = [(m["role"], m.get("weight")) for m in second.messages[:4]]
        assert heads == [("user", None), ("user", None), ("assistant", 0), ("user", None)]
        assert second.messages[0] == first.messages[0]
        assert second.flags == set()

    def test_a_continuation_without_the_task(self, tmp_path: Path) -> None:
        files = trajectory(tmp_path, [USER, agent("a")], [HANDOFF, agent("b")])
        second = chats_of(files)[1]
        assert [text for _, text in said(second)] == ["task", HANDOFF["message"], "b"]
        assert second.flags == {ChatFlag.HEAD_INCOMPLETE}

    def test_a_missing_continuation(self, tmp_path: Path) -> None:
        files = trajectory(tmp_path, [USER, agent("a")], [USER])
        (tmp_path / "agent/trajectory.cont-1.json").unlink()
        (chat,) = chats_of(files)
        assert chat.flags == {ChatFlag.CONTINUATION_MISSING}

    def test_a_reply_before_the_handoff(self, tmp_path: Path) -> None:
        name = "trajectory.summarization-1-questions.json"
        files = trajectory(tmp_path, [USER, agent("a"), note(name), agent("b")])
        summarization(tmp_path, 1, "questions", *questions("it"))
        assert chats_of(files)[1].flags == {ChatFlag.HEAD_INCOMPLETE}


def row_first(agent_dir: Path) -> str:
    steps = json.loads((agent_dir / "trajectory.json").read_text())["steps"]
    return str(steps[0]["message"])


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
