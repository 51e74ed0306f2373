"""`make test` is the same every time: what is drawn at random is for fuzzing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.effort import FUZZ_EXAMPLES

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(bool(FUZZ_EXAMPLES), reason="this run is `make fuzz-properties`")
def test_the_examples_of_make_test_are_fixed() -> None:
    assert settings().derandomize
    assert settings().database is None
    assert settings().deadline is None


def test_no_test_has_settings_that_make_fuzz_cannot_raise() -> None:
    """A literal number, or a chance of its own, would hold in both."""
    own = re.compile(r"max_examples=\d|\bderandomize=|\bdatabase=|\bdeadline=|@seed\(")
    for file in TESTS.rglob("*.py"):
        if file.name not in ("effort.py", Path(__file__).name):
            assert not own.search(file.read_text()), file


def test_random_numbers_in_tests_have_a_seed() -> None:
    unseeded = re.compile(r"default_rng\(\)|\bRandom\(\)|np\.random\.(?!default_rng|Generator)")
    for file in TESTS.rglob("*.py"):
        if file != Path(__file__):
            assert not unseeded.search(file.read_text()), file


def test_two_runs_draw_the_same_examples(tmp_path: Path) -> None:
    """Whatever the seed of hashes."""
    test = tmp_path / "test_drawn.py"
    test.write_text(
        "from hypothesis import given, strategies as st\n"
        f"import sys; sys.path.insert(0, {str(TESTS.parent)!r})\n"
        "from tests.effort import load_profile\nload_profile()\n"
        "@given(st.sets(st.text()), st.floats())\n"
        "def test_drawn(words, number):\n    print(sorted(words), number)\n"
    )
    printed = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-sq", "-p", "no:cacheprovider", str(test)],
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(re.sub(r"in [\d.]+s", "", done.stdout))
    assert printed[0] == printed[1]
    assert printed[0].count("\n") > 50
