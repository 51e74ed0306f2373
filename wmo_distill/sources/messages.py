"""A trajectory as chat messages: what was said, by whom, without token ids."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wmo_distill.files import Absent, TrialFiles, plain_text
from wmo_distill.sources.trajectory import message_text, starts_anew, trajectory_documents

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chat:
    """One history, from its start or from a compaction to the next."""

    messages: list[Message]
    images: bool = False
    """Whether an image was in it, of which nothing is kept."""

    @property
    def parsed(self) -> bool:
        """Whether replies are recorded as text and tool calls, not as the model wrote them."""
        return any("tool_calls" in message for message in self.messages)

    @property
    def replies(self) -> int:
        """Messages of the assistant that are its own here, not copied from a chat before."""
        return sum(m["role"] == "assistant" and m.get("weight") != 0 for m in self.messages)


def read_chats(files: TrialFiles, agent_dir: str) -> list[Chat] | Absent:
    """The chats of an agent directory in order.

    Replies that a continuation file copied from the file before have `weight` 0: they are trained
    there.
    """
    documents = trajectory_documents(files, agent_dir)
    if isinstance(documents, Absent):
        return documents
    return [chat for document in documents for chat in _chats(document["steps"])]


def _chats(steps: list[Any]) -> Iterator[Chat]:
    messages: list[Message] = []
    images = False
    for step in steps:
        if not isinstance(step, dict):
            continue
        text, image = message_text(step.get("message"))
        if starts_anew(step, text) and messages:
            yield Chat(messages, images)
            messages, images = [], False
        images |= image
        messages += _messages(step, text)
    if messages:
        yield Chat(messages, images)


def _messages(step: Mapping[str, Any], text: str) -> list[Message]:
    """The message of a step, and after one of the agent what was answered to it."""
    source = step.get("source")
    content = plain_text(text)
    if source != "agent":
        return [{"role": "system" if source == "system" else "user", "content": content}]
    message: Message = {"role": "assistant", "content": content}
    reasoning = step.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        message["reasoning_content"] = plain_text(reasoning)
    calls = _tool_calls(step)
    if calls:
        message["tool_calls"] = calls
    if step.get("is_copied_context") is True:
        message["weight"] = 0
    return [message, *_answers(step, [call["id"] for call in calls])]


def _tool_calls(step: Mapping[str, Any]) -> list[Message]:
    calls = step.get("tool_calls")
    found = []
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        if not isinstance(call, dict) or not isinstance(call.get("function_name"), str):
            continue
        name = call.get("tool_call_id")
        found.append(
            {
                "id": name if isinstance(name, str) else f"call_{number}",
                "type": "function",
                "function": {
                    "name": plain_text(call["function_name"]),
                    "arguments": json.dumps(call.get("arguments", {}), sort_keys=True),
                },
            }
        )
    return found


def _answers(step: Mapping[str, Any], calls: list[str]) -> Iterator[Message]:
    """One answer a call, empty where there is no result for it, as chat templates want.

    A result that names no call is taken to answer the last.
    """
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    answers: dict[str, list[str]] = {call: [] for call in calls}
    for result in results if isinstance(results, list) else ():
        if not isinstance(result, dict):
            continue
        content = plain_text(message_text(result.get("content"))[0])
        if not calls:
            yield {"role": "user", "content": content}
            continue
        named = result.get("source_call_id")
        answers[named if named in calls else calls[-1]].append(content)
    for call, texts in answers.items():
        yield {"role": "tool", "tool_call_id": call, "content": "\n".join(texts)}
