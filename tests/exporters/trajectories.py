"""Trajectories of made-up steps, and the chats that are read from them."""

import json
from pathlib import Path
from typing import Any

import wmo_distill
from tests.exporters.test_messages import FIXTURES, agent, rows, trajectory
from wmo_distill.exporters.messages import export_messages
from wmo_distill.files import TrialFiles
from wmo_distill.sources.harbor.messages import Chat, read_chats

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
