"""Chats as text of trajectories that were compacted: what was said before and after is one chat."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.exporters.test_messages import FIXTURES, TRIALS, agent, trajectory
from tests.exporters.trajectories import (
    HANDOFF,
    NOTE,
    USER,
    chats_of,
    exported,
    note,
    questions,
    said,
    summarization,
)
from wmo_distill.files import TrialFiles
from wmo_distill.sources.harbor.messages import ChatFlag


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
