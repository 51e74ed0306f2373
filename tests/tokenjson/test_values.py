"""Lists of objects that are left out of records are as `json` reads them, and no other text is."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from wmo_distill.files import Absent, parse_json
from wmo_distill.tokenjson import numbers, values
from wmo_distill.tokenjson.reader import RecordReader
from wmo_distill.tokenjson.skeleton import ListNames
from wmo_distill.tokenjson.values import Unparsed

NAMES = ListNames("prompt", "tokens", "logprobs")
Lines = list[bytes]


def holders(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield record
    again = record.get("again")
    yield again if isinstance(again, dict) else {}


def reader() -> RecordReader:
    return RecordReader(NAMES, holders, values=("chat", "content"))


def said(turn: int) -> dict[str, Any]:
    """A message whose text looks like the end of a list, and like a list."""
    return {"text": f'}}]}}, "prompt": [{turn}, "chat": [{{\\" é', "parts": [{"n": turn}, []]}


def conversation(turns: int) -> list[dict[str, Any]]:
    chat: list[Any] = [said(0)]
    found = []
    for turn in range(1, turns + 1):
        content = [{"token": str(turn), "logprob": -0.5}] * 3
        again = {"chat": chat, "stop": ["x"], "logprobs": True}
        found.append({"chat": chat, "prompt": [5, turn], "again": again, "content": content})
        chat = [*chat, said(turn), said(-turn)]
    return found


def plain(value: Any) -> Any:
    """A value with what was left out, and without the token lists, which are tested elsewhere."""
    if isinstance(value, Unparsed):
        return parse_json(value.text)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in NAMES}
    return value


def read_all(lines: Lines) -> list[Any]:
    read = reader().read
    return [plain(read(line)) for line in lines]


def expected(lines: Lines) -> list[Any]:
    return [plain(parse_json(line)) for line in lines]


@pytest.fixture(params=["with simdjson", "without"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr(numbers, "simdjson", None)
    elif numbers.simdjson is None:
        pytest.skip("pysimdjson is not installed")


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":"), (" ,  ", " : ")])
def test_records_are_read_as_json_reads_them(separators: tuple[str, str]) -> None:
    lines = [json.dumps(one, separators=separators).encode() for one in conversation(9)]
    assert read_all(lines) == expected(lines)


def test_what_repeats_is_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chat what each record adds; none of its second copy."""
    proved: list[bytes] = []
    real = values.is_value

    def counted(text: bytes) -> bool:
        proved.append(text)
        return real(text)

    monkeypatch.setattr(values, "is_value", counted)
    read = reader().read
    for turn, one in enumerate(conversation(30)):
        proved.clear()
        value = read(json.dumps(one).encode())
        assert isinstance(value["again"]["chat"], Unparsed)
        chat = json.dumps([said(0)] if turn == 0 else [{}, said(turn), said(-turn)])
        ends = [text for text in proved if real(text)]
        assert ends == [chat.encode(), json.dumps(one["content"]).encode()]


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "other",
    [
        b'{"chat": [{"a": 1}, {"b": 2}x], "prompt": [1]}',
        b'{"chat": [{"a": 1}.5, {"b": 2}], "prompt": [1]}',
        b'{"chat": [{"a": 1}5, {"b": 2}], "prompt": [1]}',
        b'{"chat": [{"a": 1}{"b": 2}], "prompt": [1]}',
        b'{"chat": [{"a": 1}, ], "prompt": [1]}',
        b'{"chat": [{"a": 1}, {"b": NaN}], "prompt": [1]}',
        b'{"chat": [{"a": 1}], "chat": [{"a": 1}], "prompt": [1]}',
        b'{"chat": [{"a": 1}, {"b": "\xff"}], "prompt": [1]}',
        b'{"chat": [{"a": 1}, {"b": "\\ud800"}], "prompt": [1]}',
        b'{"chat": [ ], "content": [], "prompt": [1]}',
        b'{"x": "\\"chat\\": [{\\"a\\": 1}]", "chat": [{"a": 1}]}',
        b'{"x": {"chat": [{"a": 1}]}, "content": [[{"a": 1}]]}',
        b'{"chat": [{"a": 1} , {"chat": [{"a": 1}]}], "again": {"chat": [{"a": 1}]}}',
        b'{"chat": [{"a": 1}]',
        b'{"chat": [{"a": 1}',
        b'{"x": "chat": [{"a": 1}]}',
        b'{"x": "y"chat": [{"a": 1}], "z": "]"}',
        b'["chat": [{"a": 1}]]',
        b'{"again": {"chat": [{"a": 1}], "content": {"a": 1}}}',
    ],
)
def test_any_record_between_others(other: bytes) -> None:
    """Its list begins as the one before: a text that only looks like it is not taken for it."""
    first = b'{"chat": [{"a": 1}], "prompt": [1]}'
    lines = [first, other, other, first, b'{"chat": [{"a": 1}, {"b": 2}]}']
    assert read_all(lines) == expected(lines)


def test_an_empty_list_is_no_element() -> None:
    """What is behind it looks like four ends, so that the last bracket is tried."""
    empty = b'{"chat": [ ], "prompt": [1], "x": "}]}]}]}]"}'
    lines = [empty, b'{"chat": [ , {"a": 1}], "prompt": [1]}']
    assert read_all(lines) == expected(lines) == [plain(parse_json(empty)), Absent.UNREADABLE]


def test_a_list_that_cannot_be_proved_is_not_tried_for_each_list_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of an emoji, as a text has it that was cut: orjson and simdjson refuse it."""
    proved: list[bytes] = []
    monkeypatch.setattr(values, "is_value", lambda text: bool(proved.append(text)))
    part = {"a": [{}], "b": [{}], "c": [{}], "d": [{}], "e": 1}
    chat = [{"content": [part]}] * 50
    line = json.dumps({"chat": [*chat, {"text": "\ud83d"}], "prompt": [1]}).encode()
    assert read_all([line, line]) == expected([line, line])
    assert len(proved) <= 5


def _anywhere(line: bytearray, random: Random) -> None:
    line[random.randrange(len(line))] = random.choice(b' "[]{},:.0123456789-eE\\tn\xff\0')


def _at_joints(line: bytearray, random: Random) -> None:
    """A mark is taken away, or put in where another one is."""
    marks = [at for at, byte in enumerate(line) if byte in b'[]{},"']
    at = random.choice(marks)
    line[at : at + random.randint(0, 1)] = random.choice([b"", b"]", b"}", b'"', b",", b"[{", b"0"])


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("damage", [_anywhere, _at_joints])
def test_damage_is_read_as_json_reads_it(damage: Callable[[bytearray, Random], None]) -> None:
    random = Random(7)
    whole = [json.dumps(one).encode() for one in conversation(4)]
    refused = 0
    for _ in range(1500):
        lines = [bytearray(line) for line in whole]
        for _ in range(random.randint(1, 3)):
            damage(random.choice(lines), random)
        damaged = [bytes(line) for line in lines]
        wanted = expected(damaged)
        refused += wanted.count(Absent.UNREADABLE)
        assert read_all(damaged) == wanted, damaged
    assert 0 < refused < 4500
