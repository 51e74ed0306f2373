"""A sample of what tests/torture/flips.py does at length."""

from pathlib import Path

from tests.torture.flips import flips, problems


def test_flipped_bits_are_seen_and_never_read_as_rows(tmp_path: Path) -> None:
    counts = flips(tmp_path, 240)
    assert list(problems(counts)) == []
    assert counts["seen"] == counts["flips"] == 240
    assert counts["refused by the reader"] > 20
