"""Words of the glossary: plain technical English in code, docs and help, and in names of tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTEAD = {
    "told": "reported, said",
    "untold": "unexplained",
    "lie": "be in",
    "lies": "is in",
    "stands": "is, counts",
    "law": "invariant, rule",
    "laws": "invariants, rules",
    "beside": "next to",
    "heated": "with temperature applied",
}
# An issue code, which datasets hold.
ALLOWED = {"agent_result_beside_steps"}
_NAMES = re.compile(r"[A-Za-z_]+")


def outdated(text: str) -> set[str]:
    names = {name.lower() for name in _NAMES.findall(text)} - ALLOWED
    return {word for name in names for word in name.split("_")} & INSTEAD.keys()


def said(module: Path) -> Iterator[tuple[str, str]]:
    """The names and the docstrings of a module, its functions and classes."""
    tree = ast.parse(module.read_text())
    yield module.stem, ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, ast.get_docstring(node) or ""


def test_each_kind_of_name_is_looked_through() -> None:
    assert outdated("_told = LAWS; it lies, as agent_result_beside_steps") == {
        "told",
        "laws",
        "lies",
    }


@pytest.mark.parametrize(
    "path",
    [
        *sorted(ROOT.glob("wmo_distill/**/*.py")),
        *(
            path
            for ext in ("js", "css", "html")
            for path in sorted(ROOT.glob(f"wmo_distill/**/*.{ext}"))
        ),
        *sorted(ROOT.glob("docs/*.md")),
        *sorted(ROOT.glob("tests/project/help/*.txt")),
        *sorted(ROOT.glob("*.md")),
        ROOT / "Makefile",
    ],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_code_and_docs_use_the_glossary(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for word in outdated(f"{path.stem} {line}"):
            pytest.fail(f"{path.relative_to(ROOT)}:{number}: {word!r}; say {INSTEAD[word]}")


@pytest.mark.parametrize(
    "module",
    sorted(ROOT.glob("tests/**/*.py")),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_tests_are_named_by_the_glossary(module: Path) -> None:
    for name, text in said(module):
        for word in outdated(f"{name} {text}"):
            pytest.fail(f"{module.relative_to(ROOT)}: {name}: {word!r}; say {INSTEAD[word]}")
