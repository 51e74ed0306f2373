"""Ctrl-C and SIGTERM end a run soon, whatever it waits for, and what was scored is kept."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.proof.lm import LanguageModel
from tests.proof.server import Served, serve
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.http import Endpoint, VllmScorer
from wmo_distill.scorers.run import score_datums

TEACHER = LanguageModel(seed=5)
ANSWERED = 5
# A name look-up cannot be cancelled: it holds its thread for as long as the resolver takes.
SLOW_NAMES = """
import socket, sys, time
from wmo_distill.__main__ import main
def look_up(*args, **kwargs):
    print("looks up", flush=True)
    time.sleep(600.0)
socket.getaddrinfo = look_up
main()
"""


class Waiting:
    """What a server does that answers the first five requests, and says when a sixth came."""

    def __init__(self, how: str) -> None:
        self.how, self.waits = how, threading.Event()

    def __call__(self, number: int, ids: list[int]) -> str | None:
        if number <= ANSWERED:
            return None
        self.waits.set()
        return self.how


@contextmanager
def command(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """A process that is gone at the end, whatever a test finds."""
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def scoring(server: Served, datums: Path, cache: Path) -> list[object]:
    return ["-m", "wmo_distill", "score", datums, "-c", cache, "--scorer", "vllm", "--url",
        server.url, "--model", "t", "--concurrency", 1]  # fmt: skip


@pytest.mark.parametrize("how", ["stall", "busy", "drip"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_scored_is_kept(
    datums: Path, tmp_path: Path, how: str, number: signal.Signals
) -> None:
    waiting = Waiting(how)
    with serve(TEACHER, waiting) as server:
        with command(*scoring(server, datums, tmp_path / "c")) as run:
            assert waiting.waits.wait(300.0)
            run.send_signal(number)
            out, said = run.communicate(timeout=300.0)
        assert run.returncode == 128 + number
        assert out == ""
        assert said == (
            f"wmo-distill: stopped by {number.name}: "
            f"{tmp_path / 'c'} holds 5 scores; the same command goes on\n"
        )
    assert len(ScoreCache(tmp_path / "c")) == ANSWERED


def test_a_check_keeps_what_it_stores(datums: Path, tmp_path: Path) -> None:
    waiting = Waiting("stall")
    with serve(TEACHER, waiting) as server:
        asked = ["-m", "wmo_distill", "check-logprobs", datums, "--url", server.url, "--model", "t"]
        with command(*asked, "--store", tmp_path / "c", "--concurrency", 1) as run:
            assert waiting.waits.wait(300.0)
            run.send_signal(signal.SIGINT)
            _, said = run.communicate(timeout=300.0)
    assert run.returncode == 130
    assert said == (
        f"wmo-distill: stopped by SIGINT: the scores so far are kept in {tmp_path / 'c'}\n"
    )
    assert len(ScoreCache(tmp_path / "c")) == ANSWERED


def test_a_name_look_up_that_hangs_does_not_hold_the_exit(datums: Path, tmp_path: Path) -> None:
    names = Served("http://name.invalid")
    with command("-c", SLOW_NAMES, *scoring(names, datums, tmp_path / "c")[2:]) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "looks up\n"
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=300.0)
    assert run.returncode == 143
    assert "stopped" in said


def test_an_interrupt_of_the_library_leaves_no_call_behind(datums: Path, tmp_path: Path) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def fault(number: int, ids: list[int]) -> str | None:
        if number <= ANSWERED:
            return None
        signal.pthread_kill(main, signal.SIGINT)
        return "busy"

    before = set(threading.enumerate())
    with serve(TEACHER, fault) as server:
        scorer = VllmScorer(Endpoint(server.url), "t")
        with pytest.raises(KeyboardInterrupt):
            score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t", concurrency=1)
        assert len(server.requests) == ANSWERED + 1
    for thread in set(threading.enumerate()) - before:
        thread.join(30.0)
        assert not thread.is_alive()
    assert len(ScoreCache(tmp_path / "c")) == ANSWERED
