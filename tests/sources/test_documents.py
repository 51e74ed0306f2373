"""The fast reader, with its accelerator or without, answers as the plain reader does."""

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.harbor import documents
from wmo_distill.sources.harbor.plain import read_result_lists, read_step_lists
from wmo_distill.tokenjson import extras, numbers, scan
from wmo_distill.tokenjson.extras import Written
from wmo_distill.tokenjson.rows import UNREAD_IDS, UNREAD_LOGPROBS, IdRow, LogprobRow, whole_row

LONG = numbers._LONG


FORMS = {
    "result": read_result_lists,
    "trajectory": read_step_lists,
}


def comparable(value: Any) -> Any:
    """A value in which rows compare by content and floats by their bits."""
    if isinstance(value, IdRow):
        ids = whole_row(value)
        return "ids", value.missing, None if ids is None else ids.tolist()
    if isinstance(value, LogprobRow):
        bits = None if value.values is None else value.values.tobytes()
        return "logprobs", value.missing, value.nulls, bits
    if isinstance(value, Written):
        return comparable(value.value())
    if isinstance(value, dict):
        return {key: comparable(x) for key, x in value.items()}
    if isinstance(value, list):
        return [comparable(x) for x in value]
    return repr(value)


def unread_matches(value: Any, whole: Any) -> bool:
    """Whether a value is `whole`, but for rows and extras that were left unread."""
    if isinstance(value, Written) and value.text is None:
        return True
    if value is UNREAD_IDS or value is UNREAD_LOGPROBS:
        return type(whole) is type(value) and not whole.missing
    if isinstance(value, dict):
        return value.keys() == whole.keys() and all(
            unread_matches(value[key], whole[key]) for key in value
        )
    if isinstance(value, list):
        return len(value) == len(whole) and all(map(unread_matches, value, whole))
    return bool(comparable(value) == comparable(whole))


def check(data: bytes, form: str, folder: Path, window: int = 1 << 20) -> bool:
    """All readers agree on `data`; gives whether the fast one could read it."""
    (folder / "x.json").write_bytes(data)
    files = TrialFiles(folder)
    plain = FORMS[form]
    value = files.read_json("x.json")
    if not isinstance(value, Absent):
        plain(value)
    slow = []
    for accelerator, long in {(numbers.simdjson, LONG), (None, LONG), (None, 0)}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbers, "simdjson", accelerator)
            patch.setattr(numbers, "_LONG", long)
            patch.setattr(documents, "scan", partial(scan.scan, window=window))
            patch.setattr(extras, "SMALL", 1)
            if form == "result":
                fast = documents.read_result(files, "x.json", extra=True)
                unread = documents.read_result(files, "x.json", extra=False)
            else:
                fast = documents.read_trajectory_file(files, "x.json")
                unread = documents.read_trajectory_file(files, "x.json", unread=True)
        if isinstance(value, Absent):
            assert fast is value
            assert unread is value
            continue
        assert not isinstance(fast, Absent)
        assert comparable(fast.value) == comparable(value)
        assert not isinstance(unread, Absent)
        assert unread_matches(unread.value, value)
        slow.append(fast.slow)
    return bool(slow) and not any(slow)


# Values that JSON can hold in the place of a number, a list or an object.
junk = st.sampled_from(
    [None, True, 5.0, -1, 2**31, 2**64, "6", "]", "[", [1], [], {}, {"a": [1]}, 10**400, 0.5, -0.0]
)


id_lists = st.lists(st.integers(0, 40) | st.integers(0, 2**31 - 1), max_size=6)


elements = st.recursive(
    junk | st.text(max_size=4) | st.integers(-2, 300) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


calls_extras = st.dictionaries(
    st.sampled_from(["a", "logprobs", "routed_experts"]),
    st.lists(elements, max_size=4) | elements,
    max_size=3,
)


logprobs = st.lists(st.floats() | st.integers(-3, 1), max_size=4)


@st.composite
def prompts(draw: st.DrawFn) -> list[Any]:
    """Rows that mostly extend the row before, sometimes cut, edited or broken."""
    rows: list[Any] = []
    current: list[Any] = []
    for _ in range(draw(st.integers(0, 5))):
        edit = draw(st.sampled_from(["extend", "extend", "extend", "same", "cut", "change", "new"]))
        if edit == "extend":
            current = current + draw(id_lists)
        elif edit == "cut":
            current = current[: draw(st.integers(0, len(current)))]
        elif edit == "change" and current:
            at = draw(st.integers(0, len(current) - 1))
            current = [*current[:at], draw(st.integers(0, 2**31 - 1) | junk), *current[at + 1 :]]
        elif edit == "new":
            current = draw(id_lists)
        rows.append(current)
    if draw(st.integers(0, 9)) == 0:
        rows.insert(draw(st.integers(0, len(rows))), draw(junk))
    return rows


@st.composite
def entries(draw: st.DrawFn) -> Any:
    entry: dict[str, Any] = {
        "prompt_token_ids": draw(prompts()),
        "completion_token_ids": draw(st.lists(id_lists | junk, max_size=4)),
        "logprobs": draw(st.lists(logprobs | junk, max_size=4)),
        "extra": draw(calls_extras | junk),
    }
    for key in draw(st.sets(st.sampled_from(sorted(entry)))):
        entry[key] = draw(junk)
    return entry


@st.composite
def results(draw: st.DrawFn) -> Any:
    def agent() -> Any:
        return {"rollout_details": draw(st.lists(entries() | junk, max_size=3)), "metadata": 1}

    document: dict[str, Any] = {
        "text": draw(st.text(max_size=8) | st.sampled_from(['"logprobs": [[1]]', "]", '\\"', "é"])),
        "agent_result": agent(),
        "other": draw(st.just({"prompt_token_ids": [[1, 2]]}) | junk),
    }
    if draw(st.booleans()):
        document["step_results"] = [{"agent_result": agent()}, draw(junk)]
    return document


@st.composite
def trajectories(draw: st.DrawFn) -> Any:
    steps: list[Any] = []
    for prompt in draw(prompts()):
        metrics = {
            "prompt_token_ids": prompt,
            "completion_token_ids": draw(id_lists | junk),
            "logprobs": draw(logprobs | junk),
        }
        kept = draw(st.sets(st.sampled_from(sorted(metrics))))
        steps.append(
            {"message": draw(st.text(max_size=5)), "metrics": {k: metrics[k] for k in kept}}
        )
    steps.insert(0, draw(junk))
    return {"steps": steps}


def written(document: Any, seed: int) -> bytes:
    """The document in one of the ways JSON may be written."""
    rng = random.Random(seed)
    style = rng.randrange(5)
    if style < 2:
        text = json.dumps(document, indent=4, ensure_ascii=bool(style))
    elif style == 2:
        text = json.dumps(document)
    else:
        # White space of any kind around every token outside strings.
        encoder = json.JSONEncoder(separators=(" \n,\t", "\r:  ") if style == 3 else (",", ":"))
        text = "".join(encoder.iterencode(document))
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = b"\xef\xbb\xbf" + data
    return data


@pytest.mark.parametrize("form", sorted(FORMS))
@given(data=st.data(), seed=st.integers(0, 2**32), window=st.sampled_from([32, 50, 200, 1 << 16]))
@settings(max_examples=examples(250))
def test_any_document(
    form: str, data: st.DataObject, seed: int, window: int, tmp_path_factory: Any
) -> None:
    document = data.draw(results() if form == "result" else trajectories())
    check(written(document, seed), form, tmp_path_factory.mktemp("d"), window)


@pytest.mark.parametrize("form", sorted(FORMS))
@given(data=st.data(), seed=st.integers(0, 2**32), window=st.sampled_from([32, 200, 1 << 16]))
@settings(max_examples=examples(250))
def test_any_damage(
    form: str, data: st.DataObject, seed: int, window: int, tmp_path_factory: Any
) -> None:
    """Truncation, changed bytes, bytes put in, pieces doubled."""
    document = data.draw(results() if form == "result" else trajectories())
    text = bytearray(written(document, seed))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(text) - 1, 0)))
        kind = data.draw(st.sampled_from(["cut", "set", "insert", "delete", "double"]))
        if kind == "cut":
            del text[at:]
        elif kind == "set" and text:
            text[at] = data.draw(st.sampled_from(b'0159,]["{}:. \n-eE\xff'))
        elif kind == "insert":
            text[at:at] = data.draw(
                st.sampled_from([b",", b"0", b" ", b"[", b"]", b"1 ", b'"', b"NaN"])
            )
        elif kind == "delete":
            del text[at : at + data.draw(st.integers(1, 3))]
        else:
            text[at:at] = text[at : at + data.draw(st.integers(1, 40))]
    check(bytes(text), form, tmp_path_factory.mktemp("d"), window)
