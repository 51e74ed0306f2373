"""The bytes of each id, as a tokenizer's files define them."""

import base64
import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wmo_distill.errors import UsageError, fault_of

if TYPE_CHECKING:
    from tiktoken import Encoding
    from tokenizers import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_letters() -> dict[str, int]:
    """The letters that byte-level BPE writes the 256 bytes with: `Ġ` is a space, `Ċ` a line end."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


_LETTERS = _byte_letters()


class JsonVocabulary:
    """Of a tokenizer.json, with any decoder: byte-level, metaspace, byte fallback, WordPiece."""

    def __init__(self, tokenizer: "Tokenizer", added: Mapping[int, str]) -> None:
        self._tokenizer, self._added = tokenizer, added
        own = {id_: one.content for id_, one in tokenizer.get_added_tokens_decoder().items()}
        self.special = _with_ink({**added, **own})
        decoder = tokenizer.decoder
        kinds = _types(json.loads(decoder.__getstate__())) if decoder is not None else set()
        self._byte_level, self._byte_fallback = "ByteLevel" in kinds, "ByteFallback" in kinds

    @cached_property
    def size(self) -> int:
        return max([*self._tokenizer.get_vocab().values(), *self._added], default=-1) + 1

    def data(self, token: int) -> bytes | None:
        name = self._tokenizer.id_to_token(token)
        if name is None:
            added = self._added.get(token)
            return None if added is None else added.encode("utf-8", "replace")
        if self._byte_level:
            try:
                return bytes([_LETTERS[letter] for letter in name])
            except KeyError:
                return str(name).encode()
        if self._byte_fallback and (byte := _BYTE.fullmatch(name)):
            return bytes([int(byte[1], 16)])
        return self._within(token).encode()

    def _within(self, token: int) -> str:
        """Its text after another: alone, some decoders take away the space before it."""
        before, text = self._anchor
        both = self._decoded([*before, token])
        return both[len(text) :] if both.startswith(text) else self._decoded([token])

    @cached_property
    def _anchor(self) -> tuple[list[int], str]:
        """A plain token, and its text."""
        vocabulary: dict[str, int] = self._tokenizer.get_vocab()
        for name, token in sorted(vocabulary.items(), key=lambda item: item[1]):
            if name.isascii() and name.isalpha() and token not in self.special:
                return [token], self._decoded([token])
        return [], ""

    def _decoded(self, ids: list[int]) -> str:
        try:
            return str(self._tokenizer.decode(ids, skip_special_tokens=False))
        except BaseException as error:  # the library has no check of a decoder's settings
            raise UsageError(
                f"--tokenizer: expected a tokenizer.json that decodes {ids}, found "
                f"{fault_of(error)}; give another"
            ) from None


class RanksVocabulary:
    """Of a tiktoken file: a line `base64 rank` a token."""

    def __init__(self, ranks: Mapping[int, bytes], added: Mapping[int, str]) -> None:
        self._ranks, self.special = ranks, added
        self.size = max([*ranks, *added], default=-1) + 1

    def data(self, token: int) -> bytes | None:
        return self._ranks.get(token)


class EncodingVocabulary:
    """Of an encoding that the library tiktoken has by name."""

    def __init__(self, encoding: "Encoding") -> None:
        self._encoding, self.size = encoding, encoding.n_vocab
        names = encoding.special_tokens_set
        self.special = {encoding.encode_single_token(name): name for name in names}

    def data(self, token: int) -> bytes | None:
        try:
            return self._encoding.decode_single_token_bytes(token)
        except KeyError:
            return None


def ranks_of(text: bytes) -> dict[int, bytes]:
    """The tokens of a tiktoken file by id; ValueError for any other file."""
    ranks = {}
    for line in text.splitlines():
        if line:
            token, rank = line.split()
            ranks[int(rank)] = base64.b64decode(token, validate=True)
    if not ranks:
        raise ValueError("a file without tokens")
    return ranks


def _with_ink(added: Mapping[int, str]) -> dict[int, str]:
    """Those that are more than white space, which some vocabularies add as plain text."""
    return {token: name for token, name in added.items() if name.strip()}


def _types(decoder: Any) -> set[str]:
    """The kinds of all steps of a decoder."""
    if isinstance(decoder, list):
        return {kind for step in decoder for kind in _types(step)}
    if not isinstance(decoder, dict):
        return set()
    return {str(decoder.get("type"))} | _types(decoder.get("decoders", []))
