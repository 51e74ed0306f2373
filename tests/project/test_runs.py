"""What is kept of each run of a command: a line of metrics.jsonl, and a tracker's run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.project.conftest import ROOT, TRIALS, Run, run_command
from tests.project.test_stop import replaced, stopped, waiting
from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from tests.proof.server import serve
from wmo_distill.cli.run import numbers
from wmo_distill.outputs.metrics import METRICS, RUNS
from wmo_distill.trackers import flat

KEYS = [
    "version", "run_id", "command", "tool_version", "started", "seconds", "exit_code", "state",
    "workers", "peak_memory", "peak_memory_of_a_worker", "result",
]  # fmt: skip
# Stand-ins with the signatures of the clients that we call; each says what it was given.
CLIENTS = {
    "wandb": """
class Run:
    def log(self, data, step=None, commit=None): say("log", data)
    def finish(self, exit_code=None, quiet=None): say("finish")
def init(entity=None, project=None, dir=None, id=None, name=None, notes=None, tags=None,
         config=None, config_exclude_keys=None, config_include_keys=None, allow_val_change=None,
         group=None, job_type=None, mode=None, **more):
    assert not more, more
    say("init", [project, name, job_type, config])
    return Run()
""",
    "trackio": """
def init(project, name=None, group=None, space_id=None, config=None, resume="never", **more):
    assert not more, more
    say("init", [project, name, config["command"], config])
def log(metrics, step=None): say("log", metrics)
def finish(): say("finish")
""",
    "mlflow": """
from contextlib import contextmanager
def set_experiment(experiment_name=None, experiment_id=None): say("project", experiment_name)
@contextmanager
def start_run(run_id=None, experiment_id=None, run_name=None, nested=False, tags=None):
    say("name", run_name)
    yield
    say("finish")
def log_params(params, synchronous=None): say("init", [None, None, params["command"], params])
def log_metrics(metrics, step=None, synchronous=None): say("log", metrics)
""",
}
SAYS = """
import json
def say(what, value=None):
    print("printed by the client")
    with open({file!r}, "a") as file:
        file.write(json.dumps([what, value]) + "\\n")
"""


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


def test_each_command_that_writes_keeps_a_line(run: Run, tmp_path: Path) -> None:
    """The numbers are those of --json; what is written depends on none of it."""
    shards, datums = tmp_path / "shards", tmp_path / "datums"
    for command in (
        ["build", TRIALS, "-o", shards],
        ["regrade", shards, "-o", tmp_path / "regraded", "--pass-at", "0.5"],
        ["datums", shards, "-o", datums],
        ["export", datums, "-o", tmp_path / "export", "--to", "trl-sft"],
        ["export", shards, "-o", tmp_path / "chats", "--to", "messages"],
    ):
        done = run(*command, "--json")
        out = Path(command[3])
        (line,) = lines(out / RUNS if command[0] == "export" else out)
        assert list(line) == KEYS
        assert (line["command"], line["state"], line["exit_code"]) == (command[0], "done", 0)
        assert line["result"] == numbers(json.loads(done.stdout))
        assert line["peak_memory"] > 20_000_000
        assert run("verify", out).returncode == 0
    # A trainer's loader may read all JSON lines of a directory.
    assert [file.name for file in (tmp_path / "chats").glob("*.jsonl")] == ["data-00000.jsonl"]
    assert run("build", TRIALS, "-o", shards, "--workers", "2", "--fresh").returncode == 0
    first, second = lines(shards)
    assert (first["workers"], first["peak_memory_of_a_worker"]) == (0, 0)
    assert second["workers"] > 0
    assert second["peak_memory_of_a_worker"] > 20_000_000
    for one in (first, second):
        assert one["result"]["found"] == one["result"]["written"] == 49


def test_scores_are_kept_with_a_line_a_run(run: Run, tmp_path: Path) -> None:
    """Of a server's answers, of a file's, and of what `check-logprobs` stores."""
    datums, scores, again = (tmp_path / name for name in ("datums", "scores", "again"))
    student, rng = LanguageModel(), np.random.default_rng(3)
    dataset(tmp_path / "shards", [record(chat(student, rng), n) for n in range(6)])
    assert run("datums", tmp_path / "shards", "-o", datums).returncode == 0
    with serve(student) as server:
        asked = ("--scorer", "vllm", "--url", server.url, "--model", "m", "--json")
        scored = run("score", datums, "-c", scores, *asked)
        checked = run("check-logprobs", datums, *asked, "--store", again, "--sample", "2")
    (first,) = lines(scores)
    assert (first["command"], first["exit_code"]) == ("score", scored.returncode)
    assert first["result"] == numbers(json.loads(scored.stdout))
    (line,) = lines(again)
    assert (line["command"], line["exit_code"]) == ("check-logprobs", checked.returncode)
    (tmp_path / "answers").write_text("")
    run("score", datums, "-c", scores, "--teacher", "t", "--read-answers", tmp_path / "answers")
    assert [line["command"] for line in lines(scores)] == ["score", "score"]
    assert run("verify", scores).returncode == 0


def test_what_writes_nothing_keeps_no_line(run: Run, dataset: Path, tmp_path: Path) -> None:
    before = (dataset / METRICS).read_bytes()
    for command in (
        ["build", TRIALS, "-o", dataset, "--dry-run"],
        ["build", TRIALS, "-o", dataset, "--pass-at", "0.5"],
        ["stats", dataset], ["verify", dataset], ["show", dataset],
    ):  # fmt: skip
        run(*command)
    assert (dataset / METRICS).read_bytes() == before
    run("build", TRIALS, "-o", tmp_path / "none", "--dry-run")
    assert not (tmp_path / "none").exists()


def test_a_run_that_is_stopped(dataset: Path, tmp_path: Path) -> None:
    """It keeps a line where there is a dataset already, and makes no directory for one."""
    out = tmp_path / "out"
    commit = replaced("wmo_distill.outputs.parts:Parts.commit")
    for there in (False, True):
        if there:
            assert run_command("build", TRIALS / "01-solved", "-o", out).returncode == 0
        with waiting(commit, "build", TRIALS, "-o", out) as process:
            assert stopped(process, signal.SIGTERM).count("\n") == 1
        assert out.exists() == there
    first, second = lines(out)
    assert (first["state"], first["exit_code"]) == ("done", 0)
    assert (second["state"], second["exit_code"], second["result"]) == ("stopped", 143, None)


def test_a_line_that_cannot_be_kept_is_a_warning(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("build", TRIALS, "-o", out).returncode == 0
    (out / METRICS).unlink()
    (out / METRICS).mkdir()
    done = run("build", TRIALS, "-o", out, "--fresh")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"wmo-distill: {out / METRICS}: expected to add a line on this run")
    assert run("verify", out).returncode == 0


def test_numbers_alone_are_kept() -> None:
    whole = {
        "found": 3, "rate": 0.5, "nan": float("nan"), "dry_run": True, "name": "x",
        "errors": {"a/b": "c"}, "none": None, "list": [1], "skipped": {"no_cell": 1},
    }  # fmt: skip
    kept = {"found": 3, "rate": 0.5, "skipped": {"no_cell": 1}}
    assert numbers(whole) == kept
    assert dict(flat({"exit_code": 0, "state": "done", "result": kept})) == {
        "exit_code": 0, "result/found": 3, "result/rate": 0.5, "result/skipped/no_cell": 1,
    }  # fmt: skip


def tracked(
    place: Path, name: str, client: str, *arguments: object
) -> "subprocess.CompletedProcess[str]":
    """The command, where a client of that name is installed."""
    (place / f"{name}.py").write_text(SAYS.format(file=str(place / "said")) + client)
    return subprocess.run(
        [sys.executable, "-m", "wmo_distill", *map(str, arguments), "--tracker", name],
        capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{place}"},
    )  # fmt: skip


@pytest.mark.parametrize("name", CLIENTS)
def test_a_tracker_gets_the_numbers_once(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    done = tracked(
        tmp_path, name, CLIENTS[name],
        "build", TRIALS, "-o", out, "--json", "--tracker-project", "student",
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["found"]) == (0, 49)
    said = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]
    (line,) = lines(out)
    given = dict(said)
    assert [what for what, _ in said].count("log") == 1
    assert said[-1][0] == "finish"
    assert given["log"] == dict(flat(line))
    assert given["log"]["result/found"] == 49
    project, run_id, command, about = given["init"]
    assert given.get("project", project) == "student"
    assert given.get("name", run_id) == line["run_id"] == about["run_id"]
    assert command == "build"


def test_a_tracker_that_is_not_installed(run: Run, tmp_path: Path) -> None:
    """Before any work; a directory of that name, as wandb makes for its runs, is no client."""
    (tmp_path / "wandb").mkdir()
    for name in ("wandb", "trackio", "mlflow"):
        done = run("build", TRIALS, "-o", tmp_path / "out", "--tracker", name, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr == (
            f"wmo-distill: --tracker: expected the client of {name}, found none; "
            f"`pip install {name}`, or leave the option out\n"
        )
        assert not (tmp_path / "out").exists()
    assert run("build", TRIALS, "-o", tmp_path / "out", "--tracker", "none").returncode == 2


@pytest.mark.parametrize("fault", ["raise OSError('no network\\x1b[2J')", "import not_there"])
def test_a_tracker_that_fails_is_one_warning(tmp_path: Path, fault: str) -> None:
    out = tmp_path / "out"
    done = tracked(tmp_path, "wandb", fault, "build", TRIALS, "-o", out, "--quiet")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("wmo-distill: --tracker wandb: expected it to take the numbers")
    assert "\x1b" not in line
    assert len(lines(out)) == 1


def test_a_tracker_that_hangs_is_stopped(tmp_path: Path) -> None:
    """The dataset is there, and its line; the message says so."""
    out = tmp_path / "out"
    hangs = (
        "import types\n"
        "sys.modules['wandb'] = types.SimpleNamespace(init=wait)\n"
        "sys.modules['wandb'].__spec__ = types.SimpleNamespace(has_location=True)"
    )
    arguments = ["build", TRIALS, "-o", out, "--quiet", "--tracker", "wandb"]
    with waiting(hangs, *arguments) as process:
        said = stopped(process, signal.SIGINT)
    assert said == f"wmo-distill: stopped by SIGINT: {out} holds what was committed\n"
    (line,) = lines(out)
    assert line["state"] == "done"
    assert run_command("verify", out).returncode == 0


def test_nothing_is_sent_of_a_run_without_a_result(tmp_path: Path) -> None:
    done = tracked(tmp_path, "wandb", CLIENTS["wandb"], "build", tmp_path / "none", "-o", tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "said").exists()
