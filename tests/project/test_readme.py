"""README and docs are true: their examples run, and their tables are those of the code.

`[...]` in an example is in place of lines that are left out.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.project.generated import pages, renewed
from tests.torture.__main__ import attacks
from wmo_distill import scan
from wmo_distill.records import StopReason
from wmo_distill.scorers.verdict import Verdict

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "README.md"] + [
    ROOT / "docs" / f"{name}.md"
    for name in ("cli", "records", "training", "look", "benchmarks", "reliability", "design")
]
# In the order in which a reader follows the examples; trainers.md has tests of its own.
README = "\n".join(file.read_text() for file in FILES)


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [block for word, block in fenced if word == language]


def table_below(heading: str, header: str = "|") -> list[list[str]]:
    """The cells of the first table after a line that starts so, whose first line starts so."""
    _, found, rest = README.partition(f"\n{heading}")
    assert found, f"no {heading!r} in README or docs"
    _, found, rest = rest.partition(f"\n{header}")
    assert found, f"no table below {heading!r}"
    rest = header + rest
    rows = re.search(r"(^\|.*\|$\n)+", rest, re.MULTILINE)
    assert rows is not None
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in rows[0].splitlines()[2:]
    ]


def stable(text: str) -> str:
    """Without what another machine or another pyarrow prints: times, and sizes of shards."""
    text = re.sub(r"\d+\.\d s\b|about a second|about \d+ (s|min)\b", "TIME", text)
    text = re.sub(r"[\d.,]+ (B|kB|MB)(?= from| of shards)", "SIZE", text)
    return text.replace(str(ROOT), "").rstrip("\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the trials and the command, in which the README is followed."""
    place = tmp_path_factory.mktemp("readme")
    for name in ("trials", "tokenizers"):
        shutil.copytree(ROOT / "fixtures" / name, place / "fixtures" / name)
    (place / ".venv/bin").mkdir(parents=True)
    for name, arguments in (("wmo-distill", " -m wmo_distill"), ("python", "")):
        command = place / ".venv/bin" / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable}{arguments} "$@"\n')
        command.chmod(0o755)
    return place


def shell(command: str, place: Path) -> str:
    done = subprocess.run(
        command,
        shell=True,
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        timeout=600,  # a machine may be busy
        check=False,
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout + done.stderr


def environment(place: Path) -> dict[str, str]:
    path = f"{place / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


def demo() -> str:
    """What `make demo` runs, in the place of the checkout."""
    recipe = (ROOT / "Makefile").read_text().split("\ndemo:")[1].split("\n\n")[0]
    for old, new in (
        ("@", ""), ("cd $(HERE) && ", ""), ("$(DISTILL)", "wmo-distill"), ("$(DEMO)", "demo"),
    ):  # fmt: skip
        recipe = recipe.replace(old, new)
    commands = recipe.splitlines()[1:]
    assert len(commands) >= 2
    return " && ".join(command.strip() for command in commands)


def test_the_console_examples_print_what_they_print(place: Path) -> None:
    examples = [
        re.match(r"\$ (.*)\n((?:.|\n)*)", example)
        for block in blocks("console")
        for example in re.split(r"^(?=\$ )", block, flags=re.MULTILINE)
        if example
    ]
    assert len(examples) >= 6
    for example in examples:
        assert example is not None
        command, printed = example.groups()
        found = shell(demo() if command == "make demo" else command, place)
        pieces = [re.escape(piece.strip("\n")) for piece in stable(printed).split("[...]")]
        wanted = r"\n(?:.*\n)*".join(pieces) + ("\n" if pieces[-1] else "")
        assert re.fullmatch(wanted.rstrip("\n") + "\n*", stable(found) + "\n"), command + found


def test_the_python_examples_run(place: Path, run_readme_python: None) -> None:
    assert (place / "from-python/manifest.json").exists()


@pytest.fixture(scope="module")
def run_readme_python(place: Path) -> None:
    shell("wmo-distill build fixtures/trials -o shards --declare logprob_mode=raw -q", place)
    examples = blocks("python")
    assert len(examples) == 5
    for example in examples:
        subprocess.run(
            [sys.executable, "-c", example],
            cwd=place,
            env=environment(place),
            check=True,
            capture_output=True,
            timeout=600,
        )


def test_the_sql_example_gives_the_attempts_of_scan(
    place: Path, run_readme_python: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    (query,) = blocks("sql")
    rows = sorted(duckdb.sql(query).fetchall())
    frame = scan("shards").select("trial_name", "attempt").collect()
    assert rows == sorted(frame.rows())
    assert len(rows) == 53


def test_the_training_makefile_trains_on_news_only(place: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    (rules,) = blocks("make")
    work = place / "training"
    shutil.copytree(ROOT / "fixtures/trials/01-solved", work / "jobs/01-solved")
    (work / "Makefile").write_text(rules)
    (work / "train.py").write_text("print('trained')")
    assert shell(f"make -s -C {work}", place).count("trained") == 1
    assert shell(f"make -s -C {work}", place).count("trained") == 0
    shutil.copytree(ROOT / "fixtures/trials/30-unicode", work / "jobs/30-unicode")
    assert shell(f"make -s -C {work}", place).count("trained") == 1
    assert shell(f"make -s -C {work}", place).count("trained") == 0


def test_the_stop_reasons_are_the_vocabulary() -> None:
    rows = table_below("Words of `stop_reason`")
    words = [word for row in rows for word in re.findall(r"`(\w+)`", row[0])]
    assert sorted(words) == sorted(StopReason)


def test_the_verdicts_are_the_vocabulary() -> None:
    rows = table_below("## Do the log-probabilities", "| verdict |")
    words = [word for row in rows for word in re.findall(r"`(\w+)`", row[0])]
    assert sorted(words) == sorted(Verdict)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_generated_parts_are_the_code_s(page: Path) -> None:
    """Where this fails, `make docs` writes them anew."""
    assert renewed(page.read_text()) == page.read_text()


def test_every_attack_is_described() -> None:
    rows = table_below("## The attacks", "| attack |")
    assert {row[0].strip("`") for row in rows} >= set(attacks())


def test_no_link_leads_nowhere() -> None:
    for file in (*FILES, ROOT / "docs" / "trainers.md", ROOT / "CHANGELOG.md"):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", file.read_text()):
            assert (file.parent / target).exists(), f"{file.name}: {target}"


def test_the_readme_is_a_front_door() -> None:
    """It is short, and leads to every page."""
    front = FILES[0].read_text()
    assert front.count("\n") <= 150
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in front
