"""The command `report`: what it writes, where it refuses, and what it says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.conftest import ROOT, run_command
from wmo_distill import build, build_datum_shards
from wmo_distill.errors import UsageError
from wmo_distill.page.write import write_report


def test_it_writes_one_file_and_says_so(before: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = run_command("report", before, "-o", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{out}: ")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    again = run_command("report", before, "-o", out, "--json")
    assert json.loads(again.stdout) == {"file": str(out), "bytes": out.stat().st_size}


def test_names_that_a_terminal_must_not_see(before: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "shards \x1b[2J", tmp_path / "report \x1b[2J.html"
    shutil.copytree(before, source)
    done = run_command("report", source, "-o", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "<h1>Report of shards \\x1b[2J</h1>" in out.read_text()


@pytest.mark.parametrize("held", ["a note\n", "<!doctype html><title>mine</title>"])
def test_it_replaces_nothing_but_a_report(before: Path, tmp_path: Path, held: str) -> None:
    out = tmp_path / "page.html"
    out.write_text(held)
    with pytest.raises(
        UsageError, match="--out: expected a page of this command or no file, found"
    ):
        write_report(before, out)
    assert out.read_text() == held
    out.write_text("")
    write_report(before, out)
    first = out.read_bytes()
    write_report(before, out)
    assert out.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("name", ["", "missing/report.html", "/dev/null"])
def test_a_place_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    """Before any work: there is no dataset."""
    with pytest.raises(UsageError, match="--out: expected "):
        write_report(tmp_path / "nowhere", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--where", "nothing > 1"), "--where: expected a condition"),
        (("--by", "spans"), "--by: expected columns"),
        (("--max-tokens", "0"), "--max-tokens"),
    ],
)
def test_wrong_options_leave_nothing(
    before: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = run_command("report", before, "-o", tmp_path / "report.html", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_two_kinds_are_no_pair(before: Path, datums: Path, tmp_path: Path) -> None:
    done = run_command("report", before, datums, "-o", tmp_path / "report.html")
    assert done.returncode == 2
    assert "expected two datasets" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["altair", "jinja2", "vl_convert"])
def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path, package: str) -> None:
    """Before any work: there is no dataset."""
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "sys.argv = ['wmo-distill', 'report', 'nowhere', '-o', 'report.html']\n"
        "from wmo_distill.cli.app import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "wmo-distill: report: expected the packages of the extra `report`, "
        f'found no {package}; pip install "wmo-distill[report]"\n'
    )


def test_a_dataset_without_trials_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    build([tmp_path / "jobs"], tmp_path / "out", workers=1)
    build_datum_shards(tmp_path / "out", tmp_path / "datums")
    for sources in (["out"], ["datums"], ["out", "out"], ["datums", "datums"]):
        page = tmp_path / f"{'-'.join(sources)}.html"
        first, *other = (tmp_path / one for one in sources)
        write_report(first, page, other=other[0] if other else None)
        assert "NaN" not in page.read_text()
