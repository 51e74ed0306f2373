"""Ids to pieces of text: several ids that make one character are one piece, exact to the byte."""

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from wmo_distill.arrays import Ids


class Kind(StrEnum):
    """What the ids of a piece are."""

    TEXT = "text"
    SPECIAL = "special"
    """A token that no spelled-out text is: of the chat template, of tools, of thinking."""
    BYTES = "bytes"
    """Bytes that make no character; the text has U+FFFD in their place."""
    UNKNOWN = "unknown"
    """An id that is none of the tokenizer's; without text."""
    SECRET = "secret"
    """An id of a secret, whose rule is shown in place of its text."""


class Piece(NamedTuple):
    """The ids start..stop of a list, and their text."""

    start: int
    stop: int
    text: str
    kind: Kind


class Vocabulary(Protocol):
    """What a tokenizer's files say of its ids."""

    @property
    def size(self) -> int:
        """One more than its highest id."""

    @property
    def special(self) -> Mapping[int, str]:
        """The tokens that no spelled-out text becomes."""

    def data(self, token: int) -> bytes | None:
        """The bytes of an id within a text; None for one that it does not have."""


class _Token(NamedTuple):
    """What is known of one id; `whole` says whether its bytes alone are whole characters."""

    data: bytes
    text: str
    kind: Kind
    whole: bool = True


_UNKNOWN = _Token(b"", "", Kind.UNKNOWN)


class Decoder:
    """Gives the text of ids; what is found of an id is remembered."""

    def __init__(self, name: str, vocabulary: Vocabulary, sha256: str | None = None) -> None:
        """`sha256` is that of its file, where it has one."""
        self.name, self.vocabulary, self.sha256 = name, vocabulary, sha256
        self._tokens: dict[int, _Token] = {}

    def pieces(self, ids: Ids | Iterable[int]) -> list[Piece]:
        """The pieces in order; each id is in exactly one of them.

        Ids of the bytes `hi`, `\\xf0\\x9f`, `\\x98\\x80!`, `\\xf0`   ->
        (0, 1, "hi"), (1, 3, "😀!"), (3, 4, "\ufffd", bytes)
        """
        return list(self.stream(ids))

    def stream(self, ids: Ids | Iterable[int]) -> Iterator[Piece]:
        """The same, one after the other."""
        known, text_kind = self._tokens, Kind.TEXT
        held, start, at = b"", 0, -1
        for at, token in enumerate(_plain(ids)):
            found = known.get(token) or self._token(token)
            if held:
                if found.kind is text_kind and _goes_on(held, found.data):
                    held += found.data
                    if not _open_end(held):
                        yield _piece(start, at + 1, held)
                        held = b""
                    continue
                yield _piece(start, at, held)
                held = b""
            if found.whole:
                yield Piece(at, at + 1, found.text, found.kind)
            elif _open_end(found.data):
                held, start = found.data, at
            else:
                yield _piece(at, at + 1, found.data)
        if held:
            yield _piece(start, at + 1, held)

    def text(self, ids: Ids | Iterable[int]) -> str:
        """The text of all ids; those that are not the tokenizer's have none."""
        return "".join(piece.text for piece in self.stream(ids))

    def text_of(self, token: int) -> str | None:
        """The text of one id within a text, None for one that is not the tokenizer's.

        A part of a character gives a mark in its place.
        """
        found = self._tokens.get(token) or self._token(token)
        return None if found is _UNKNOWN else found.text

    def unknown(self, ids: Ids | Iterable[int]) -> Sequence[int]:
        """Those of the ids, each once, that are not the tokenizer's."""
        return sorted(token for token in set(_plain(ids)) if self.text_of(token) is None)

    def _token(self, token: int) -> _Token:
        found = self._tokens[token] = self._look_up(token)
        return found

    def _look_up(self, token: int) -> _Token:
        special = self.vocabulary.special.get(token)
        data = self.vocabulary.data(token) if token >= 0 else None
        if data is None:
            return _UNKNOWN if special is None else _Token(b"", special, Kind.SPECIAL)
        text = _strict(data)
        if special is not None:
            return _Token(data, special if text is None else text, Kind.SPECIAL)
        if text is not None:
            return _Token(data, text, Kind.TEXT)
        return _Token(data, data.decode("utf-8", "replace"), Kind.TEXT, whole=False)


def _plain(ids: Ids | Iterable[int]) -> Iterable[int]:
    return ids.tolist() if isinstance(ids, np.ndarray) else ids


def _piece(start: int, stop: int, data: bytes) -> Piece:
    text = _strict(data)
    if text is not None:
        return Piece(start, stop, text, Kind.TEXT)
    return Piece(start, stop, data.decode("utf-8", "replace"), Kind.BYTES)


def _strict(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _open_end(data: bytes) -> bool:
    """Whether the bytes end within a character that more bytes can complete."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return bool(decoder.getstate()[0])


def _goes_on(held: bytes, data: bytes) -> bool:
    """Whether the first byte of `data` belongs to the character that `held` ends within."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    decoder.setstate((_tail(held), 0))
    try:
        decoder.decode(data[:1])
    except UnicodeDecodeError:
        return False
    return bool(data)


def _tail(data: bytes) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    tail: bytes = decoder.getstate()[0]
    return tail
