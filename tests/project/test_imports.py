"""Imports point one way: a module uses only what is above its own line here."""

import ast
import graphlib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "wmo_distill"

ORDER = (
    "visible",
    "errors",
    "display",
    "progress",
    "limits",
    "disk",
    "operation",
    "endings",
    "issues",
    "predicates",
    "arrays",
    "segment",
    "tokens",
    "counts",
    "files",
    "outputs",
    "tokenjson",
    "credentials",
    "arguments",
    "records",
    "declare",
    "options",
    "sources",
    "trials",
    "reference",
    "decoding",
    "scanner",
    "trial",
    "engines",
    "shards",
    "datums",
    "scorers",
    "exporters",
    "stats",
    "doctor",
    "pipeline",
    "report",
    "page",
    "view",
    "trackers",
    "cli",
    "__main__",
)
# The only places that use these; the others go through them.
ONLY_IN = {"tenacity": {"disk.py", "scorers"}, "typer": {"cli"}, "subprocess": {"engines", "cli"}}


def modules() -> list[Path]:
    found = sorted(PACKAGE.rglob("*.py"))
    assert len(found) > 20
    return found


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(PACKAGE).with_suffix("").parts)


def imported(module: Path) -> set[str]:
    """Absolute names of the modules that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def local(module: Path) -> set[str]:
    """The same for modules of this package, relative to it."""
    known = {name_of(m).removesuffix(".__init__") for m in modules()}
    named = {name.removeprefix("wmo_distill.") for name in imported(module)}
    return named & known


def test_every_part_of_the_package_has_its_place() -> None:
    parts = {name_of(module).split(".")[0] for module in modules()} - {"__init__"}
    assert parts <= set(ORDER)


@pytest.mark.parametrize("module", modules(), ids=name_of)
def test_imports_point_one_way(module: Path) -> None:
    part = name_of(module).split(".")[0]
    if part == "__init__":  # the lazy front door may name everything but the command
        assert not any(name.startswith("cli") for name in local(module))
        return
    above = ORDER[: ORDER.index(part)]
    for name in local(module):
        other = name.split(".")[0]
        assert other in (*above, part), f"{name_of(module)} imports {name}"


def test_no_circle_within_a_part() -> None:
    graph = defaultdict(set)
    for module in modules():
        if name_of(module) != "__init__":
            graph[name_of(module)] |= local(module) - {name_of(module)}
    assert list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_with_one_home(library: str) -> None:
    users = {
        module.relative_to(PACKAGE).parts[0]
        for module in modules()
        if any(name.split(".")[0] == library for name in imported(module))
    }
    assert users == ONLY_IN[library]


UNKNOWN_TO = {
    # Two wings meet at the record: neither side knows the other.
    ("shards", "datums", "scorers", "stats"): {"sources", "trials", "pipeline"},
    # Decisions over evidence open no file and know no harness.
    ("trials",): {"files.TrialFiles", "sources.harbor", "sources.sink", "sources.base"},
    ("tokenjson",): {"records", "sources", "trials", "options"},
}


@pytest.mark.parametrize("parts", UNKNOWN_TO)
def test_what_a_part_must_not_know(parts: tuple[str, ...]) -> None:
    for module in modules():
        if name_of(module).split(".")[0] in parts:
            named = {name.removeprefix("wmo_distill.") for name in imported(module)}
            for unknown in UNKNOWN_TO[parts]:
                assert not [n for n in named if f"{n}.".startswith(f"{unknown}.")], module


def test_decisions_open_no_file() -> None:
    for module in (PACKAGE / "trials").glob("*.py"):
        used = {n.id for n in ast.walk(ast.parse(module.read_text())) if isinstance(n, ast.Name)}
        assert used.isdisjoint({"open", "os", "Path"}), module
