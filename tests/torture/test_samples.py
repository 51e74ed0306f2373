"""A few tries of the attacks that `make torture` makes for an hour, and the table of counts."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pipeline.pipeline_trials import make_job
from tests.torture import __main__ as runner
from tests.torture import at_once, hostile_trials, kills, write_faults
from tests.torture.attack import LeftOut, Try, times

Attack = Callable[[float, Path], Iterator[Try | LeftOut]]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(("attack", "most"), [(kills.attack, 2), (write_faults.attack, 1)])
def test_a_call_that_goes_wrong(tmp_path: Path, attack: Attack, most: int) -> None:
    """Of `build`, and of `datums`."""
    tries = list(attack(most / kills.TRIES, tmp_path))
    if isinstance(tries[0], LeftOut):
        pytest.skip(tries[0].why)
    assert [one.fault for one in tries if isinstance(one, Try)] == [None] * most


def test_writers_at_once(tmp_path: Path) -> None:
    tries = list(at_once.writing_tries(tmp_path, 10))
    assert [one.fault for one in tries] == [None] * 10


@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_is_built_while_it_runs(tmp_path: Path, seed: int) -> None:
    job, out = make_job(tmp_path / "job"), tmp_path / "out"
    assert at_once.run_live(job, out, random.Random(seed)) > 5
    assert at_once.differs(out, job, tmp_path / "once") is None


def test_hostile_trials(tmp_path: Path) -> None:
    """Each kind, small."""
    tries = list(hostile_trials.attack(0.002, tmp_path))
    assert len(tries) == len(hostile_trials.HOSTILE)
    assert [one.fault for one in tries if isinstance(one, Try)] == [None] * len(tries)


def test_the_table_and_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "attacks", lambda: {"a": "About a.", "b": "About b."})
    faults = {"a": [None, None], "b": [None, "lost a trial"]}

    def tries(name: str, effort: float) -> Iterator[Try | LeftOut]:
        assert effort == 0.5
        yield from (Try(f"attack {name}", fault) for fault in faults[name])
        yield LeftOut("the rest", "no strace")

    monkeypatch.setattr(runner, "tries", tries)
    assert runner.main(["--minutes", "30", "a"]) == 0
    assert runner.main(["--minutes", "30"]) == 1
    printed = capsys.readouterr()
    assert "attack b      2      1" in printed.out
    assert "all           4      1" in printed.out
    assert "left out: the rest: no strace" in printed.out
    assert "FOUND attack b: lost a trial" in printed.err


def test_an_attack_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "attack", lambda effort, place: 1 / 0)
    (found,) = runner.tries("kills", 1.0)
    assert isinstance(found, Try)
    assert "ZeroDivisionError" in str(found.fault)


def test_the_attacks_are_those_of_the_folder() -> None:
    known = "kills write_faults servers at_once opened flips reading_faults"
    assert set(known.split()) <= set(runner.attacks())
    assert (times(1000, 1.0), times(1000, 0.01), times(1000, 0.0)) == (1000, 10, 1)


def test_a_run_that_is_stopped_prints_what_it_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tries(name: str, effort: float) -> Iterator[Try]:
        yield Try("a try")
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "tries", tries)
    assert runner.main(["kills"]) == 130
    assert "a try       1      0" in capsys.readouterr().out
