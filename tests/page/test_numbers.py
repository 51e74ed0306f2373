"""How a number is written, and where its path leads."""

import pytest

from wmo_distill.page.numbers import Numbers, value_at, written
from wmo_distill.visible import shortened

DATA = {"a": {"b": [{"n": 3}, {"n": None}]}, "words": {"x": 2, "y": 5}, "length": 9}


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.b.0.n", 3), ("a.b.1.n", None), ("a.b.length", 2), ("words.sum", 7), ("words.length", 2),
     ("length", 9)],
)  # fmt: skip
def test_a_path_leads_to_a_value(path: str, value: object) -> None:
    assert value_at(DATA, path) == value


@pytest.mark.parametrize("path", ["b", "a.c", "words.z", "a.b.2", "a.b.x"])
def test_a_path_to_nothing_is_an_error(path: str) -> None:
    with pytest.raises((KeyError, IndexError, ValueError)):
        value_at(DATA, path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0, "0"), (12345, "12,345"), (3.0, "3"), (0.123456, "0.1235"),
        (-0.5, "−0.5"), (31234.56, "31,235"), (-2.5e12, "−2,500,000,000,000"), (5e-16, "5e-16"),
        (1e300, "1e+300"), (True, "true"),
    ],
)  # fmt: skip
def test_numbers_are_written_for_people(value: float | None, text: str) -> None:
    assert written(value) == text


def test_a_number_is_next_to_its_path_and_its_exact_value() -> None:
    side = Numbers({"a": {"rate": {"value": 1 / 3}}}).below("a", "A")
    assert str(side.rate("rate")) == (
        '<span data-key="a.rate.value" data-value="0.3333333333333333">0.333</span>'
    )


def test_a_text_of_others_is_escaped_shortened_and_visible() -> None:
    side = Numbers({"name": "<b onclick='x'>\x1b[31m\u202e\ud800" + "x" * 2**20})
    text = str(side.text("name", 120))
    start, _, shown = text.partition(">")
    assert start.startswith('<bdi data-text="name" title="&lt;b onclick=&#39;x&#39;&gt;\\x1b[31m')
    assert len(start) < 400
    assert shown.startswith("&lt;b onclick=&#39;x&#39;&gt;\\x1b[31m\\u202e\\ud800xx")
    assert len(shown) < 250


@pytest.mark.parametrize("most", [2, 10, 80])
def test_what_is_left_of_a_text_is_of_both_of_its_ends(most: int) -> None:
    text = "".join(chr(0x4E00 + at) for at in range(1000))
    short = shortened(text, most)
    assert len(short) == most
    start, _, end = short.partition("…")
    assert text.startswith(start)
    assert text.endswith(end)
    assert shortened(text[:most], most) == text[:most]


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\u202e", "\ud800", "\U000e0041"])
def test_what_is_written_out_is_not_longer(character: str) -> None:
    escape = character.encode("unicode_escape").decode()
    assert shortened(character) == escape
    short = shortened(character * 100)
    assert len(short) <= 80
    assert set(short.split("…")) == {escape * (31 // len(escape)), escape * (48 // len(escape))}
