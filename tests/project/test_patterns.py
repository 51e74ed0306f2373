"""Regular expressions mean the same in every Python that is supported."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "wmo_distill"
_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")


def test_no_group_is_repeated_possessively() -> None:
    """Before Python 3.11.5 such a repeat keeps what its last, failed turn has taken."""
    assert _POSSESSIVE_GROUP.search(r"(?:, *a)*+")
    found = [p.name for p in PACKAGE.rglob("*.py") if _POSSESSIVE_GROUP.search(p.read_text())]
    assert found == []
