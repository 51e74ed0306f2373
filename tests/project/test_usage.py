"""What a wrong line of the shell is answered with: where, expected, found, what to do."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from wmo_distill import UsageError, build
from wmo_distill.exporters.messages import FORMS
from wmo_distill.exporters.registry import TARGETS

TRIALS = Path(__file__).parents[2] / "fixtures" / "trials"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("build", "PATH: expected a value, found none"),
        ("build x", "--out: expected a value, found none"),
        ("build x -o", "-o: expected a value, found none"),
        ("build x -o y --reward-range 1", "--reward-range: expected 2 values, found another"),
        ("build x -o y --workers 0", "--workers: expected a number greater than or equal to 1, "),
        ("build x -o y --workers z", "--workers: expected a valid integer, found another value;"),
        ("build x -o y --unknown", "--unknown: expected an option of `wmo-distill build`, found"),
        ("stats a b c", "c: expected no further argument, found this one;"),
        ("nothing", "nothing: expected a command of `wmo-distill`, found no such one;"),
        ("build x -o y --max-file-size x", "--max-file-size: expected a size such as 8GB or 500MB"),
        ("export x -o y --to verll", "--to: expected one of areal, areal-sft, messages, "),
    ],
)
def test_each_kind_of_refusal(run: Run, tmp_path: Path, line: str, said: str) -> None:
    done = run(*line.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"wmo-distill: {said}")
    assert "; " in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_command_is_help(run: Run) -> None:
    assert run().stderr.startswith("Usage: wmo-distill ")


def test_the_targets_are_data_too(run: Run) -> None:
    assert json.loads(run("export", "--list", "--json").stdout).keys() == {*TARGETS, *FORMS}


def test_a_record_is_data_too(run: Run, dataset: Path) -> None:
    shown = json.loads(run("show", dataset, "--json").stdout)
    (part,) = (dataset / "parts").glob("*.parquet")
    row = pq.read_table(part).slice(0, 1).to_pylist()[0]
    assert shown[0]["spans"] == row["spans"]
    assert shown[0].keys() == row.keys()
    assert shown[0]["attempt"] == 1
    found = json.loads(run("show", dataset, "csv-totals__mEySMRg", "--json").stdout)
    assert [one["trial_name"] for one in found] == ["csv-totals__mEySMRg"]


def test_the_library_takes_one_path(tmp_path: Path) -> None:
    one = next((TRIALS / "01-solved").glob("jobs/*/*__*"))
    assert build(str(one), tmp_path / "a").found == build(one, tmp_path / "b").found == 1
    with pytest.raises(UsageError, match="nowhere: expected a directory of trials"):
        build("nowhere", tmp_path / "c")
