"""The outline of a JSON file: where its objects are."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.files import TrialFiles
from wmo_distill.tokenjson import outline as module
from wmo_distill.tokenjson.outline import outline, read_between

_keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_values = st.recursive(
    st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=8,
)
_objects = st.lists(st.dictionaries(_keys, _values, max_size=4), max_size=4)


def found(path: Path) -> list[Any]:
    files = TrialFiles(path.parent)
    values = []
    for element in outline(files, path.name):
        data = read_between(files, path.name, element.start, element.end)
        assert isinstance(data, bytes)
        assert element.whole
        values.append(json.loads(data))
        for key, text in element.texts.items():
            assert text is None or text in (values[-1].get(key), _inner(values[-1], key))
    return values


def _inner(value: dict[str, Any], dotted: str) -> Any:
    for at in (i for i, char in enumerate(dotted) if char == "."):
        inner = value.get(dotted[:at])
        if isinstance(inner, dict) and dotted[at + 1 :] in inner:
            return inner[dotted[at + 1 :]]
    return None


@given(_objects, st.sampled_from([None, 2]), st.sampled_from([1, 7, 64, 1 << 20]), st.booleans())
def test_every_object_is_found(
    tmp_path_factory: pytest.TempPathFactory,
    objects: list[dict[str, Any]],
    indent: int | None,
    chunk: int,
    lines: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "outline.json"
    text = json.dumps(objects, indent=indent)
    if lines:
        text = "\n".join(json.dumps(value) for value in objects)
    path.write_text(text)
    before, module._CHUNK = module._CHUNK, chunk
    try:
        assert found(path) == objects
    finally:
        module._CHUNK = before


def test_an_object_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(b'\xef\xbb\xbf[{"id": "a", "of": {"id": "b"}}, {"id": "c", "text": "d')
    first, second = outline(TrialFiles(tmp_path), path.name)
    assert (first.texts, first.whole) == ({"id": "a", "of": None, "of.id": "b"}, True)
    assert (second.texts, second.whole) == ({"id": "c", "text": None}, False)
    assert second.end == path.stat().st_size


@pytest.mark.parametrize("text", ["", "3", '"text"', "[1, 2]", "]", "nul", "[[{}]]", "}{"])
def test_other_forms_hold_no_objects(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    assert outline(TrialFiles(tmp_path), "other.json") == []
    assert outline(TrialFiles(tmp_path), "missing.json") == []


def test_numbers_and_deep_objects_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few tokens are looked at, and what is found is what all of them show."""
    asked_for = {"function": {"name": "run", "arguments": '{"cmd": "a\\"]}b"}'}}
    deep = {
        "a": {
            "b": [{"token": f't{n}"', "bytes": [n], "top_logprobs": []} for n in range(99)],
            "messages": [{"content": "a"}, {"tool_calls": [asked_for] * 2}, {"content": "b"}] * 9,
        }
    }
    texts = [{"id": "e", "list": list(range(9999)), **deep, "end": "f"}] * 3
    whole = json.dumps(texts).encode()
    asked: list[int] = []
    real = module._tokens

    def counted(*given: Any) -> Any:
        for one in real(*given):
            asked.append(one[0])
            yield one

    monkeypatch.setattr(module, "_tokens", counted)
    random = Random(3)
    for turn in range(300):
        data = bytearray(whole)
        for _ in range(min(turn, 3)):
            data[random.randrange(len(data))] = random.choice(b'"{}[]\\,: 1\xff')
        (tmp_path / "deep.json").write_bytes(data)
        monkeypatch.setattr(module, "_CHUNK", random.choice([100, 1000]) if turn else 1 << 20)
        quick = outline(TrialFiles(tmp_path), "deep.json")
        n_quick = len(asked)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_DEEP", len(data))
            assert outline(TrialFiles(tmp_path), "deep.json") == quick
        assert turn or 5 * n_quick < len(asked) - n_quick
        asked.clear()
