"""Rules of the engines: outcomes in order, the same from each, and a death costs one item."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pipeline_datasets import SMALL
from pipeline_tasks import (
    kill_at_three,
    late_first,
    noisy,
    panic,
    raise_unpicklable,
    slow_or_square,
    square,
)
from pipeline_trials import make_job

from wmo_distill.engines.local import InProcess, Workers, usable_cores
from wmo_distill.engines.outcome import Died, Done, Engine, Failed
from wmo_distill.pipeline.build import build_with
from wmo_distill.trial import read_found

TESTS = Path(__file__).parent


@pytest.mark.parametrize("engine", [InProcess(), Workers(1), Workers(2)])
def test_outcomes_are_the_same_and_in_order(engine: Engine) -> None:
    outcomes = list(engine.map(square, [3, -1, 2, 5]))
    assert outcomes[0] == Done(9)
    assert outcomes[2:] == [Done(4), Done(25)]
    failed = outcomes[1]
    assert isinstance(failed, Failed)
    assert str(failed.error) == "negative: -1"


def test_no_items() -> None:
    assert list(Workers(2).map(square, [])) == []


def test_a_later_item_that_ends_first_still_comes_later() -> None:
    outcomes = list(Workers(2).map(late_first, range(4)))
    assert [o.value[0] for o in outcomes if isinstance(o, Done)] == [0, 1, 2, 3]
    pids = {o.value[1] for o in outcomes if isinstance(o, Done)}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_a_death_costs_its_item_alone() -> None:
    outcomes = list(Workers(2).map(kill_at_three, range(6)))
    assert outcomes == [Done(0), Done(1), Done(2), Died(-signal.SIGKILL), Done(4), Done(5)]


def test_prints_do_not_fall_among_the_answers() -> None:
    assert list(Workers(1).map(noisy, [1, 2])) == [Done(1), Done(2)]


def test_an_error_that_cannot_be_pickled_is_reported() -> None:
    (outcome,) = Workers(1).map(raise_unpicklable, [1])
    assert isinstance(outcome, Failed)
    assert "two arguments" in str(outcome.error)


@pytest.mark.parametrize("engine", [InProcess(), Workers(1)])
def test_a_panic_of_a_library_is_an_error(engine: Engine) -> None:
    for outcome in engine.map(panic, [3, 4]):
        assert isinstance(outcome, Failed)
        assert "out of range" in str(outcome.error)


def test_ending_early_ends_the_workers(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    outcomes = Workers(2).map(slow_or_square, [4, str(pid_file)])
    assert next(outcomes) == Done(16)
    wait_for(pid_file)
    outcomes.close()  # type: ignore[attr-defined]
    assert not alive(int(pid_file.read_text()))


def test_no_worker_outlives_a_killed_parent(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "from pipeline_tasks import slow; from wmo_distill.engines.local import Workers; "
        f"list(Workers(1).map(slow, [{str(pid_file)!r}]))"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    parent = subprocess.Popen([sys.executable, "-c", code], env=env)
    wait_for(pid_file)
    parent.kill()
    parent.wait()
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 300
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


def test_the_main_module_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from pipeline_tasks import square\n"
        "from wmo_distill.engines.local import Workers\n"
        "print([o.value for o in Workers(2).map(square, [1, 2])])\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert done.stdout == "[1, 4]\n", done.stderr


def test_usable_cores() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 300
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < deadline, f"{file} was not written"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


class Backwards:
    """An engine of the caller's own: items in reverse order, outcomes in order."""

    apart = False

    def engine(self, items: int, input_bytes: int, *, apart: bool = False) -> "Backwards":
        return self

    def map(self, task: Any, items: Sequence[Any]) -> Iterator[Any]:
        yield from reversed([Done(task(item)) for item in reversed(items)])


def test_an_engine_of_the_caller_gives_the_same_bytes(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", *(f"t{k}" for k in range(7)))
    for name, engines in (("own", Backwards()), ("local", None)):
        build_with(read_found, [job], tmp_path / name, engines=engines, workers=1, limits=SMALL)
    parts = [sorted((tmp_path / name / "parts").iterdir()) for name in ("own", "local")]
    assert len(parts[0]) > 2
    assert [p.read_bytes() for p in parts[0]] == [p.read_bytes() for p in parts[1]]
