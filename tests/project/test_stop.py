"""A signal ends any command at once: its code, one true line on stderr, nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import wmo_distill
from tests.project.conftest import TRIALS, run_command
from wmo_distill.outputs.manifest import STAGING

ROOT = Path(__file__).parents[2]
READERS = ROOT / "tests" / "pipeline"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
# The command, with one function in the place of which it waits, once it has said so.
WAITS = """
import importlib, os, signal, sys, time
def wait(*args, **kwargs):
    os.write(1, b"waits\\n")
    while True:  # a signal between two lines of Python does not cut short a sleep that follows
        time.sleep(0.01)
{set_up}
from wmo_distill.__main__ import main
main()
"""


def replaced(place: str) -> str:
    module, _, name = place.partition(":")
    holder = f"importlib.import_module({module!r})"
    owner, _, attribute = name.rpartition(".")
    return f"setattr({holder}{'.' + owner if owner else ''}, {attribute!r}, wait)"


@contextmanager
def waiting(set_up: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """A command that waits; gone at the end, whatever a test finds."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITS.format(set_up=set_up), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n"
            yield process
        finally:
            process.kill()


def stopped(process: "subprocess.Popen[str]", number: int) -> str:
    """What it says when the signal ends it."""
    process.send_signal(number)
    out, said = process.communicate(timeout=300)
    assert (process.returncode, out) == (128 + number, ""), said
    return said


def trial(place: Path) -> Path:
    place.mkdir()
    (place / "result.json").write_text(json.dumps({"trial_name": "t", "id": place.name}))
    return place


def files(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*")}


@pytest.fixture(scope="module")
def datums(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("datums") / "datums"
    assert run_command("datums", dataset, "-o", out).returncode == 0
    return out


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", [["build"], ["datums"], ["export", "--to", "trl-sft"]])
def test_before_the_commit(
    dataset: Path, datums: Path, tmp_path: Path, number: int, command: list[str]
) -> None:
    source = {"build": TRIALS, "datums": dataset, "export": datums}[command[0]]
    out, commit = tmp_path / "out", replaced("wmo_distill.outputs.parts:Parts.commit")
    with waiting(commit, *command, source, "-o", out) as process:
        assert stopped(process, number) == (
            f"wmo-distill: stopped by {signal.Signals(number).name}: "
            f"{out} was left as it was; run it again\n"
        )
    assert not out.exists()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("stats", "wmo_distill.stats.rollout:dataset_stats"),
        ("show", "wmo_distill.shards.find:read_at"),
        ("verify", "wmo_distill.shards.verify:verify"),
        ("doctor", "wmo_distill.doctor.diagnose:diagnose"),
    ],
)
def test_a_command_that_reads(dataset: Path, number: int, command: str, place: str) -> None:
    with waiting(replaced(place), command, dataset) as process:
        said = stopped(process, number)
    name = signal.Signals(number).name
    assert said == f"wmo-distill: stopped by {name}: nothing was changed; run it again\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_while_modules_are_loaded(number: int) -> None:
    slow = "class Slow:\n    def find_spec(self, name, *_): name == 'typer' and wait()\n"
    with waiting(slow + "sys.meta_path.insert(0, Slow())", "stats", "x") as process:
        assert stopped(process, number).endswith(": nothing was changed; run it again\n")


def test_within_a_commit_and_after_it(tmp_path: Path) -> None:
    job, out = trial(tmp_path / "t"), tmp_path / "out"
    move = (
        "move = os.replace\n"
        "os.replace = lambda a, b: (wait if str(a).endswith('/manifest.json') else move)(a, b)"
    )
    with waiting(move, "build", job, "-o", out) as process:
        assert stopped(process, signal.SIGHUP).endswith(
            "holds a commit that is not finished; run it again, which finishes it first\n"
        )
    assert "manifest.json" not in files(out)
    clean = replaced("wmo_distill.outputs.parts:Parts._clean")
    with waiting(clean, "build", job, "-o", out) as process:
        assert "holds what was committed; run it again" in stopped(process, signal.SIGTERM)
    assert {"manifest.json", "ledger.parquet", "parts/part-00000.parquet"} <= files(out)


def test_a_second_signal_does_not_wait_for_the_cleaning_up(tmp_path: Path) -> None:
    job, out = trial(tmp_path / "t"), tmp_path / "out"
    slow = f"import shutil\n{replaced('wmo_distill.outputs.parts:Parts.commit')}\n"
    with waiting(f"{slow}shutil.rmtree = wait", "build", job, "-o", out) as process:
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        assert stopped(process, signal.SIGTERM) == ""
    assert any(STAGING in name for name in files(out))


def test_what_is_ignored_stays_ignored(dataset: Path) -> None:
    ignoring = (
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        f"{replaced('wmo_distill.stats.rollout:dataset_stats')}"
    )
    with waiting(ignoring, "stats", dataset) as process:
        process.send_signal(signal.SIGHUP)
        assert "stopped by SIGTERM" in stopped(process, signal.SIGTERM)


def test_a_stop_in_a_callback_is_not_lost() -> None:
    # Python reports an exception from a weak reference's callback, and goes on.
    code = (
        "import weakref, signal, time\n"
        "class Thing: pass\n"
        "def gone(_): signal.raise_signal(signal.SIGTERM)\n"
        "def run():\n"
        "    thing = Thing(); kept = weakref.ref(thing, gone); del thing\n"
        "    while True: time.sleep(0.01)\n"
        "from wmo_distill.cli.stop import stoppable\n"
        "stoppable(run)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 143
    assert done.stderr == "wmo-distill: stopped by SIGTERM: nothing was changed; run it again\n"


def test_a_terminal_s_interrupt_reaches_no_worker_and_none_is_left(tmp_path: Path) -> None:
    """The workers share stderr, so its end is that of all of them."""
    job = tmp_path / "job"
    job.mkdir()
    for name in ("t1", "t4"):
        trial(job / name)
    code = (
        "from pipeline_readers import waiting\n"
        "from wmo_distill.cli.stop import stoppable\n"
        "from wmo_distill.pipeline.build import build_with\n"
        f"job, out = {str(job)!r}, {str(tmp_path / 'out')!r}\n"
        "stoppable(lambda: build_with(waiting, [job], out, workers=2))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{READERS}{os.pathsep}{ROOT}"},
        start_new_session=True,
    ) as process:
        while not (job / "waiting").exists():
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.count("\n") == 1
    assert "was left as it was" in said
    assert not (tmp_path / "out").exists()


def test_the_library_installs_no_handler(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    wmo_distill.build([trial(tmp_path / "t")], tmp_path / "out")
    assert [signal.getsignal(number) for number in SIGNALS] == before
