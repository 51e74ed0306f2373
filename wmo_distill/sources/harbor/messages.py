"""A trajectory as chat messages: what was said, by whom, without token ids."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from wmo_distill.files import Absent, TrialFiles, plain_text
from wmo_distill.sources.harbor.handoff import read_questions
from wmo_distill.sources.harbor.tool_calls import (
    CallIds,
    Result,
    match_results,
    read_calls,
    recorded_id,
    recorded_ids,
)
from wmo_distill.sources.harbor.trajectory import (
    is_dispatched,
    message_text,
    starts_anew,
    trajectory_documents,
)

Message = dict[str, Any]

# What terminus-2 takes for the reply where the model could not be asked at all.
_FALLBACK_REPLY = "Technical difficulties"


class ChatFlag(StrEnum):
    """What of a chat is not as the model had it; docs/training.md says more of each."""

    HEAD_INCOMPLETE = "head_incomplete"
    CONTINUATION_MISSING = "continuation_missing"
    NOT_SAMPLED = "not_sampled"
    CALL_UNREADABLE = "call_unreadable"
    ARGUMENTS_NOT_OBJECT = "arguments_not_object"
    RESULT_GUESSED = "result_guessed"
    PART_LEFT_OUT = "part_left_out"
    STEP_UNREADABLE = "step_unreadable"
    SOURCE_UNKNOWN = "source_unknown"
    EMPTY_REPLY = "empty_reply"
    TEXT_REPLACED = "text_replaced"


@dataclass(slots=True)
class Chat:
    """One history, from its start or from a compaction to the next."""

    messages: list[Message] = field(default_factory=list)
    images: bool = False
    """Whether an image was in it, of which nothing is kept."""
    flags: set[ChatFlag] = field(default_factory=set)

    @property
    def parsed(self) -> bool:
        """Whether replies are recorded as text and tool calls, not as the model wrote them."""
        return any("tool_calls" in message for message in self.messages)

    @property
    def replies(self) -> int:
        """Messages of the assistant that the model wrote in this chat: those without weight 0."""
        return sum(m["role"] == "assistant" and m.get("weight") != 0 for m in self.messages)

    @property
    def unweighted(self) -> int:
        """Messages of the assistant with weight 0."""
        return sum(m["role"] == "assistant" and m.get("weight") == 0 for m in self.messages)


def read_chats(files: TrialFiles, agent_dir: str) -> list[Chat] | Absent:
    """The chats of an agent directory in order.

    Messages of the assistant to which the model's weights owe nothing here have `weight` 0: those
    copied from a chat before, those that no model wrote, and those that are not fully recorded.
    """
    read = trajectory_documents(files, agent_dir)
    if isinstance(read, Absent):
        return read
    documents, whole = read
    reader = _Reader(files, agent_dir, documents)
    chats = list(reader.chats())
    last = next((chat for chat in reversed(chats) if chat.replies), None)
    if last is not None and not whole:
        last.flags.add(ChatFlag.CONTINUATION_MISSING)
    return chats


class _Reader:
    """Makes the chats of the documents of one agent directory."""

    def __init__(self, files: TrialFiles, agent_dir: str, documents: list[dict[str, Any]]) -> None:
        self._files, self._agent_dir, self._documents = files, agent_dir, documents
        self._recorded = recorded_ids(s for document in documents for s in document["steps"])
        self._begin()

    def _begin(self) -> None:
        self._chat = Chat()
        self._ids = CallIds(self._recorded)
        self._awaits_handoff = False

    def chats(self) -> Iterator[Chat]:
        for number, document in enumerate(self._documents):
            steps = document["steps"]
            self._begin()
            if number and not self._repeats_task(steps):
                self._add_opening()
                self._chat.flags.add(ChatFlag.HEAD_INCOMPLETE)
            for place, step in enumerate(steps):
                if not isinstance(step, dict):
                    self._chat.flags.add(ChatFlag.STEP_UNREADABLE)
                    continue
                if starts_anew(step, _raw_text(step)):
                    if self._chat.messages:
                        yield self._chat
                    self._begin()
                    self._compacted(document, step, steps[place + 1 :])
                    if step.get("source") == "system":
                        # A record for people, never given to the model.
                        continue
                self._add(step)
            if self._chat.messages:
                yield self._chat

    def _compacted(
        self, document: Mapping[str, Any], note: Mapping[str, Any], after: list[Any]
    ) -> None:
        """Begin the chat after a compaction: the first messages, the questions, who asked them."""
        self._add_opening()
        self._awaits_handoff = True
        following = after[0] if after and isinstance(after[0], dict) else {}
        handoff = _raw_text(following)
        asked = read_questions(self._files, self._agent_dir, document, note, handoff)
        if asked is None:
            self._chat.flags.add(ChatFlag.HEAD_INCOMPLETE)
            return
        prompt, questions = (self._text(step.get("message")) for step in asked)
        self._chat.messages += [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": questions, "weight": 0},
        ]

    def _add_opening(self) -> None:
        """The system messages and the first message of the user, which outlive a compaction."""
        for step in _opening(self._documents[0]["steps"]):
            self._chat.messages.append(self._said(step))
        if not any(m["role"] == "user" for m in self._chat.messages):
            self._chat.flags.add(ChatFlag.HEAD_INCOMPLETE)

    def _repeats_task(self, steps: list[Any]) -> bool:
        """Whether a continuation begins with a copy of the first message of the user."""
        opening = _opening(self._documents[0]["steps"])
        first = [s.get("message") for s in opening if s.get("source") == "user"]
        copied = (
            step.get("message")
            for step in steps
            if isinstance(step, dict) and step.get("is_copied_context") is True
        )
        return bool(first) and first[0] in copied

    def _add(self, step: Mapping[str, Any]) -> None:
        source = step.get("source")
        if source != "agent":
            if source not in ("user", "system"):
                self._chat.flags.add(ChatFlag.SOURCE_UNKNOWN)
            self._awaits_handoff = False
            self._chat.messages += [self._said(step), *self._observed(step)]
            return
        if self._awaits_handoff:
            self._awaits_handoff = False
            self._chat.flags.add(ChatFlag.HEAD_INCOMPLETE)
        self._chat.messages += self._replied(step)

    def _said(self, step: Mapping[str, Any]) -> Message:
        role = "system" if step.get("source") == "system" else "user"
        return {"role": role, "content": self._text(step.get("message"))}

    def _replied(self, step: Mapping[str, Any]) -> list[Message]:
        """A reply of the agent, and after it what was answered to it."""
        written = step.get("message")
        message: Message = {"role": "assistant", "content": self._text(written)}
        reasoning = step.get("reasoning_content")
        if isinstance(reasoning, str) and reasoning:
            message["reasoning_content"] = self._plain(reasoning)
        elif reasoning not in (None, ""):
            self._chat.flags.add(ChatFlag.STEP_UNREADABLE)
        calls = read_calls(step, self._ids)
        if calls:
            message["tool_calls"] = [call.message for call in calls]
        if not (message["content"] or calls or "reasoning_content" in message):
            self._chat.flags.add(ChatFlag.EMPTY_REPLY)
        if not all(call.is_object for call in calls):
            self._chat.flags.add(ChatFlag.ARGUMENTS_NOT_OBJECT)
        sound = all(call.sound for call in calls)
        if not sound or not isinstance(step.get("tool_calls"), list | None):
            self._chat.flags.add(ChatFlag.CALL_UNREADABLE)
            message["weight"] = 0
        if step.get("is_copied_context") is True or not _is_message(written):
            message["weight"] = 0
        if _not_sampled(step, message["content"]):
            self._chat.flags.add(ChatFlag.NOT_SAMPLED)
            message["weight"] = 0
        if not calls:
            return [message, *self._observed(step)]
        answers, guessed = match_results(calls, self._results(step))
        if guessed:
            self._chat.flags.add(ChatFlag.RESULT_GUESSED)
        return [message] + [
            {"role": "tool", "tool_call_id": call.id, "content": "\n".join(texts)}
            for call, texts in zip(calls, answers, strict=True)
        ]

    def _observed(self, step: Mapping[str, Any]) -> list[Message]:
        """What was observed where there is no call that it answers: said to the model."""
        return [
            {"role": "user", "content": result.text}
            for result in self._results(step, with_content=True)
        ]

    def _results(self, step: Mapping[str, Any], *, with_content: bool = False) -> list[Result]:
        observation = step.get("observation")
        results = observation.get("results") if isinstance(observation, dict) else observation
        if results is not None and not isinstance(results, list):
            self._chat.flags.add(ChatFlag.STEP_UNREADABLE)
        found = []
        for result in results if isinstance(results, list) else ():
            if not isinstance(result, dict):
                self._chat.flags.add(ChatFlag.STEP_UNREADABLE)
                found.append(Result(None, self._text(result)))
            elif not with_content or result.get("content") is not None:
                named = recorded_id(result.get("source_call_id"))
                found.append(Result(named, self._text(result.get("content"))))
        return found

    def _text(self, value: Any) -> str:
        """The text of a message or of a result; what is left out of it is flagged."""
        text, image = message_text(value)
        self._chat.images |= image
        if not _is_message(value):
            self._chat.flags.add(ChatFlag.STEP_UNREADABLE)
        elif isinstance(value, list) and any(_is_other(part) for part in value):
            self._chat.flags.add(ChatFlag.PART_LEFT_OUT)
        return self._plain(text)

    def _plain(self, text: str) -> str:
        plain = plain_text(text)
        if plain != text:
            self._chat.flags.add(ChatFlag.TEXT_REPLACED)
        return plain


def _opening(steps: list[Any]) -> list[Mapping[str, Any]]:
    """The system messages before the first reply, and the first message of the user."""
    found: list[Mapping[str, Any]] = []
    for step in steps:
        source = step.get("source") if isinstance(step, dict) else None
        if source == "agent":
            break
        if source in ("system", "user") and not starts_anew(step, _raw_text(step)):
            found.append(step)
        if source == "user":
            break
    return found


def _raw_text(step: Mapping[str, Any]) -> str:
    return message_text(step.get("message"))[0]


def _is_message(value: Any) -> bool:
    return value is None or isinstance(value, str | list)


def _is_other(part: Any) -> bool:
    """Whether a part is neither text nor an image, as audio is."""
    if not isinstance(part, dict):
        return not isinstance(part, str)
    kind = part.get("type")
    image = isinstance(kind, str) and "image" in kind
    return not image and not isinstance(part.get("text"), str)


def _not_sampled(step: Mapping[str, Any], text: str) -> bool:
    """Whether no model wrote this reply: ATIF's `llm_call_count` is 0, or it is a stand-in."""
    dispatched = is_dispatched(step)
    if dispatched is not None:
        return dispatched
    metrics = step.get("metrics")
    spent = metrics.get("completion_tokens") if isinstance(metrics, dict) else None
    return text.startswith(_FALLBACK_REPLY) and not spent
