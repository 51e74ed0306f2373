"""The tool calls of a trajectory's step and which result answers which call."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wmo_distill.files import plain_text
from wmo_distill.sources.harbor.trajectory import COMPLETE_TOOL

# terminus-2 records one result for all commands of a turn: what the terminal showed after them.
_JOINT = {"bash_command", COMPLETE_TOOL}


class ToolCall(NamedTuple):
    """One call: `id` is unique in its chat, `recorded` is the id that results name."""

    id: str
    name: str
    arguments: str
    """JSON text, in the recorded order of its keys."""
    recorded: str | None = None
    sound: bool = True
    """False where the name is missing or the arguments are not what the model wrote."""
    is_object: bool = True

    @property
    def message(self) -> dict[str, Any]:
        """The call in the form of chat messages."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


class Result(NamedTuple):
    """One result: the id of the call that it names, if any, and its text."""

    recorded: str | None
    text: str


@dataclass(slots=True)
class CallIds:
    """Gives out ids that are unique in a chat; `recorded` are those that no made-up id may take."""

    recorded: frozenset[str]
    _taken: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)

    def take(self, recorded: str | None) -> str:
        """The recorded id, or for a second use of it, and for none, another: `call_0`, `call_1`."""
        name = "" if recorded is None else plain_text(recorded)
        if not name or name in self._taken:
            base = name or "call"
            number = self._next.get(base, 0)
            while (name := f"{base}_{number}") in self.recorded or name in self._taken:
                number += 1
            self._next[base] = number + 1
        self._taken.add(name)
        return name


def recorded_id(value: Any) -> str | None:
    """The id in a `tool_call_id` or `source_call_id`; None where there is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def recorded_ids(steps: Iterable[Any]) -> frozenset[str]:
    """Every id of a call in these steps."""
    calls = (call for step in steps if isinstance(step, dict) for call in _listed(step))
    ids = (recorded_id(call.get("tool_call_id")) for call in calls if isinstance(call, dict))
    return frozenset(plain_text(name) for name in ids if name is not None)


def read_calls(step: Mapping[str, Any], ids: CallIds) -> list[ToolCall]:
    """The calls of a step in order. One that is damaged is kept, without what cannot be read."""
    found = []
    for call in _listed(step):
        if not isinstance(call, dict):
            found.append(ToolCall(ids.take(None), "", "{}", sound=False))
            continue
        name = call.get("function_name")
        recorded = recorded_id(call.get("tool_call_id"))
        arguments, exact, is_object = arguments_text(call.get("arguments"))
        named = isinstance(name, str) and bool(name)
        text = plain_text(name) if isinstance(name, str) else ""
        found.append(
            ToolCall(ids.take(recorded), text, arguments, recorded, named and exact, is_object)
        )
    return found


def arguments_text(value: Any) -> tuple[str, bool, bool]:
    """(JSON text, whether it says what was recorded, whether it is an object) of arguments.

    A string that is JSON text stays as it is: `'{"a": 1}'` gives `{"a": 1}`; other strings become
    JSON strings. No arguments are `{}`. NaN and infinities, which JSON has not, become null.
    """
    if value is None or value == "":
        return "{}", True, True
    if isinstance(value, str):
        try:
            parsed = json.loads(value, parse_constant=_refuse)
            written = json.dumps(parsed, ensure_ascii=False)
        except (ValueError, RecursionError):
            return plain_text(json.dumps(value, ensure_ascii=False)), True, False
        plain = plain_text(written)
        text = plain_text(value) if plain == written else plain
        return text, True, isinstance(parsed, dict)
    try:
        written = json.dumps(value, ensure_ascii=False)
        finite = json.loads(written, parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "{}", False, True
    return plain_text(text), text == written, isinstance(value, dict)


def match_results(
    calls: Sequence[ToolCall], results: Sequence[Result]
) -> tuple[list[list[str]], bool]:
    """(the texts that answer each call, whether one was placed by guess).

    A result that names a call answers it. Those that name none answer, in order, the calls without
    a result. Where their numbers differ, a single one answers the last call, as terminus-2 records
    what the terminal showed after all commands; nothing is dropped.

    Three calls a, b, c and the results (None, "1"), ("b", "2"), (None, "3"): [["1"], ["2"], ["3"]].
    """
    answers: list[list[str]] = [[] for _ in calls]
    places: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        if call.recorded is not None:
            places.setdefault(call.recorded, []).append(place)
    rest: list[Result] = []
    guessed = False
    for result in results:
        named = places.get(result.recorded or "")
        if not named:
            rest.append(result)
            continue
        free = next((place for place in named if not answers[place]), None)
        guessed |= free is None and len(named) > 1
        answers[named[-1] if free is None else free].append(result.text)
    unanswered = [place for place, texts in enumerate(answers) if not texts]
    if not rest:
        return answers, guessed
    guessed |= any(result.recorded is not None for result in rest)
    if len(rest) == 1 and len(unanswered) != 1:
        answers[unanswered[-1] if unanswered else -1].append(rest[0].text)
        joint = len(results) == 1 and all(call.name in _JOINT for call in calls)
        return answers, guessed or not joint
    for number, result in enumerate(rest):
        place = unanswered[min(number, len(unanswered) - 1)] if unanswered else -1
        answers[place].append(result.text)
    return answers, guessed or len(rest) != len(unanswered)


def _listed(step: Mapping[str, Any]) -> list[Any]:
    calls = step.get("tool_calls")
    return calls if isinstance(calls, list) else []


def _refuse(name: str) -> None:
    raise ValueError(name)
