"""Kills: every command that writes, ended by SIGKILL right before any call that changes files.

After each a reader sees the old state or the new one, and the same command run again gives, byte
for byte and file for file, what runs give that nothing ended.
"""

import queue
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from tests.torture.attack import LeftOut, Try, times
from tests.torture.commands import Case, cases
from tests.torture.strace import WRITES, Call, Commands, missing
from wmo_distill.outputs.manifest import MANIFEST

T = TypeVar("T")
KIND = "kill at a system call"
TRIES = 1000
WRITES_A_CASE = 30


def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
    if why := missing():
        yield LeftOut(KIND, why)
        return
    with cases(place / "cases") as found:
        yield from in_turn(found, times(TRIES, effort), place, _try)


def in_turn(
    found: Sequence[Case], most: int, place: Path, attempt: Callable[[Commands, int, Case, Call], T]
) -> Iterator[T]:
    """Calls of all cases in turn, two at once.

    Those that are no writes come first: writes are many, and alike.
    """
    with ExitStack() as stack:
        free: queue.SimpleQueue[Commands] = queue.SimpleQueue()
        for n in range(2):
            free.put(stack.enter_context(Commands(place / f"commands-{n}")))
        pool = stack.enter_context(ThreadPoolExecutor(2))

        def with_one(act: Callable[..., Any], *arguments: Any) -> Any:
            commands = free.get()
            try:
                return act(commands, *arguments)
            finally:
                free.put(commands)

        wanted = found[:most]
        for _ in pool.map(lambda case: with_one(lambda one: case.learn(one)), wanted):
            pass
        rows = [[(case, call) for call in _in_order(case)] for case in wanted]
        points = [point for turn in zip_longest(*rows) for point in turn if point][:most]
        yield from pool.map(lambda n: with_one(attempt, n, *points[n]), range(len(points)))


def _in_order(case: Case) -> list[Call]:
    rng = random.Random(case.name)
    writes = [call for call in case.calls if call.name in WRITES]
    others = [call for call in case.calls if call.name not in WRITES]
    rng.shuffle(others)
    return others + rng.sample(writes, min(len(writes), WRITES_A_CASE))


def _try(commands: Commands, number: int, case: Case, call: Call) -> Try:
    out = case.fresh(case.place / f"out-{number}")
    done = commands.killed_at(call, case.to(out))
    whole = done.code == -signal.SIGKILL  # else it was a worker: its trials are `worker_died`
    if whole or not (out / MANIFEST).exists():
        fault = case.reader_fault(out)
    else:
        fault = "; ".join(map(str, case.verify(out)[:2]))
    fault = fault or case.end_fault(commands, out, bytewise=whole)
    if not fault and (done.code not in (-signal.SIGKILL, 0, 1, 4) or "unexpected" in done.said):
        fault = f"exit {done.code}: {done.said[-300:]}"
    shutil.rmtree(out)
    return Try(
        f"{KIND}: {case.name.split()[0]}",
        f"{case.name}: kill at {call.name} {call.nth} ({call.text}): {fault}" if fault else None,
    )
