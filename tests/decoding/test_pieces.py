"""The text of ids is what the tokenizer's own library decodes, piece by piece."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiktoken import Encoding
from tokenizers import Tokenizer

from tests.decoding.makers import MAKERS, START, THINK, byte_level, metaspace, saved
from wmo_distill.decoding import Decoder, Kind, load
from wmo_distill.decoding.vocabularies import JsonVocabulary, RanksVocabulary

TEXTS = st.text() | st.sampled_from(
    [
        "hello 😀👩‍👩‍👧 hi",
        "中文字符。日本語",
        "e\u0301 n\u0303 ก็",
        "\u202eabc\u202c",
        "a\r\n\tb",
        "hello hi." * 9,
    ]
)
IDS = st.lists(st.integers(0, 2**31 - 1), max_size=30)


def decoder_of(made: Tokenizer) -> Decoder:
    return Decoder("made", JsonVocabulary(made, {}))


MADE = {name: (maker(), decoder_of(maker())) for name, maker in MAKERS.items()}
RANKS = {bytes([byte]): byte for byte in range(256)} | {
    b"he": 256,
    b"\xf0\x9f": 257,
    b"a \xe4": 258,
}
ENCODING = Encoding(
    "made", pat_str=r"[^\n]+|\n", mergeable_ranks=RANKS, special_tokens={"<|end|>": 259}
)
BY_RANK = Decoder(
    "made", RanksVocabulary({rank: data for data, rank in RANKS.items()}, {259: "<|end|>"})
)


def checked(decoder: Decoder, ids: list[int]) -> str:
    """The text, once it is sure that each id is in one piece."""
    pieces = decoder.pieces(ids)
    assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces)][
        : len(pieces)
    ]
    assert (pieces[-1].stop if pieces else 0) == len(ids)
    assert decoder.pieces(np.array(ids, np.int32)) == pieces
    return "".join(piece.text for piece in pieces)


@given(IDS)
def test_bytes_of_any_ids_decode_as_the_library_decodes_all(drawn: list[int]) -> None:
    made, decoder = MADE["byte_level"]
    ids = [token % made.get_vocab_size() for token in drawn]
    assert checked(decoder, ids) == made.decode(ids, skip_special_tokens=False)


@given(IDS)
def test_ranks_of_any_ids_decode_as_the_library_decodes_all(drawn: list[int]) -> None:
    ids = [token % 260 for token in drawn]
    assert checked(BY_RANK, ids) == ENCODING.decode_bytes(ids).decode("utf-8", "replace")


@pytest.mark.parametrize("name", MAKERS)
@given(text=TEXTS)
def test_a_text_comes_back_as_the_library_decodes_it(name: str, text: str) -> None:
    """But for the space before the first word, which some decoders take away."""
    made, decoder = MADE[name]
    ids = made.encode(text).ids
    found, wanted = checked(decoder, ids), made.decode(ids, skip_special_tokens=False)
    assert wanted in (found, found[1:] if found.startswith(" ") else found)


@pytest.mark.parametrize(
    ("name", "first"), [("unigram", "s"), ("word_piece", "word"), ("words_alone", "one")]
)
@given(drawn=IDS)
def test_ids_in_any_order_are_as_the_library_decodes_them(
    name: str, first: str, drawn: list[int]
) -> None:
    """Within a text: at its start BERT's decoder leaves `##` in place."""
    made, decoder = MADE[name]
    ids = [made.token_to_id(first), *(token % made.get_vocab_size() for token in drawn)]
    assert checked(decoder, ids).lstrip() == made.decode(ids, skip_special_tokens=False)


def shown(decoder: Decoder, ids: list[int]) -> list[tuple[int, int, str, str]]:
    return [(p.start, p.stop, p.text, str(p.kind)) for p in decoder.pieces(ids)]


def test_ids_of_one_character_are_one_piece() -> None:
    made, decoder = MADE["byte_level"]
    ids = made.encode("hello😀é").ids
    assert shown(decoder, ids) == [
        (0, 1, "hello", "text"), (1, 4, "😀", "text"), (4, 6, "é", "text")
    ]  # fmt: skip
    assert shown(BY_RANK, [258, 0xB8, 0xAD, 0x21]) == [
        (0, 3, "a 中", "text"), (3, 4, "!", "text")
    ]  # fmt: skip


def test_bytes_that_are_no_character_are_not_joined_with_text() -> None:
    f0, bad, letter = 0xF0, 0x80, ord("x")
    assert shown(BY_RANK, [f0, letter]) == [(0, 1, "\ufffd", "bytes"), (1, 2, "x", "text")]
    assert shown(BY_RANK, [257, 259, bad]) == [
        (0, 1, "\ufffd", "bytes"), (1, 2, "<|end|>", "special"), (2, 3, "\ufffd", "bytes")
    ]  # fmt: skip
    assert shown(BY_RANK, [letter, 257]) == [(0, 1, "x", "text"), (1, 2, "\ufffd", "bytes")]
    # The character U+FFFD itself is text.
    assert shown(BY_RANK, [0xEF, 0xBF, 0xBD]) == [(0, 3, "\ufffd", "text")]


def test_byte_fallback_is_joined_too() -> None:
    made, decoder = MADE["metaspace"]
    ids = made.encode("hi 中\n").ids
    assert ("中", "text") in [(text, kind) for _, _, text, kind in shown(decoder, ids)]
    assert "".join(text for _, _, text, _ in shown(decoder, ids)) == " hi 中\n"
    half = made.token_to_id("<0xE4>")
    assert shown(decoder, [half]) == [(0, 1, "\ufffd", "bytes")]


@pytest.mark.parametrize("name", MAKERS)
def test_added_tokens_are_special_unless_they_are_white_space(name: str) -> None:
    made, decoder = MADE[name]
    kinds = {
        word: decoder.pieces([made.token_to_id(word)])[0].kind for word in (START, THINK, "  ")
    }
    assert kinds == {START: Kind.SPECIAL, THINK: Kind.SPECIAL, "  ": Kind.TEXT}
    assert decoder.pieces([made.token_to_id(START)])[0].text.strip() == START


@pytest.mark.parametrize("name", MAKERS)
def test_an_id_that_is_not_its_own_has_no_text(name: str) -> None:
    made, decoder = MADE[name]
    unknown = [made.get_vocab_size(), 2**31 - 1]
    assert shown(decoder, unknown) == [(0, 1, "", "unknown"), (1, 2, "", "unknown")]
    assert decoder.unknown([0, *unknown, 0]) == unknown
    assert decoder.text_of(unknown[0]) is None
    assert decoder.vocabulary.size == made.get_vocab_size()


def test_what_is_spelled_out_is_not_special(tmp_path: Path) -> None:
    decoder = load(saved(byte_level(), tmp_path))
    spelled = byte_level().encode("<thi").ids + byte_level().encode("nk>").ids
    assert {piece.kind for piece in decoder.pieces(spelled)} == {Kind.TEXT}
    assert decoder.text(spelled) == THINK


def test_pieces_are_made_as_they_are_asked_for() -> None:
    def ids() -> Iterator[int]:
        yield from (104, 105)
        raise AssertionError("read further than asked for")

    stream = BY_RANK.stream(ids())
    assert next(stream).text == "h"


def test_metaspace_keeps_a_space_wherever_it_is() -> None:
    decoder = decoder_of(metaspace())
    made = metaspace()
    hi = made.token_to_id("▁hi")
    assert decoder.text([hi]) == " hi"
    assert decoder.text([hi, hi]) == " hi hi"
