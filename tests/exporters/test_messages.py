"""Chats as text: nothing said is lost, nothing is trained twice, every record is accounted for."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import wmo_distill
from wmo_distill.cli.app import app
from wmo_distill.errors import UsageError
from wmo_distill.exporters.messages import MessageSummary, NoChat, export_messages
from wmo_distill.files import TrialFiles
from wmo_distill.sources.harbor.messages import ChatFlag, read_chats

FIXTURES = Path(__file__).parents[2] / "fixtures"
TRIALS = FIXTURES / "trials"
COMPACTED = "Performed context summarization and handoff to continue task."


def rows(out: Path, summary: MessageSummary) -> list[Any]:
    return [
        json.loads(line)
        for name in summary.files
        for line in (out / name).read_bytes().splitlines()
    ]


def trajectory(place: Path, *files: list[dict[str, Any]]) -> TrialFiles:
    (place / "agent").mkdir(parents=True)
    for number, steps in enumerate(files):
        document: dict[str, Any] = {"schema_version": "ATIF-v1.5", "steps": steps}
        if number + 1 < len(files):
            document["continued_trajectory_ref"] = f"trajectory.cont-{number + 1}.json"
        name = f"trajectory.cont-{number}.json" if number else "trajectory.json"
        (place / "agent" / name).write_text(json.dumps(document))
    return TrialFiles(place)


def agent(text: str, *results: Any, calls: list[str] = [], **more: Any) -> dict[str, Any]:  # noqa: B006
    return {
        "source": "agent",
        "message": text,
        **({"tool_calls": [call(name) for name in calls]} if calls else {}),
        "observation": {"results": list(results)},
        **more,
    }


def call(name: str) -> dict[str, Any]:
    return {"tool_call_id": name, "function_name": "run", "arguments": {"b": 1, "a": "é"}}


def test_every_record_is_exported_or_refused(dataset: Path, tmp_path: Path) -> None:
    summary = export_messages(dataset, tmp_path / "x")
    assert summary.records == 53 == summary.exported + sum(summary.refused.values())
    got = rows(tmp_path / "x", summary)
    assert len(got) == summary.rows >= summary.exported
    assert summary.exported > 35
    assert all(any(m["role"] == "assistant" for m in row["messages"]) for row in got)
    texts = [m["content"] for row in got for m in row["messages"]]
    told = [json.loads(f.read_text())["steps"] for f in TRIALS.rglob("agent/trajectory.json")]
    replied = [steps for steps in told if any(step["source"] == "agent" for step in steps)]
    assert len(replied) > 30
    said = {step["message"] for steps in replied for step in steps}
    assert said - set(texts) == {COMPACTED}


def test_only_passed(dataset: Path, tmp_path: Path) -> None:
    summary = export_messages(dataset, tmp_path / "x", only="passed")
    got = rows(tmp_path / "x", summary)
    assert {row["passed"] for row in got} == {True}
    assert summary.refused[NoChat.FILTERED] > 10


def test_tool_calls_and_their_answers(tmp_path: Path) -> None:
    files = trajectory(
        tmp_path,
        [
            {"source": "system", "message": "rules"},
            {"source": "user", "message": "task"},
            agent("look", {"source_call_id": "c1", "content": "one"}, {"content": "two"},
                  calls=["c1", "c2"], reasoning_content="hm"),
            agent("done", {"content": "sure?"}),
        ],
    )  # fmt: skip
    (chat,) = read_chats(files, "agent")
    assert chat.messages == [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "task"},
        {
            "role": "assistant",
            "content": "look",
            "reasoning_content": "hm",
            "tool_calls": [
                {
                    "id": name,
                    "type": "function",
                    "function": {"name": "run", "arguments": '{"b": 1, "a": "é"}'},
                }
                for name in ("c1", "c2")
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "sure?"},
    ]


def test_copied_replies_are_not_trained_twice(tmp_path: Path) -> None:
    copied = agent("a", is_copied_context=True)
    chats = read_chats(
        trajectory(
            tmp_path,
            [{"source": "user", "message": "t"}, agent("a")],
            [{"source": "user", "message": "summary"}, copied, agent("b")],
        ),
        "agent",
    )
    assert [chat.replies for chat in chats] == [1, 1]
    assert [m.get("weight") for m in chats[1].messages if m["role"] == "assistant"] == [0, None]


def test_a_compaction_begins_another_chat(tmp_path: Path) -> None:
    steps = [
        {"source": "user", "message": "t"},
        agent("a"),
        {"source": "system", "message": "Performed context summarization and handoff"},
        {"source": "user", "message": "s"},
        agent("b"),
    ]
    chats = read_chats(trajectory(tmp_path, steps), "agent")
    assert [[m["content"] for m in chat.messages] for chat in chats] == [
        ["t", "a"],
        ["t", "s", "b"],
    ]
    assert chats[1].flags == {ChatFlag.HEAD_INCOMPLETE}


def test_an_interrupted_step_says_what_it_said_at_the_root_of_its_trial(tmp_path: Path) -> None:
    steps = [
        {"step_name": name, "agent_result": {"rollout_details": []}, "verifier_result": graded}
        for name, graded in (("a", {"rewards": {"reward": 1.0}}), ("b", None))
    ]
    trial = tmp_path / "job/t"
    trajectory(trial / "steps/a", [agent("first")])
    trajectory(trial, [agent("second")])
    (trial / "result.json").write_text(json.dumps({"trial_name": "t", "step_results": steps}))
    wmo_distill.build([tmp_path / "job"], tmp_path / "shards", workers=1)
    summary = export_messages(tmp_path / "shards", tmp_path / "chats")
    said = {
        row["step_name"]: row["messages"][0]["content"] for row in rows(tmp_path / "chats", summary)
    }
    assert said == {"a": "first", "b": "second"}
    (trial / "steps/a/agent/trajectory.json").unlink()
    (trial / "steps/a/agent").rmdir()
    summary = export_messages(tmp_path / "shards", tmp_path / "chats")
    assert summary.refused == {NoChat.TRAJECTORY_MISSING: 1}


def test_damage_is_counted(tmp_path: Path) -> None:
    trial = next((TRIALS / "01-solved").glob("jobs/*/*__*"))
    for name, text in (("a", None), ("b", "{"), ("c", '{"steps": [{"source": "user"}, 3]}')):
        place = tmp_path / "jobs" / name
        place.mkdir(parents=True)
        result = json.loads((trial / "result.json").read_text())
        (place / "result.json").write_text(json.dumps({**result, "id": name, "trial_name": name}))
        if text is not None:
            (place / "agent").mkdir()
            (place / "agent/trajectory.json").write_text(text)
    wmo_distill.build([tmp_path / "jobs"], tmp_path / "s", workers=1)
    summary = export_messages(tmp_path / "s", tmp_path / "x")
    assert summary.refused == {
        NoChat.TRAJECTORY_MISSING: 1,
        NoChat.TRAJECTORY_UNREADABLE: 1,
        NoChat.NO_REPLIES: 1,
    }
    assert summary.rows == 0


def test_the_command(dataset: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    out = str(tmp_path / "x")
    done = run(app, ["export", str(dataset), "-o", out, "--to", "sharegpt", "--only", "passed"])
    assert done.exit_code == 0, done.output
    first = json.loads((tmp_path / "x/data-00000.jsonl").read_text().splitlines()[0])
    assert {m["from"] for m in first["conversations"]} <= {"system", "human", "gpt", "tool"}
    wrong = run(app, ["export", str(dataset), "-o", out, "--to", "slime", "--only", "passed"])
    assert isinstance(wrong.exception, UsageError)
