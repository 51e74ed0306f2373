"""Text that is proved to be ids without being parsed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.tokenjson import numbers

_NUMBER = rb"(?:0|[1-9][0-9]{0,14})"
_IDS = re.compile(rb"%b(?:, %b)*" % (_NUMBER, _NUMBER))

lists = st.lists(st.integers(0, 10**17), min_size=1, max_size=8).map(
    lambda values: ", ".join(map(str, values))
)
pieces = st.sampled_from([",", " ", ", ", "0", "-", ".", "\n", "]", "7", "e1", '"', "\x00", "\xff"])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    text = draw(lists)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(pieces) + text[at + draw(st.integers(0, 2)) :]
    return text.encode("latin-1")


@given(damaged() | st.text("0123, ", max_size=12).map(str.encode))
def test_plain_ids_are_what_the_grammar_says(text: bytes) -> None:
    assert numbers.plain_ids(text) is (len(text) >= 4 and _IDS.fullmatch(text) is not None)


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize(
    ("texts", "sound"),
    [
        ([b"1, 2", b"3"], True),
        ([b"1,2", b"-3.5e1, null"], True),
        ([b"", b"12345"], True),
        ([b"12345, ", b"67890"], False),
        ([b"12345", b", 67890"], False),
        ([b"012345"], False),
        ([b"1, 2, 3, 4 5"], False),
    ],
)
def test_every_text_must_be_the_inside_of_a_list(
    texts: list[bytes], sound: bool, accelerated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not accelerated:
        monkeypatch.setattr(numbers, "simdjson", None)
    if sound:
        numbers.prove_ids(texts)
    else:
        with pytest.raises(numbers.NotFlat):
            numbers.prove_ids(texts)


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize(
    "odd", ["true", "null", "2.5", "2.0", '"2"', "1e3", "{}", "-1", str(2**31), str(2**64), "NaN"]
)
def test_what_is_no_id_damages_its_list(
    odd: str, accelerated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not accelerated:
        monkeypatch.setattr(numbers, "simdjson", None)
    assert numbers.read_ids(f"1, {odd}".encode()) is None
    assert numbers.read_ids_after(f", 1, {odd}".encode()) is None


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"-1, -0.5, 1e-3", [-1.0, -0.5, 0.001]),
        (b"", []),
        (b"18446744073709551617", [2.0**64]),
        (b"-1, true", None),
        (b'-1, "-2"', None),
        (b"-1, {}", None),
    ],
)
def test_logprobs_are_numbers(
    text: bytes, values: list[float] | None, accelerated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not accelerated:
        monkeypatch.setattr(numbers, "simdjson", None)
    row = numbers.read_logprobs(text)
    assert (None if row.values is None else row.values.tolist()) == values
    assert not row.nulls
