"""A sample of what tests/torture/flips.py does at length."""

from collections import Counter
from pathlib import Path

import pytest

from tests.torture import flips as attacked
from tests.torture.attack import Try
from tests.torture.flips import FLIPS, attack, flips, problems


def test_flipped_bits_are_seen_and_never_read_as_rows(tmp_path: Path) -> None:
    counts = flips(tmp_path, 240)
    assert list(problems(counts)) == []
    assert counts["seen"] == counts["flips"] == 240
    assert counts["refused by the reader"] > 20


def test_a_flip_is_a_try_and_what_must_not_be_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(place: Path, number: int) -> Counter[str]:
        return Counter({"flips": number, "seen": number - 1, "UNSEEN in a, 1.2": 1})

    monkeypatch.setattr(attacked, "flips", found)
    assert list(attack(3 / FLIPS, tmp_path)) == [
        *[Try("flips")] * 3,
        Try("flips", "UNSEEN in a, 1.2: 1 times"),
    ]
