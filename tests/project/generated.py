"""The parts of docs that are made from the code; `make docs` writes them, a test holds them to it.

A part is between two lines of comment: `<!-- generated: NAME -->` and `<!-- end -->`.
"""

import ast
import inspect
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from wmo_distill.cli.app import app
from wmo_distill.datums.datum import DROPS
from wmo_distill.datums.table import datum_columns_table
from wmo_distill.issues import meanings_table
from wmo_distill.report.datums import FIXES
from wmo_distill.shards.columns import columns_table
from wmo_distill.shards.schema import COLUMNS, LEDGER_COLUMNS
from wmo_distill.shards.where import FUNCTIONS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "wmo_distill"
SEAM = {
    "Folder": "sources/base.py",
    "FoundTrial": "sources/base.py",
    "Here": "sources/base.py",
    "TrialFiles": "files.py",
    "Evidence": "sources/evidence.py",
    "Call": "sources/recorded.py",
}
PART = re.compile(r"<!-- generated: (\S+) -->\n.*?<!-- end -->", re.S)


def about(module: Path) -> str:
    """The first line of a module's docstring, without the full stop."""
    text = ast.get_docstring(ast.parse(module.read_text()))
    assert text, f"{module}: what is it?"
    return text.splitlines()[0].removesuffix(".")


def tracked() -> list[Path]:
    """The package's modules as they are in the index, or on disk where there is no git."""
    done = subprocess.run(
        ["git", "ls-files", "wmo_distill/*.py"], cwd=ROOT, capture_output=True, text=True
    )
    names = done.stdout.split() if done.returncode == 0 else []
    return [ROOT / n for n in names if (ROOT / n).exists()] or sorted(PACKAGE.rglob("*.py"))


def tree(order: tuple[str, ...]) -> str:
    """The package as a tree of folders and modules, each with the first line of its docstring."""

    def place(module: Path) -> tuple[int, list[str]]:
        parts = list(module.relative_to(PACKAGE).with_suffix("").parts)
        rank = order.index(parts[0]) if parts[0] in order else -1
        return rank, ["" if p == "__init__" else p for p in parts]

    lines = ["wmo_distill/"]
    for module in sorted(tracked(), key=place):
        inner = module.relative_to(PACKAGE)
        name = inner.name
        depth = len(inner.parts)
        if name == "__init__.py" and depth > 1:
            name, depth = f"{inner.parts[-2]}/", depth - 1
        lines.append(f"{'  ' * depth}{name:<{22 - 2 * (depth - 1)}}{about(module)}")
    return "```\n" + "\n".join(lines) + "\n```"


def commands() -> str:
    """Every command with its arguments and options, as a heading and a table each."""
    return "\n\n".join(_command(info.callback) for info in app.registered_commands)


def _command(command: Callable[..., Any] | None) -> str:
    assert command is not None
    assert command.__doc__
    lines = [f"### `wmo-distill {command.__name__.replace('_', '-')}`", "", command.__doc__, ""]
    lines += ["| option | default (limits) | meaning |", "| --- | --- | --- |"]
    for name, parameter in inspect.signature(command).parameters.items():
        (info,) = parameter.annotation.__metadata__
        names, default = info.metavar, "required"
        if isinstance(info, typer.models.OptionInfo):
            # Typer keeps the first name that an annotation gives as its default.
            given = [*([info.default] if isinstance(info.default, str) else []), *info.param_decls]
            names = ", ".join(given or ["--" + name.replace("_", "-")])
            names += f" {info.metavar}" if info.metavar else ""
        value = parameter.default
        if value is not parameter.empty:
            value = " ".join(map(str, value)) if isinstance(value, tuple) else value
            default = "" if value is None or value is False or value == "" else f"`{value}`"
        ends = [info.min, info.max]
        if ends != [None, None]:
            low, high = ("" if end is None else f"{end:g}" for end in ends)
            default += f" ({low} to {high})" if high else f" (from {low})"
        option = names.replace("|", "\\|")
        lines.append(f"| `{option}` | {default.strip()} | {info.help} |")
    return "\n".join(lines)


def drops_table() -> str:
    """Why a record, or some of its sampled tokens, are not trained."""
    rows = "\n".join(f"| `{reason}` | {meaning} |" for reason, meaning in DROPS.items())
    return f"| reason | meaning |\n| --- | --- |\n{rows}"


def breaks_table() -> str:
    """Why a prompt does not extend what came before, and what to do."""
    rows = "\n".join(f"| `{cause}` | {fix} |" for cause, fix in FIXES.items())
    return f"| cause | what happened, and what helps |\n| --- | --- |\n{rows}"


def functions_table() -> str:
    """What `--where` may call."""
    rows = "\n".join(f"| {about} | {', '.join(names)} |" for about, names in FUNCTIONS.items())
    return f"| about | functions |\n| --- | --- |\n{rows}"


def seam() -> str:
    """The fields and public methods of what a source handles, as their files have them."""
    lines = ["| class | fields and methods |", "| --- | --- |"]
    for name, file in SEAM.items():
        nodes = ast.parse((PACKAGE / file).read_text()).body
        (found,) = (n for n in nodes if isinstance(n, ast.ClassDef) and n.name == name)
        members = []
        for node in found.body:
            if isinstance(node, ast.AnnAssign):
                members.append(ast.unparse(node.target))
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                members.append(node.name + "()" * (not node.decorator_list))
        shown = ", ".join(f"`{m}`" for m in members if not m.startswith("_"))
        lines.append(f"| [`{name}`](../wmo_distill/{file}) | {shown} |")
    return "\n".join(lines)


def parts() -> dict[str, Callable[[], str]]:
    """Every generated part by its name."""
    from tests.project.test_imports import ORDER

    return {
        "tree": lambda: tree(ORDER),
        "issues": meanings_table,
        "drops": drops_table,
        "breaks": breaks_table,
        "functions": functions_table,
        "seam": seam,
        "columns": lambda: columns_table(COLUMNS),
        "ledger": lambda: columns_table(LEDGER_COLUMNS),
        "datum-columns": datum_columns_table,
        "commands": commands,
    }


def renewed(text: str) -> str:
    """A page with its generated parts as the code has them now."""
    known = parts()
    return PART.sub(
        lambda m: f"<!-- generated: {m[1]} -->\n{known[m[1]]().strip()}\n<!-- end -->", text
    )


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


if __name__ == "__main__":
    for page in pages():
        page.write_text(renewed(page.read_text()))
