"""The command as a shell sees it: help, exit codes, which stream says what."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRIALS = ROOT / "fixtures" / "trials"
CASES = ROOT / "fixtures" / "cases"
HELP = Path(__file__).parent / "help"
COMMANDS = (
    "doctor", "build", "regrade", "stats", "report", "show", "datums", "score", "check-logprobs",
    "export", "verify", "view",
)  # fmt: skip
TRIAL = TRIALS / "01-solved"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def words(text: str) -> str:
    """Without line breaks, and without the marks that differ between releases of Typer."""
    return " ".join(re.sub(r"<[^>]*>|[{}]|\.\.\.", "", text).split())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_the_golden_one(run: Run, command: str) -> None:
    """Line breaks are the terminal's affair; the words are ours."""
    done = run(*command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    golden = HELP / f"{command or 'wmo-distill'}.txt"
    assert words(done.stdout) == words(golden.read_text())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, wmo_distill\n"
        "sys.argv = ['wmo-distill', 'build', '--help']\n"
        "from wmo_distill.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pyarrow', 'polars', 'orjson', 'tenacity'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_version(run: Run) -> None:
    import wmo_distill

    assert run("--version").stdout == f"wmo-distill {wmo_distill.__version__}\n"


@pytest.mark.parametrize("args", [("--version",), ("verify", "nowhere"), ("stats", "--help")])
def test_a_forked_process_is_as_a_new_one(run: Run, args: tuple[str, ...]) -> None:
    """`run` saves the import of libraries, and nothing else."""
    new = subprocess.run(
        [sys.executable, "-m", "wmo_distill", *args],
        capture_output=True, text=True, env=os.environ | {"COLUMNS": "100"}, check=False,
    )  # fmt: skip
    forked = run(*args)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        new.returncode, new.stdout, new.stderr,
    )  # fmt: skip


def test_a_forked_process_has_the_caller_s_folder_and_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job").symlink_to(TRIAL)
    assert run("doctor", "job", cwd=tmp_path).returncode == 0
    monkeypatch.setenv("WMO_DISTILL_RUN_ID", "a b")
    refused = run("doctor", "job", cwd=tmp_path)
    assert (refused.returncode, "WMO_DISTILL_RUN_ID" in refused.stderr) == (2, True)


def test_data_goes_to_stdout_and_talk_to_stderr(run: Run, tmp_path: Path) -> None:
    done = run("build", TRIAL, "-o", tmp_path / "out", "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    summary = json.loads(done.stdout)
    wanted = {
        "found", "written", "skipped", "removed", "records", "calls", "tokens", "issues",
        "stop_reasons", "parts", "bytes_in", "bytes_out", "seconds", "calls_found",
        "calls_dropped",
    }  # fmt: skip
    assert wanted <= summary.keys()
    assert set(summary["tokens"]) == {"input", "output", "total", "prompt", "subagent"}
    assert summary["found"] == summary["written"] + sum(summary["skipped"].values()) == 1


def test_no_control_character_of_a_trial_reaches_the_terminal(run: Run, tmp_path: Path) -> None:
    trial = tmp_path / "jobs" / "a"
    shutil.copytree(next(TRIAL.glob("jobs/*/*__*")), trial)
    result = json.loads((trial / "result.json").read_text())
    result["trial_name"] = result["task_name"] = "red\x1b[31m\x07"
    (trial / "result.json").write_text(json.dumps(result))
    out = tmp_path / "out"
    printed = [
        run(*args).stdout
        for args in (
            ("build", tmp_path / "jobs", "-o", out),
            ("stats", out),
            ("show", out),
            ("doctor", tmp_path / "jobs"),
        )
    ]
    assert all("\x1b" not in text and "\x07" not in text for text in printed)
    assert r"red\x1b[31m\x07" in printed[2]


def test_names_that_stdout_cannot_hold(tmp_path: Path) -> None:
    name = "tri\udce9l \u540d" if sys.platform == "linux" else "trial \u540d"
    jobs = tmp_path / "jöbs"
    shutil.copytree(next(TRIAL.glob("jobs/*/*__*")), jobs / name)
    out = tmp_path / "öut"
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": str(ROOT)}
    for args in (
        ("doctor", jobs), ("doctor", jobs, "--json"), ("build", jobs, "-o", out),
        ("build", jobs, "-o", out, "--json"), ("show", out), ("stats", out, "--json"),
        ("verify", out),
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "wmo_distill", *map(os.fspath, args)],
            capture_output=True, env=environment, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b""), args
        if "--json" in args:
            assert done.stdout.isascii()
            assert json.loads(done.stdout)


@pytest.mark.parametrize(
    "args",
    [
        ("build",),
        ("build", TRIAL),
        ("build", TRIAL, "-o"),
        ("build", TRIAL, "-o", "OUT", "--workers", "0"),
        ("build", TRIAL, "-o", "OUT", "--max-turns", "0"),
        ("build", TRIAL, "-o", "OUT", "--max-turns", "many"),
        ("build", TRIAL, "-o", "OUT", "--reward-range", "1", "0"),
        ("build", TRIAL, "-o", "OUT", "--reward-range", "nan", "1"),
        ("build", TRIAL, "-o", "OUT", "--pass-at", "nan"),
        ("build", TRIAL, "-o", "OUT", "--declare", "temperature"),
        ("build", TRIAL, "-o", "OUT", "--declare", "temperature=hot"),
        ("build", TRIAL, "-o", "OUT", "--declare", "colour=red"),
        ("build", TRIAL, "-o", "OUT", "--cells", "nowhere.json"),
        ("build", TRIAL, "-o", "OUT", "--sinks", "nowhere"),
        ("build", TRIAL, "-o", "OUT", "--unknown"),
        ("build", "nowhere", "-o", "OUT"),
        ("build", ROOT / "pyproject.toml", "-o", "OUT"),
        ("doctor", "nowhere"),
        ("doctor",),
        ("stats", "nowhere"),
        ("show", "nowhere"),
        ("verify", "nowhere"),
        ("nothing",),
    ],
    ids=lambda args: "-".join(Path(str(a)).name.lstrip("-") for a in args),
)
def test_a_usage_error_is_2_and_leaves_nothing(
    run: Run, tmp_path: Path, args: tuple[object, ...]
) -> None:
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_message_says_where_expected_found_next(run: Run, tmp_path: Path) -> None:
    said = run("build", "nowhere", "-o", "OUT", cwd=tmp_path).stderr
    assert said.startswith("wmo-distill: nowhere: expected ")
    assert ", found " in said
    assert "; " in said


def test_a_build_of_no_trials_is_a_dataset(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    out = tmp_path / "out"
    built = run("build", tmp_path / "jobs", "-o", out, "--quiet")
    assert (built.returncode, built.stdout) == (4, "")
    assert "expected sampled tokens, found no trial in " in built.stderr
    assert run("verify", out).returncode == 0
    assert run("stats", out).returncode == 0
    assert run("show", out).returncode == 2
    looked = run("doctor", tmp_path / "jobs")
    assert (looked.returncode, looked.stdout) == (4, "")
    assert "found none" in looked.stderr


def test_a_dry_run_writes_nothing(run: Run, tmp_path: Path) -> None:
    done = run("build", TRIAL, "-o", tmp_path / "out", "--dry-run")
    assert done.returncode == 0
    assert "to read  1 trials" in done.stdout
    assert not list(tmp_path.iterdir())


def test_verify_is_1_where_a_byte_is_wrong(run: Run, dataset: Path, tmp_path: Path) -> None:
    assert run("verify", dataset).returncode == 0
    out = tmp_path / "out"
    shutil.copytree(dataset, out)
    part = next(out.glob("parts/*.parquet"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    done = run("verify", out)
    assert done.returncode == 1
    assert part.name in done.stdout
    faults = json.loads(run("verify", out, "--json").stdout)
    assert faults
    assert set(faults[0]) == {"file", "row", "expected", "found"}


def test_verify_prints_json_where_nothing_is_wrong(run: Run, dataset: Path) -> None:
    assert json.loads(run("verify", dataset, "--json").stdout) == []


def test_stats_as_json(run: Run, dataset: Path) -> None:
    stats = json.loads(run("stats", dataset, "--json", "--max-tokens", 100).stdout)
    assert stats["records"] == 53
    assert stats["max_tokens"] == 100


def test_show_finds_a_record_by_each_of_its_names(run: Run, dataset: Path) -> None:
    first = run("show", dataset).stdout
    assert run("show", dataset, "--row", 0).stdout == first
    facts = dict(line.split(maxsplit=1) for line in first.splitlines()[:3])
    name = facts["trial"]
    assert run("show", dataset, name).stdout == first
    steps = run("show", dataset, "sales-report-steptimeout__B95wVyd").stdout
    assert steps.count("episode id") == 3


@pytest.mark.parametrize("options", [("--row", 53), ("none",), ("csv-totals__mEySMRg", "--row", 1)])
def test_show_of_nothing_is_2(run: Run, dataset: Path, options: tuple[object, ...]) -> None:
    done = run("show", dataset, *options)
    assert (done.returncode, done.stdout) == (2, "")


def test_an_unexpected_error_is_1_and_one_line(tmp_path: Path) -> None:
    code = (
        "import sys, wmo_distill.cli.app as a, wmo_distill.shards.verify as v\n"
        "def broken(out, progress): secret = 'of the run'; raise KeyError('x')\n"
        "v.verify = broken\n"
        f"sys.argv = ['wmo-distill', 'verify', {str(tmp_path)!r}]\n"
        "a.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "unexpected KeyError: 'x' (wmo_distill/cli/verify.py:" in done.stderr


def test_every_option_of_the_contract_is_there(run: Run) -> None:
    shown = run("build", "--help").stdout
    for option in (
        "--max-turns", "--cells", "--sinks", "--reward-key", "--reward-range", "--reward-files",
        "--pass-at", "--declare", "--workers", "--no-salvage", "--no-extra", "--keep-removed",
        "--fresh", "--dry-run", "--strict", "--allow-empty", "--json", "--quiet", "-o,",
    ):  # fmt: skip
        assert option in shown


def test_what_is_lost_is_reported_even_when_quiet(run: Run, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    for name in ("01-solved", "03-max-turns"):
        shutil.copytree(TRIALS / name, jobs / name)
    cells = tmp_path / "cells.json"
    (trial,) = (jobs / "01-solved").glob("jobs/*/*__*")
    cell = {"task_id": "t", "attempt": 1, "reward": 0.5, "passed": False}
    cells.write_text(json.dumps([{**cell, "artifact_dir": str(trial)}]))
    out = tmp_path / "out"
    assert run("build", jobs, "-o", out, "--cells", cells, "--quiet").stderr == ""
    done = run("build", jobs, "-o", out, "--quiet")
    assert done.returncode == 0
    assert "grades of the cells given before are replaced" in done.stderr
    shutil.rmtree(jobs / "03-max-turns")
    assert "would lose" in run("build", jobs, "-o", out, "--dry-run").stderr
    done = run("build", jobs, "-o", out, "--quiet")
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 trials are gone from their directories and lost their rows" in done.stderr
