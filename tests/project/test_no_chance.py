"""`make test` says the same every time: no test draws by chance or chooses its own examples."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("*.py"))
PROFILES = {"derandomize", "database", "phases", "print_blob"}
"""What tests/conftest.py decides for every property test."""
FAMILIES = ("random.", "np.random.", "numpy.random.", "secrets.")
DRAWS = {"uuid.uuid4", "uuid4", "os.urandom"}
SEEDED = {
    "random.Random",
    "random.default_rng",
    "np.random.default_rng",
    "numpy.random.default_rng",
}


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def chances(file: Path) -> Iterator[str]:
    """Where a test file leaves something to chance."""
    for name, call in calls(file):
        where = f"{file.name}:{call.lineno}: {name}"
        words = {word.arg: word.value for word in call.keywords}
        if name in SEEDED:
            if not call.args and not words:
                yield f"{where} without a seed"
        elif name in DRAWS or ("(" not in name and name.startswith(FAMILIES)):
            yield f"{where} is seeded by nothing in the test"
        elif name == "settings":
            if taken := sorted(words.keys() & PROFILES):
                yield f"{where} sets {', '.join(taken)}, which the profile sets"
            if "deadline" in words and ast.unparse(words["deadline"]) != "None":
                yield f"{where} lets a slow machine fail it: no deadline"
            checks = words.get("suppress_health_check")
            told = "list(HealthCheck)" if checks is None else ast.unparse(checks)
            if "too_slow" not in told and told != "list(HealthCheck)":
                yield f"{where} lets a slow machine fail it: add HealthCheck.too_slow"


def test_nothing_is_left_to_chance() -> None:
    assert len(FILES) > 50
    assert [chance for file in FILES for chance in chances(file)] == []


@pytest.mark.parametrize(
    "code",
    [
        "np.random.default_rng()", "random.random()", "np.random.normal(3)", "uuid.uuid4()",
        "random.Random()", "settings(deadline=500)", "settings(derandomize=False)",
        "settings(suppress_health_check=[HealthCheck.filter_too_much])",
    ],
)  # fmt: skip
def test_chance_is_seen(tmp_path: Path, code: str) -> None:
    (tmp_path / "test_x.py").write_text(code)
    assert len(list(chances(tmp_path / "test_x.py"))) == 1


def test_the_profiles() -> None:
    fixed, fuzz = settings.get_profile("fixed"), settings.get_profile("fuzz")
    assert (fixed.derandomize, fixed.database, fuzz.derandomize) == (True, None, False)
    for profile in (fixed, fuzz):
        assert profile.deadline is None
        assert HealthCheck.too_slow in profile.suppress_health_check
