"""No document costs more than in proportion to its elements: calls of functions are counted."""

import sys
from pathlib import Path
from types import FrameType

import pytest

from tests.bench.long_captures import DOCUMENTS
from wmo_distill.datums.build import build_datums
from wmo_distill.options import BuildOptions
from wmo_distill.sources.finding import discover
from wmo_distill.trial import read_found

# Those are n elements of up to n ids: they are read in proportion to their bytes.
_OF_SQUARE_SIZE = ("clean", "growing", "shrinking", "one completion lost", "no coordinates")
NAMES = [n for n in DOCUMENTS if not any(word in n for word in (*_OF_SQUARE_SIZE, "no session"))]


def calls(name: str, n: int, folder: Path) -> int:
    """How many functions are called, in Python and in C, to read a document and make datums."""
    DOCUMENTS[name](folder, n)
    sinks = folder / "sinks"
    options = BuildOptions(sinks=sinks if sinks.is_dir() else None)
    counted = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for found in discover([folder]).trials:
            build_datums(read_found(found, options).records, reopen=True)
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize("name", NAMES)
def test_calls_grow_with_elements(name: str, tmp_path: Path) -> None:
    calls(name, 4, tmp_path / "first")  # what is imported and compiled once
    few, many = calls(name, 40, tmp_path / "few"), calls(name, 200, tmp_path / "many")
    assert many < 6 * few
