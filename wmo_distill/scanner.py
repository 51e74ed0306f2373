"""Secrets in the text of token ids: decoded, searched by detect-secrets' rules, and dealt with.

Ids are never changed: what is masked is not trained, and stays readable for who has the tokenizer.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wmo_distill.arrays import Ids
from wmo_distill.credentials import patterns
from wmo_distill.decoding import Decoder, load
from wmo_distill.errors import UsageError, extra_missing
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions, OnSecret
from wmo_distill.records import Secret, SegmentInfo, SpanSource, TrialRecord
from wmo_distill.segment import Segment

_NO_SECRETS = frozenset({"Public IP (ipv4)"})
_OURS = "credential"
_PIECE = re.compile(r"(?s)(?P<one>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.)(?P<repeat>[*+]?)")
"""A piece of a pattern (a character, its escape, or a set of them) and an endless repeat of it."""


class Hit(NamedTuple):
    """A secret in a list of ids."""

    start: int
    stop: int
    rule: str


class Scanner:
    """Searches the text of token ids."""

    def __init__(self, decoder: Decoder, rules: list[tuple[str, re.Pattern[str]]]) -> None:
        self._decoder, self._rules = decoder, rules

    def search(self, ids: Ids) -> tuple[list[Hit], bool]:
        """(the secrets in order, whether every id is one of the tokenizer's)."""
        # A part of a character gives a mark in its place; secrets are written in whole ones.
        found = list(map(self._decoder.text_of, ids.tolist()))
        pieces = [piece or "" for piece in found]
        text = "".join(pieces)
        ends = np.cumsum([len(piece) for piece in pieces])
        hits = set()
        for rule, pattern in self._rules:
            for match in pattern.finditer(text):
                if match.end() > match.start():
                    first, last = np.searchsorted(ends, (match.start(), match.end() - 1), "right")
                    hits.add(Hit(int(first), int(last) + 1, rule))
        return merged(hits), None not in found


def merged(hits: Iterable[Hit]) -> list[Hit]:
    """One for each stretch of tokens, in order, whichever rules know it; ours name no kind.

    [(3, 9, credential), (3, 9, AWS Access Key), (12, 14, credential)] are two secrets.
    """
    found: list[tuple[int, int, set[str]]] = []
    for start, stop, rule in sorted(hits):
        if found and start < found[-1][1]:
            first, last, rules = found.pop()
            found.append((first, max(last, stop), rules | {rule}))
        else:
            found.append((start, stop, {rule}))
    return [Hit(a, b, ", ".join(sorted(rules - {_OURS} or rules))) for a, b, rules in found]


def checked_tokenizer(options: BuildOptions) -> Path | None:
    """Its absolute path; UsageError where it, or what reads it, is not there."""
    file, action = options.tokenizer, options.on_secret
    if (file is None) != (action is None):
        missing, given = ("--tokenizer", "--on-secret")[:: 1 if file is None else -1]
        raise UsageError(f"{given}: expected {missing} too, found none; give both or neither")
    if file is not None:
        file = file.absolute() / "tokenizer.json" if file.is_dir() else file.absolute()
        scanner_of(file)
    return file


@lru_cache(1)
def scanner_of(file: Path) -> Scanner:
    """UsageError for a file that is no tokenizer, and without the extra `secrets`."""
    try:
        rules = list(_rules())
    except ImportError as error:
        raise extra_missing("--on-secret", "secrets", error) from None
    return Scanner(load(file), rules)


def without_secrets(record: TrialRecord, scanner: Scanner, action: OnSecret) -> TrialRecord:
    """The record with what its ids hold: named, not to be trained, or without its tokens."""
    secrets: list[Secret] = []
    all_known = True
    for number, chat in record.chats.items():
        for calls in _runs(chat):
            last = calls.stop - 1
            hits, known = scanner.search(np.concatenate([chat.prompt(last), chat.sampled(last)]))
            all_known &= known
            ends = chat.sequence_lens[calls]
            for start, stop, rule in hits:
                call = calls.start + int(np.argmax(ends >= stop))
                secrets.append(
                    Secret(number, int(chat.call_index[call]), rule, start, stop,
                        action is OnSecret.MASK)
                )  # fmt: skip
    said = [Issue.SECRET_FOUND] * len(secrets) + [Issue.SECRETS_UNSEEN] * (not all_known)
    if not said:
        return record
    record = replace(record, secrets=tuple(secrets))
    if secrets and action is OnSecret.DROP:
        said += [Issue.CALL_WITH_SECRET] * len(record.spans)
        record = replace(
            record,
            spans=(),
            segments=(SegmentInfo(),),
            span_source=SpanSource.NONE,
            compactions=(),
        )
    return replace(record, issues=tuple(sorted((*record.issues, *said))))


def _runs(chat: Segment) -> Iterator[slice]:
    """Calls of which each but the first extends the one before: the last one's ids are all."""
    begins = np.flatnonzero(~chat.extends).tolist()
    return (slice(start, stop) for start, stop in pairwise([*begins, len(chat)]))


def _rules() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Rules of detect-secrets for known kinds of secrets, and ours; none by entropy alone."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    yield from ((_OURS, pattern) for pattern in patterns())
    kinds: dict[str, type] = get_mapping_from_secret_type_to_class()
    for name, detector in sorted(kinds.items()):
        if issubclass(detector, RegexBasedDetector) and name not in _NO_SECRETS:
            yield from ((name, _bounded(pattern)) for pattern in detector().denylist)


def _bounded(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """The rule with a limit to every repeat: some of them take the square of a text's length.

    `key *=.+`   ->   `key {0,8}=.{1,128}`
    """

    def bound(found: re.Match[str]) -> str:
        one, repeat = found["one"], found["repeat"]
        if not repeat:
            return one
        return f"{one}{{{'0' if repeat == '*' else '1'},{8 if one == ' ' else 128}}}"

    return re.compile(_PIECE.sub(bound, pattern.pattern), pattern.flags)
