"""Every reader of numbers answers as `json.loads` does, and proofs hold what they say."""

import json
import math
import re
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from wmo_distill.tokenjson import numbers
from wmo_distill.tokenjson.rows import id_row, logprob_row

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


READERS = {"simdjson": (numbers.simdjson, 1 << 40), "numpy": (None, 0), "orjson": (None, 1 << 40)}


@pytest.fixture(params=sorted(READERS))
def reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """One of the ways to read numbers, for as long as the test runs."""
    simdjson, long = READERS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "simdjson", simdjson)
        patch.setattr(numbers, "_LONG", long)
        yield request.param


def ids_or_fault(text: bytes) -> list[int] | str | None:
    try:
        ids = numbers.read_ids(text)
    except numbers.NotFlat:
        return "not flat"
    return None if ids is None else ids.tolist()


@settings(max_examples=examples(300))
@example(b"1,2,3,")
@example(b"1,,2,3")
@example(b"1,[2,3")
@example(b'1,"2,3",4')
@example(b"1,2,true")
@given(damaged())
def test_a_long_list_reads_in_pieces_as_at_once(text: bytes) -> None:
    at_once = ids_or_fault(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "_PIECE", 1)
        assert ids_or_fault(text) == at_once


@given(damaged() | st.text("0123, ", max_size=12).map(str.encode))
def test_plain_ids_are_what_the_grammar_says(text: bytes) -> None:
    assert numbers.plain_ids(text) is (len(text) >= 4 and _IDS.fullmatch(text) is not None)


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
    texts: list[bytes], sound: bool, reader: str
) -> None:
    if sound:
        numbers.prove_ids(texts)
    else:
        with pytest.raises(numbers.NotFlat):
            numbers.prove_ids(texts)


@pytest.mark.parametrize(
    "odd",
    [
        "true",
        "false",
        "null",
        "2.5",
        "2.0",
        '"2"',
        "1e3",
        "{}",
        "-1",
        str(2**31),
        str(2**64),
        "NaN",
    ],
)
def test_what_is_no_id_damages_its_list(odd: str, reader: str) -> None:
    assert numbers.read_ids(f"1, {odd}".encode()) is None
    assert numbers.read_ids_after(f", 1, {odd}".encode()) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"-1, -0.5, 1e-3", [-1.0, -0.5, 0.001]),
        (b"", []),
        (b"18446744073709551617", [2.0**64]),
        (b"-1, true", None),
        (b"-1, false", None),
        (b'-1, "-2"', None),
        (b"-1, {}", None),
    ],
)
def test_logprobs_are_numbers(text: bytes, values: list[float] | None, reader: str) -> None:
    row = numbers.read_logprobs(text)
    assert (None if row.values is None else row.values.tolist()) == values
    assert not row.nulls


# Texts that a lenient parser of numbers takes for ids, and what it makes other numbers of.
LENIENT = (
    b"+1, 2", b"-1, 2", b"-01, 2", b"-0", b"007", b"00", b"0, 00", b"1, 2,", b"1, 2, ", b", 1",
    b"1,, 2", b"1, , 2", b"1, , 00", b" , 1", b"0, , 00", b"1 2", b"1 2, 3", b"1,\v2", b"1\f",
    b" ", b"", b",", b"1.", b"1, 2.", b"1, 2 .", b"0x1f", b"1_0", b"1\x00, 2", b"\xa01", b"1e3",
    b"1, 2;", b"2147483647", b"2147483648", b"4294967301", b"5500000000", b"9223372036854775807",
    b"9223372036854775808", b"18446744073709551621", b"1%b" % (b"0" * 400), b"+10, 01",
    b"1, \v 2", b"1, 2,\n\n", b"\xef\xbb\xbf1", b"1\xb2", b"1/",
)  # fmt: skip


def as_json(text: bytes) -> object:
    """The list, or NotFlat where `json.loads` refuses it."""
    try:
        return json.loads((b"[%b]" % text).decode())
    except ValueError:
        return numbers.NotFlat


def answer(read: object, text: bytes) -> object:
    try:
        return read(text)  # type: ignore[operator]
    except numbers.NotFlat:
        return numbers.NotFlat


digits = st.sampled_from([*"0123456789", "0", "00", "10", "2147483647", "99999999999"])
marks = st.sampled_from([",", ", ", ",\n    ", " ", "\n", "\v", "\f", "-", "+", ".", "/", ":", "e"])
texts = st.lists(digits | st.just(", ") | marks, max_size=12).map("".join).map(str.encode)


@pytest.mark.parametrize("text", LENIENT)
def test_no_leniency_makes_ids(text: bytes, reader: str) -> None:
    whole = as_json(text)
    expected = whole if whole is numbers.NotFlat else id_row(whole).delta
    found = answer(numbers.read_ids, text)
    assert np.array_equal(found, expected) if isinstance(found, np.ndarray) else found is expected


@given(text=texts | damaged())
@example(b"1, , 0, 00")  # as many digits as in 1, 0, 0, 0
@settings(max_examples=examples(1000))
def test_numpy_gives_ids_only_where_they_are_sure(text: bytes) -> None:
    found = numbers._numpy_ids(text)
    if found is not None:
        assert found.dtype == np.int32
        assert not found.flags.writeable
        assert found.tolist() == as_json(text)
        assert id_row(as_json(text)).delta is not None


gaps = st.sampled_from(["", " ", "\n", "\r\n\t", "\n" + 24 * " "])


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1), gaps, gaps, gaps)
@example([0, 1, 0], "", " ", "")
def test_numpy_reads_every_list_of_ids(ids: list[int], before: str, gap: str, after: str) -> None:
    text = before + f"{after},{gap}".join(map(str, ids)) + after
    found = numbers._numpy_ids(text.encode())
    assert found is not None
    assert found.tolist() == ids


doubles = (
    st.binary(min_size=8, max_size=8).map(lambda b: struct.unpack("<d", b)[0]).filter(math.isfinite)
)
decimals = st.from_regex(
    r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,3})?", fullmatch=True
)
edges = st.sampled_from(
    ["-0.0", "5e-324", "-2.4703282292062328e-324", "2.2250738585072011e-308", "0.1e-400", "1e400",
     "1.7976931348623158e308", "1.7976931348623159e308", "9007199254740993", "-0", "NaN",
     "-Infinity", "-18446744073709551617",
     "0.1000000000000000055511151231257827021181583404541015625"]
)  # fmt: skip


@given(st.lists(doubles.map(repr) | st.floats(-50, 0).map(repr) | decimals | edges, max_size=20))
@settings(max_examples=examples(1000))
def test_logprobs_are_those_of_json_bit_for_bit(texts: list[str]) -> None:
    text = ", ".join(texts).encode()
    whole = as_json(text)
    for simdjson in {numbers.simdjson, None}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbers, "simdjson", simdjson)
            row = answer(numbers.read_logprobs, text)
        assert row.values.tobytes() == logprob_row(whole).values.tobytes()
