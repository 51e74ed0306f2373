"""Finds whose tokens they are: a tokenizer.json, a folder with one, a tiktoken file or encoding."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from wmo_distill.decoding.pieces import Decoder, Vocabulary
from wmo_distill.decoding.vocabularies import (
    EncodingVocabulary,
    JsonVocabulary,
    RanksVocabulary,
    ranks_of,
)
from wmo_distill.errors import UsageError, extra_missing, fault_of
from wmo_distill.files import open_file

_FILE = "tokenizer.json"
_EXPECTED = "a tokenizer.json, a folder that holds one, a tiktoken file or encoding"


@lru_cache(4)
def load(source: Path | str) -> Decoder:
    """The decoder of a file, a folder or the name of a tiktoken encoding; nothing is downloaded.

    UsageError for anything else, and without the extra `tokens`.
    """
    path = Path(source)
    if path.is_dir():
        return _of_folder(path)
    if path.exists():
        return _of_file(path, {})
    return Decoder(str(source), _of_encoding(str(source)))


def _of_folder(folder: Path) -> Decoder:
    added = _added(folder)
    if (folder / _FILE).is_file():
        return _of_file(folder / _FILE, added)
    ranks = sorted([*folder.glob("*.tiktoken"), *folder.glob("*.model")])
    if len(ranks) == 1:
        return _of_file(ranks[0], added)
    found = ", ".join(path.name for path in ranks) or "none of them"
    raise _refusal(
        f"expected {_FILE} or one tiktoken file in {folder}, found {found}; check the folder"
    )


def _of_file(path: Path, added: Mapping[int, str]) -> Decoder:
    try:
        with open_file(path) as file:
            text = file.read()
    except OSError as error:
        raise _refusal(
            f"expected {_EXPECTED}, found {path}: {error.strerror}; check the path"
        ) from None
    return Decoder(str(path), _vocabulary(path, text, added), sha256(text).hexdigest())


def _vocabulary(path: Path, text: bytes, added: Mapping[int, str]) -> Vocabulary:
    if text[:64].lstrip().startswith(b"{"):
        return _of_json(path, text, added)
    try:
        return RanksVocabulary(ranks_of(text), added)
    except ValueError as error:
        raise _refusal(
            f"expected {_EXPECTED}, found {path}, which is neither ({error}); of a SentencePiece "
            "model, `save_pretrained` of transformers writes a tokenizer.json"
        ) from None


def _of_json(path: Path, text: bytes, added: Mapping[int, str]) -> Vocabulary:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise extra_missing("--tokenizer", "tokens", error) from None
    try:
        return JsonVocabulary(Tokenizer.from_buffer(text), added)
    except BaseException as error:  # the library raises no type of its own, and panics
        raise _refusal(
            f"expected a tokenizer.json, found {path}: {fault_of(error)}; check the path"
        ) from None


def _of_encoding(name: str) -> Vocabulary:
    try:
        import tiktoken
    except ImportError as error:
        raise extra_missing("--tokenizer", "tokens", error) from None
    names = tiktoken.list_encoding_names()
    if name not in names:
        raise _refusal(
            f"expected {_EXPECTED} ({', '.join(names)}), found no {name}; check the path"
        )
    try:
        with _without_download():
            return EncodingVocabulary(tiktoken.get_encoding(name))
    except _DownloadRefused as refused:
        raise _refusal(
            f"expected the file of the encoding {name} in tiktoken's cache, found none; put "
            f"{refused} there (TIKTOKEN_CACHE_DIR names it), or give the path of the file"
        ) from None
    except Exception as error:  # the library raises no type of its own
        found = f"{type(error).__name__} {error}"
        raise _refusal(f"expected the encoding {name}, found {found}; mend its cache") from None


class _DownloadRefused(Exception):  # noqa: N818 - says what would have been read
    pass


@contextmanager
def _without_download() -> Iterator[None]:
    """The library reads its cache, and nothing where that lacks a file."""
    from tiktoken import load as reading

    def refuse(place: str, /) -> NoReturn:
        raise _DownloadRefused(place)

    own = reading.read_file
    vars(reading)["read_file"] = refuse
    try:
        yield
    finally:
        reading.read_file = own


def _added(folder: Path) -> dict[int, str]:
    """The tokens that a folder's other files add to the vocabulary."""
    added: dict[int, str] = {}
    config = _read_object(folder / "tokenizer_config.json").get("added_tokens_decoder")
    for token, entry in (config if isinstance(config, dict) else {}).items():
        name = entry.get("content") if isinstance(entry, dict) else entry
        if token.isdecimal() and isinstance(name, str):
            added[int(token)] = name
    for name, number in _read_object(folder / "added_tokens.json").items():
        if type(number) is int and number >= 0:
            added.setdefault(number, name)
    return added


def _read_object(path: Path) -> dict[str, Any]:
    """A JSON object, empty where there is none."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _refusal(said: str) -> UsageError:
    return UsageError(f"--tokenizer: {said}")
