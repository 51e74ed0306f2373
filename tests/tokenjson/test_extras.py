"""Large elements of an `extra` are taken out only where the answer is that of the plain reader."""

import json
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.harbor import documents
from wmo_distill.tokenjson import numbers, scan
from wmo_distill.tokenjson.extras import PATIENCE, SMALL, Written, json_text, object_text
from wmo_distill.tokenjson.window import WINDOW

ROUTED = [[[7, 300], [0, 12]]] * SMALL
BASE64 = "QUJD" * SMALL
MIXED = [1.50, -0, True, None, "é", "\ud800", 10**30] * SMALL


def read(folder: Path, text: str, *, extra: bool = True) -> documents.Document:
    (folder / "result.json").write_text(text)
    found = documents.read_result(TrialFiles(folder), extra=extra)
    assert not isinstance(found, Absent)
    return found


def document(extra: Any, **more: Any) -> dict[str, Any]:
    return {"agent_result": {"rollout_details": [{"extra": extra}]}, **more}


def extra_of(found: documents.Document) -> Any:
    return found.value["agent_result"]["rollout_details"][0]["extra"]


@pytest.fixture(params=["simdjson", "without"], autouse=True)
def _accelerator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr(numbers, "simdjson", None)


@pytest.mark.parametrize("element", [ROUTED, BASE64, MIXED])
def test_a_large_element_is_written_as_if_it_had_been_parsed(element: Any, tmp_path: Path) -> None:
    text = json.dumps(document({"a": [None, element, element], "b": ["x"]}), indent=4)
    found = read(tmp_path, text)
    expected = Written(json.dumps(element, separators=(",", ":"), ensure_ascii=False))
    assert extra_of(found) == {"a": [None, expected, expected], "b": ["x"]}
    assert not found.slow
    unwanted = extra_of(read(tmp_path, text, extra=False))
    assert unwanted == {"a": [None, Written(None), Written(None)], "b": ["x"]}


def test_an_element_may_be_larger_than_the_window(tmp_path: Path) -> None:
    element = [0, 1] * WINDOW
    found = read(tmp_path, json.dumps(document({"a": [element]}), indent=4))
    assert extra_of(found) == {"a": [Written(json_text(element))]}


def test_values_that_are_no_lists_stay(tmp_path: Path) -> None:
    extra = {"a": {"b": BASE64, "c": [BASE64]}, "d": BASE64, "e": []}
    found = read(tmp_path, json.dumps(document(extra), indent=4))
    assert extra_of(found) == extra
    assert not found.slow


def test_behind_thousands_of_small_elements_nothing_is_taken_out(tmp_path: Path) -> None:
    extra = {"a": [[n] for n in range(PATIENCE)] + [BASE64], "b": [BASE64]}
    found = read(tmp_path, json.dumps(document(extra), indent=4))
    assert extra_of(found) == extra
    assert not found.slow


def test_an_extra_elsewhere_is_left_as_it_is(tmp_path: Path) -> None:
    config = {"agent": {"kwargs": {"extra": {"a": [BASE64, 1]}}}}
    found = read(tmp_path, json.dumps(document({"a": [BASE64]}, config=config), indent=4))
    assert found.value["config"] == config
    assert found.slow


@pytest.mark.parametrize("indent", [None, 2, 8])
def test_other_indentation_gives_the_same_values(indent: int | None, tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps(document({"a": [ROUTED, None]}), indent=indent))
    first, second = extra_of(found)["a"]
    assert object_text({"a": first}) == object_text({"a": ROUTED})
    assert second is None


def nested(levels: int) -> Any:
    """Integers below so many lists."""
    value: Any = list(range(SMALL))
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("extra", [True, False])
@pytest.mark.parametrize("levels", [90, 400, 900])
def test_nesting_is_followed_as_deep_as_the_parser_goes(
    levels: int, extra: bool, tmp_path: Path
) -> None:
    text = json.dumps(document({"a": [nested(levels), nested(levels)]}), indent=4)
    (tmp_path / "result.json").write_text(text)
    files = TrialFiles(tmp_path)
    found = documents.read_result(files, extra=extra)
    assert isinstance(found, Absent) is isinstance(files.read_json("result.json"), Absent)


@pytest.mark.parametrize("extra", [True, False])
def test_a_mark_of_byte_order_is_no_white_space(extra: bool, tmp_path: Path) -> None:
    text = json.dumps(document({"a": [BASE64, ROUTED]}), indent=4)
    for old in ('"QUJD', "[\n                            ["):
        (tmp_path / "result.json").write_text(text.replace(old, "\ufeff" + old, 1))
        assert documents.read_result(TrialFiles(tmp_path), extra=extra) is Absent.UNREADABLE


@pytest.mark.parametrize(
    "values",
    [
        {"a": "\ud800" * SMALL, "é": BASE64},
        {"a": "\ud800", "b": ["é"] * SMALL},
        {"a": "é" * SMALL, "\ud800": None},
        {"a": "é" * SMALL, "b": ROUTED, "c": 1.50},
    ],
)
def test_the_text_of_a_call_is_that_of_its_values(values: dict[str, Any], tmp_path: Path) -> None:
    lists = {key: [value, value] for key, value in values.items()}
    found = extra_of(read(tmp_path, json.dumps(document(lists), indent=4)))
    assert any(isinstance(rows[0], Written) for rows in found.values())
    assert object_text({key: rows[0] for key, rows in found.items()}) == json_text(values)


@pytest.mark.parametrize(
    "first", ["{}", "null", "[]", "7", '{"a": [1]}', "{\n}", '{\n                "b": 1\n}']
)
def test_an_extra_of_another_form_does_not_hide_what_follows(first: str, tmp_path: Path) -> None:
    entry = {"extra": "HERE", "prompt_token_ids": [[1, 2], [1, 2, 3]], "logprobs": [[-0.5]]}
    more = {"extra": {"a": [BASE64]}, "prompt_token_ids": [[5]]}
    text = json.dumps({"agent_result": {"rollout_details": [entry, more]}}, indent=4)
    found = read(tmp_path, text.replace('"HERE"', first))
    assert not found.slow
    assert found.value["agent_result"]["rollout_details"][0]["extra"] == json.loads(first)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('QUJD",\n', 'QUJD"\n'),  # no comma
        ('QUJD",\n', 'QUJD",,\n'),
        ('QUJD"\n', 'QUJD",\n'),  # a comma too many
        ('QUJD"\n', 'QUJD"]\n'),
        ('"QUJD', "QUJD"),
        ('QUJD"\n', 'QUJD", 5 6\n'),
    ],
)
def test_what_is_no_json_is_unreadable(old: str, new: str, tmp_path: Path) -> None:
    text = json.dumps(document({"a": [BASE64, BASE64]}), indent=4)
    assert old in text
    (tmp_path / "result.json").write_text(text.replace(old, new, 1))
    for extra in (True, False):
        assert documents.read_result(TrialFiles(tmp_path), extra=extra) is Absent.UNREADABLE


def test_a_string_that_spans_lines_is_unreadable(tmp_path: Path) -> None:
    text = json.dumps(document({"a": list(range(SMALL))}), indent=4)
    text = text.replace('"a": [', '"a": "[').replace("]", ']"', 1)
    (tmp_path / "result.json").write_text(text)
    for extra in (True, False):
        assert documents.read_result(TrialFiles(tmp_path), extra=extra) is Absent.UNREADABLE


def test_two_values_in_one_line_are_two_elements(tmp_path: Path) -> None:
    text = json.dumps(document({"a": [BASE64, BASE64]}), indent=4).replace('QUJD"\n', 'QUJD", 5\n')
    for extra in (True, False):
        assert len(extra_of(read(tmp_path, text, extra=extra))["a"]) == 3


def test_where_the_window_ends_is_of_no_importance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(document({"a": [ROUTED[:900], BASE64], "b": [1.5, None]}), indent=4)
    expected = extra_of(read(tmp_path, text))
    for window in range(150, 190):
        monkeypatch.setattr(scan.scan, "__defaults__", (window,))
        assert extra_of(read(tmp_path, text)) == expected
