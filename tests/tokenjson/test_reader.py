"""Records read one after another are as `json` reads each; what repeats is not parsed again."""

import json
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from wmo_distill.files import Absent, parse_json
from wmo_distill.tokenjson import scan
from wmo_distill.tokenjson.reader import RecordReader
from wmo_distill.tokenjson.rows import IdRow, LogprobRow, SharedRows, id_row, logprob_row, whole_row
from wmo_distill.tokenjson.skeleton import ListNames

NAMES = ListNames("prompt", "tokens", "logprobs")


def holders(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield record
    again = record.get("again")
    yield again if isinstance(again, dict) else {}


def record(prompt: list[int], /, n: int = 2, **others: Any) -> dict[str, Any]:
    tokens = [prompt[-1] + k for k in range(n)] if prompt else []
    return {"id": "r", "prompt": prompt, "tokens": tokens, "logprobs": [-0.5] * n, **others}


def conversation(turns: int) -> list[dict[str, Any]]:
    prompt, found = [5, 67], []
    for turn in range(turns):
        found.append(record(prompt, again={"prompt": prompt, "text": '"prompt": [1'}))
        prompt = [*prompt, 1000 + turn, 7]
    return found


def read_all(lines: list[bytes]) -> list[Any]:
    read = RecordReader(NAMES, holders).read
    return [read(line) for line in lines]


def plain(value: Any) -> Any:
    """A value with lists where rows are; a damaged or missing row is null."""
    if isinstance(value, IdRow):
        ids = whole_row(value)
        return None if ids is None else ids.tolist()
    if isinstance(value, LogprobRow):
        return None if value.values is None else str(value.values.tolist())
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def expected(line: bytes) -> Any:
    value = parse_json(line)
    if isinstance(value, dict):
        for holder in holders(value):
            for name in NAMES:
                if name in holder:
                    row = (logprob_row if name == NAMES.logprobs else id_row)(holder[name])
                    holder[name] = row if isinstance(holder[name], list) else holder[name]
    return plain(value)


def same(line: bytes, value: Any) -> bool:
    """An empty list stays one, so rows are made of those that are left."""
    for holder in holders(value) if isinstance(value, dict) else ():
        for name in NAMES:
            if isinstance(holder.get(name), list):
                row = (logprob_row if name == NAMES.logprobs else id_row)(holder[name])
                holder[name] = row
    return bool(plain(value) == expected(line))


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":"), (" ,  ", " : ")])
def test_records_are_read_as_json_reads_them(separators: tuple[str, str]) -> None:
    lines = [json.dumps(one, separators=separators).encode() for one in conversation(20)]
    assert all(map(same, lines, read_all(lines)))


@pytest.mark.parametrize(
    "other",
    [
        record([5, 67], prompt=[5, 6.0]), record([5, 67], tokens=[True]), record([5, 67], n=0),
        record([]), record([5, 67], prompt=[[5], [6]]), record([5, 67], logprobs=[None, "x"]),
        record([5, 67], prompt=None), record([5, 67], prompt="5"), record([5, 67], other=[[1]]),
        record([5, 67], elsewhere={"prompt": [1, 2]}), record([5, 67], again=[{"tokens": [1]}]),
        record([5, 67], logprobs=[float("nan"), 0.0]), [1], 7, None, {},
    ],
    ids=repr,
)  # fmt: skip
def test_any_record_between_others_costs_itself_alone(other: Any) -> None:
    lines = [json.dumps(one).encode() for one in conversation(6)]
    lines[3:3] = [json.dumps(other).encode()] * 2
    assert all(map(same, lines, read_all(lines)))


def test_damage_is_read_as_json_reads_it() -> None:
    random = Random(5)
    whole = [json.dumps(one).encode() for one in conversation(4)]
    for _ in range(3000):
        lines = [bytearray(line) for line in whole]
        line = random.choice(lines)
        for _ in range(random.randint(1, 3)):
            line[random.randrange(len(line))] = random.choice(b' "[]{},:.0123456789-eE\\tn\xff\0')
        damaged = [bytes(line) for line in lines]
        for text, value in zip(damaged, read_all(damaged), strict=True):
            if expected(text) is Absent.UNREADABLE:
                assert value is Absent.UNREADABLE
            else:
                assert same(text, value), text


def test_the_text_of_a_prompt_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of prompts that are parsed grow with what is new, not with what is repeated."""
    parsed: list[int] = []
    for name in ("read_ids", "read_ids_after"):
        read = getattr(scan, name)

        def counted(text: bytes, read: Any = read) -> Any:
            parsed.append(len(text))
            return read(text)

        monkeypatch.setattr(scan, name, counted)
    lines = [json.dumps(one).encode() for one in conversation(200)]
    read_all(lines)
    assert sum(parsed) < 200 * 40
    assert sum(map(len, lines)) > 40 * sum(parsed)


def test_a_prompt_that_is_written_twice_is_one_link() -> None:
    values = read_all([json.dumps(one).encode() for one in conversation(50)])
    for before, after in pairwise(values):
        assert after["prompt"].before is before["prompt"]


def test_prompts_that_share_a_little_are_no_chain() -> None:
    """Each fresh prompt is one step from the first, not as many as there are before it."""
    lines = [json.dumps(record([5, 6, 7, 100 + n, n])).encode() for n in range(300)]
    prompts = [value["prompt"] for value in read_all(lines)]
    assert all(row.base is prompts[0] for row in prompts[1:])
    assert all(row.before is before for before, row in pairwise(prompts))
    assert [whole_row(row).tolist() for row in prompts] == [  # type: ignore[union-attr]
        [5, 6, 7, 100 + n, n] for n in range(300)
    ]


def test_any_chain_is_followed_to_what_each_row_shares() -> None:
    random, chain, lists = Random(2), SharedRows(), [[1, 2, 3, 4, 5, 6, 7, 8]]
    for _ in range(400):
        kept = lists[-1][: random.randint(0, len(lists[-1]))]
        lists.append([*kept, *(random.randrange(9) for _ in range(random.randrange(6)))])
    rows = [chain.add(id_row(ids)) for ids in lists]
    assert [whole_row(row).tolist() for row in rows] == lists  # type: ignore[union-attr]


def test_an_empty_list_stays_one_in_a_record_that_is_parsed_whole() -> None:
    (value,) = read_all([b'{"prompt": [], "elsewhere": {"tokens": [1]}}'])
    assert value == {"prompt": [], "elsewhere": {"tokens": [1]}}
