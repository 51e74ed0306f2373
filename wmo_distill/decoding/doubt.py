"""Whether a tokenizer can be the one of an episode's ids, by what is known of both."""

import re
from collections.abc import Iterable
from itertools import islice

from wmo_distill.arrays import Ids
from wmo_distill.decoding.pieces import Decoder

_PHRASE = re.compile(r"(?:[^\W\d_]{2,40} ){2}[^\W\d_]{2,40}|[^\W\d_\0-\u024f]{4,40}")
"""Three words, or some characters of a script without spaces: order tells more than words do."""
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_FEWEST, _MOST, _OF_ONE = 3, 400, 40
"""Phrases that are compared, and of one text: of fewer nothing is said."""
_SHARE = 0.5
"""The right tokenizer finds nearly all of them again, another hardly any."""


def doubt(
    decoder: Decoder, ids: Ids, *, recorded: Iterable[str] = (), fingerprint: str | None = None
) -> str | None:
    """Why it cannot be the tokenizer of these ids, in a phrase; None where nothing says so.

    `recorded` are texts that the same calls were recorded with, `fingerprint` is what the dataset
    has in `tokenizer`: it can be compared where it is a SHA-256.
    """
    return (
        _of_fingerprint(decoder, fingerprint) or _of_range(decoder, ids)
        or _of_text(decoder, ids, recorded)
    )  # fmt: skip


def _of_fingerprint(decoder: Decoder, fingerprint: str | None) -> str | None:
    known = _SHA256.fullmatch((fingerprint or "").strip().lower())
    if known is None or decoder.sha256 is None or known[1] == decoder.sha256:
        return None
    return f"its file has SHA-256 {decoder.sha256[:12]}…, the dataset records {known[1][:12]}…"


def _of_range(decoder: Decoder, ids: Ids) -> str | None:
    unknown = decoder.unknown(ids)
    if not unknown:
        return None
    size = decoder.vocabulary.size
    n = sum(token in set(unknown) for token in ids.tolist())
    said = f"{n:,} of {ids.size:,} ids are none of its {size:,}, such as {unknown[0]}"
    if not decoder.vocabulary.special and unknown[0] >= size and n <= _SHARE * ids.size:
        said += "; its file names no special tokens: give the folder with tokenizer_config.json"
    return said


def _of_text(decoder: Decoder, ids: Ids, recorded: Iterable[str]) -> str | None:
    phrases: dict[str, None] = {}
    for text in recorded:
        found = (match[0] for match in _PHRASE.finditer(text))
        phrases.update(dict.fromkeys(islice(found, _OF_ONE)))
        if len(phrases) >= _MOST:
            break
    if len(phrases) < _FEWEST:
        return None
    text = decoder.text(ids)
    n = sum(phrase in text for phrase in phrases)
    if n >= _SHARE * len(phrases):
        return None
    return f"its text has {n:,} of {len(phrases):,} phrases that the trial's messages have"
