"""`--log-format`: every line on stderr is an event, whatever the command comes to."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.project.conftest import ROOT, TRIALS, Run
from tests.project.test_command import COMMANDS
from tests.project.test_stop import replaced, stopped, waiting
from wmo_distill.cli.log import Log, format_in, run_id_fault

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
KEYS = ["time", "level", "run_id", "event", "message", "fields"]


def events(stderr: str) -> list[dict[str, Any]]:
    """The events of one run, each held to the schema."""
    found = [json.loads(line) for line in stderr.splitlines()]
    for event in found:
        assert list(event) == KEYS
        assert re.fullmatch(TIME, event["time"])
        assert event["level"] in ("info", "warning", "error")
        assert isinstance(event["message"], str)
        assert isinstance(event["fields"], dict)
    assert len({event["run_id"] for event in found}) <= 1
    return found


def names(stderr: str) -> list[str]:
    return [event["event"] for event in events(stderr)]


@pytest.fixture(scope="module")
def datums(dataset: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("datums") / "datums"
    assert run("datums", dataset, "-o", out).returncode == 0
    return out


@pytest.mark.parametrize(
    "command",
    ["doctor TRIALS", "build TRIALS -o OUT", "regrade DATASET -o OUT --pass-at 0.5",
     "stats DATASET", "show DATASET", "datums DATASET -o OUT",
     "score DATUMS -c OUT --teacher t --dry-run", "export DATUMS -o OUT --to trl-sft",
     "verify DATASET"],
)  # fmt: skip
def test_what_goes_well(
    run: Run, dataset: Path, datums: Path, tmp_path: Path, command: str
) -> None:
    known = {"TRIALS": TRIALS, "DATASET": dataset, "DATUMS": datums, "OUT": tmp_path / "out"}
    words = [known.get(word, word) for word in command.split()]
    done = run(*words, "--log-format", "json")
    assert done.returncode == 0, done.stderr
    found = events(done.stderr)
    assert [found[0]["event"], found[-1]["event"]] == ["begin", "end"]
    assert found[0]["fields"]["command"] == words[0]
    assert (found[-1]["fields"]["exit_code"], found[-1]["fields"]["state"]) == (0, "done")
    assert run(*words[:-1], words[-1], "--log-format", "text", "--help").returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_wrong_with_the_arguments(run: Run, tmp_path: Path, command: str) -> None:
    """Before they are parsed, while they are, and once they are checked."""
    for arguments in ([command, "--none"], [command, tmp_path / "none", "-o", tmp_path / "x"]):
        done = run(*arguments, "--log-format=json")
        assert done.returncode == 2, (arguments, done.stderr)
        (event,) = [one for one in events(done.stderr) if one["event"] == "refusal"]
        assert event["level"] == "error"
        assert not event["message"].startswith("wmo-distill")
        assert "expected an option" in event["message"] or arguments[1:] != ["--none"]
        assert "--log-format" not in event["message"]


def test_a_command_that_there_is_not(run: Run) -> None:
    assert names(run("none", "--log-format", "json").stderr) == ["refusal"]


def test_who_reads_the_result_may_have_gone(dataset: Path, tmp_path: Path) -> None:
    """What ends a command early is not the end of its events, nor of its line of metrics."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "wmo_distill", "build", TRIALS, "-o", out, "--json"]
    with subprocess.Popen(
        [*map(str, command), "--log-format", "json"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        found = events(process.stderr.read())
    assert [event["event"] for event in found] == ["begin", "end"]
    assert process.returncode == found[-1]["fields"]["exit_code"] == 1
    (line,) = (out / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["state"] == "failed"


@pytest.mark.skipif(find_spec("aiohttp") is None, reason="without the extra `view`")
def test_a_server_is_logged_too(dataset: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "wmo_distill", "view", str(dataset), "--log-format", "json"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.terminate()
        found = events(process.stderr.read())
    assert [event["event"] for event in found if event["event"] != "message"] == [
        "begin", "stopped", "end",
    ]  # fmt: skip


def test_a_format_that_there_is_not(run: Run, dataset: Path) -> None:
    done = run("verify", dataset, "--log-format", "xml")
    assert done.returncode == 2
    assert done.stderr.startswith("wmo-distill: --log-format: expected one of text, json")
    assert format_in(["--log-format", "json", "--log-format=text"]) == "text"
    assert format_in(["build", "--", "--log-format", "json"]) is None
    assert format_in(["build", "--log-format"]) is None


def test_warnings_and_refusals_after_the_work(run: Run, tmp_path: Path) -> None:
    done = run("build", tmp_path, "-o", tmp_path / "out", "--log-format", "json")
    assert done.returncode == 4
    found = events(done.stderr)
    assert [one["event"] for one in found] == ["begin", "refusal", "end"]
    assert found[1]["message"].startswith(f"{tmp_path / 'out'}: expected sampled tokens")
    assert found[-1]["fields"]["state"] == "done_without_result"


def test_text(run: Run, dataset: Path, tmp_path: Path) -> None:
    for arguments in (["verify", dataset], ["verify", tmp_path / "a\nb\x1b[2J"]):
        done = run(*arguments, "--log-format", "text")
        for line in done.stderr.splitlines():
            assert re.fullmatch(rf"{TIME} (info|error) [0-9a-f]{{16}} [a-z]+: .*", line)
        assert "\x1b" not in done.stderr


def test_quiet_leaves_what_it_comes_to(run: Run, dataset: Path) -> None:
    done = run("verify", dataset, "--quiet", "--log-format", "json")
    assert (done.returncode, done.stdout) == (0, "")
    assert names(done.stderr) == ["begin", "end"]


def test_without_it_a_pipe_gets_nothing(run: Run, dataset: Path) -> None:
    assert run("verify", dataset).stderr == ""


def test_the_id_of_a_run(run: Run, dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (events(run("verify", dataset, "--log-format=json").stderr) for _ in "12")
    assert first[0]["run_id"] != second[0]["run_id"]
    monkeypatch.setenv("WMO_DISTILL_RUN_ID", "job-7.attempt:2")
    given = events(run("verify", dataset, "--log-format=json").stderr)
    assert {event["run_id"] for event in given} == {"job-7.attempt:2"}
    for wrong in ("", "a b", "a\n", "x" * 129, "ä"):
        assert run_id_fault(wrong)
    monkeypatch.setenv("WMO_DISTILL_RUN_ID", "a b")
    done = run("verify", dataset, "--log-format=json")
    assert done.returncode == 2
    assert names(done.stderr) == ["refusal", "end"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(dataset: Path, number: int) -> None:
    verify = replaced("wmo_distill.shards.verify:verify")
    with waiting(verify, "verify", dataset, "--log-format", "json") as process:
        found = events(stopped(process, number))
    assert [event["event"] for event in found] == ["begin", "stopped", "end"]
    assert found[1]["message"].startswith(f"stopped by {signal.Signals(number).name}")
    assert found[2]["fields"]["exit_code"] == 128 + number


def test_progress_is_an_event(dataset: Path) -> None:
    """As the pipeline reports it, with what the process uses."""
    code = (
        "import sys, time, wmo_distill.cli.live as live, wmo_distill.shards.verify as v\n"
        "live.FIRST_LOGGED = live.LOGGED_EVERY = 0.0\n"
        "real, logged = v.verify, []\n"
        "log = live.Working._log\n"
        "live.Working._log = lambda self: (log(self), logged.append(self._latest))\n"
        "def verify(out, progress):\n"
        "    faults = real(out, progress=progress)\n"
        "    while not any(logged): time.sleep(0.01)\n"
        "    return faults\n"
        "v.verify = verify\n"
        "from wmo_distill.__main__ import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", str(dataset), "--log-format", "json"],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    progress = [event for event in events(done.stderr) if event["event"] == "progress"]
    fields = progress[-1]["fields"]
    assert (fields["done"], fields["total"], fields["unit"]) == (1, 1, "files")
    assert fields["bytes_done"] == fields["bytes_total"] > 1000
    assert fields["outcomes"] == {"sound": 1, "faulty": 0}
    assert fields["command"] == "verify"
    assert progress[-1]["message"].startswith("1 of 1 files, ")


def test_what_others_write_to_stderr_is_an_event(tmp_path: Path) -> None:
    """Libraries of this process and processes that it starts; as bytes that are no text."""
    code = (
        "import os, subprocess, sys, warnings\n"
        "from wmo_distill.cli.log import Log\n"
        "log = Log(['--log-format', 'json'], 'r')\n"
        "log.take_strays()\n"
        "warnings.warn('from Python')\n"
        "os.write(2, b'from C \\xff\\n')\n"
        "subprocess.run(['sh', '-c', 'echo from a process >&2'])\n"
        "sys.stderr.write('no end')\n"
        "log.close()\n"
        "os.write(2, b'plain again\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    *lines, last = done.stderr.splitlines()
    assert last == "plain again"
    said = [event["message"] for event in events("\n".join(lines))]
    assert "UserWarning: from Python" in said[0]
    assert said[-3:] == ["from C \\xff", "from a process", "no end"]


def test_an_address_keeps_its_password(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--log-format", "json"]):
        Log(arguments).say("wmo-distill: http://me:hunter2@host/ failed")
        assert "hunter2" not in capfd.readouterr().err
