"""Every key of `stats --json` has words, so that no page shows the key in their place."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from wmo_distill.report.words import RECORDS, SEQUENCES, Words, word_of
from wmo_distill.stats.datums import SequenceStats
from wmo_distill.stats.rates import Rate
from wmo_distill.stats.rollout import RolloutStats
from wmo_distill.stats.tally import SPANLESS_REASONS


def keys(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """The paths of a model's fields and of those below them; a rate is shown as one number."""
    for name, field in model.model_fields.items():
        at = f"{path}.{name}" if path else name
        yield at
        for inner in models(field.annotation):
            if inner is not Rate:
                yield from keys(inner, at)


def models(of: Any) -> Iterator[type[BaseModel]]:
    if isinstance(of, type) and issubclass(of, BaseModel):
        yield of
    for one in get_args(of):
        yield from models(one)


@pytest.mark.parametrize(("model", "words"), [(RolloutStats, RECORDS), (SequenceStats, SEQUENCES)])
def test_every_key_has_words(model: type[BaseModel], words: Words) -> None:
    found = [path for path in keys(model) if not path.endswith(("edges", "counts"))]
    assert len(found) > 40
    named = [path for path in found if path not in words and path.split(".")[-1] not in words]
    assert [path for path in named if "distributions" not in path] == []
    assert "_" not in "".join(word_of(words, path) for path in found)


def test_the_longest_path_decides_and_places_in_lists_do_not() -> None:
    assert word_of(SEQUENCES, "groups.measured.p50") == "median"
    assert word_of(SEQUENCES, "groups.measured") == "measured a group"
    assert word_of(RECORDS, "tasks.17.measured") == "measured"
    assert word_of(RECORDS, "measured") == "measured (graded and valid)"
    assert word_of(RECORDS, f"spanless.{SPANLESS_REASONS[0]}") == "directory missing"
