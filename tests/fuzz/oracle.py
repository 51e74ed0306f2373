"""What a document holds by `json.loads` alone, and trials held against it."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wmo_distill.records import ReadTrial
from wmo_distill.shards.encode import encode

Ids = tuple[int, ...]
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Recorded:
    """The lists of ids and the numbers in documents, wherever they are."""

    lists: set[Ids] = field(default_factory=set)
    ids: set[int] = field(default_factory=set)
    numbers: set[float] = field(default_factory=set)

    def add(self, value: Any) -> None:
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                waiting += one.values()
            elif isinstance(one, list):
                if all(type(x) is int and 0 <= x < 2**31 for x in one):
                    self.lists.add(tuple(one))
                    self.ids.update(one)
                waiting += one
            elif isinstance(one, str) and one[:1] in ("{", "["):
                waiting += documents(one.encode("utf-8", "surrogatepass"))
            elif type(one) in (int, float):
                self.number(one)

    def number(self, value: int | float) -> None:
        if type(value) is int and 0 <= value < 2**31:
            self.ids.add(value)
        try:
            self.numbers.add(float(value))
        except OverflowError:
            self.numbers.add(math.inf)

    def update(self, other: "Recorded") -> None:
        self.lists |= other.lists
        self.ids |= other.ids
        self.numbers |= other.numbers


def documents(data: bytes) -> Iterator[Any]:
    """The JSON value of a text, else those of its lines and elements that `json` accepts."""
    value = _loaded(data)
    if value is not None:
        yield value
        return
    yield from (one for line in data.split(b"\n") if (one := _loaded(line)) is not None)
    yield from _elements(data.decode("utf-8", "replace"))


def _elements(text: str) -> Iterator[Any]:
    """Objects that are not the value of a key: a broken object gives nothing of its keys."""
    at = text.find("{")
    while at >= 0:
        if text[max(0, at - 40) : at].rstrip()[-1:] != ":":
            try:
                value, at = _DECODER.raw_decode(text, at)
                yield value
                at -= 1
            except (ValueError, RecursionError):
                pass
        at = text.find("{", at + 1)


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8").removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def recorded(files: Iterable[bytes]) -> Recorded:
    found = Recorded()
    for data in files:
        for value in documents(data):
            found.add(value)
    return found


def check(trial: ReadTrial, known: Recorded | None, *, whole: bool, encoded: bool) -> None:
    """Calls balance, and every token and number is a recorded one.

    What is recorded is not known of a damaged database. With `whole` prompts and answers are
    recorded as lists of their own; with `encoded` the rows
    are made, which takes longer than all else.
    """
    kept = sum(len(record.spans) for record in trial.records)
    assert trial.calls_found == kept + sum(trial.calls_dropped.values()), "calls do not balance"
    assert len({record.episode_id for record in trial.records}) == len(trial.records)
    if encoded:
        encode(trial.records).validate(full=True)
    for record in trial.records if known is not None else ():
        for span in record.spans:
            for ids in (span.prompt_token_ids, span.sampled_token_ids):
                listed: Ids = () if ids is None else tuple(ids.tolist())
                if listed and whole:
                    assert listed in known.lists, f"ids that are no recorded list: {listed[:9]}"
                assert known.ids.issuperset(listed), f"ids that nobody recorded: {listed[:9]}"
            if span.sampled_logprobs is not None:
                assert span.sampled_logprobs.size == span.sampled.size
                finite = [x for x in span.sampled_logprobs.tolist() if math.isfinite(x)]
                assert known.numbers.issuperset(finite), "a log-probability that nobody recorded"
