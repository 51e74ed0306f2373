"""Kills: every command that writes, ended by SIGKILL right before any call that changes files.

After each a reader sees the old state or the new one, and the same command run again gives, byte
for byte and file for file, what runs give that nothing ended.
"""

import random
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

from tests.torture.attack import LeftOut, Try, times
from tests.torture.commands import Case, cases
from tests.torture.strace import WRITES, Call, killed_at, missing

KIND = "kill at a system call"
TRIES = 1000
WRITES_A_CASE = 30


def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
    if why := missing():
        yield LeftOut(KIND, why)
        return
    with cases(place / "cases") as all_cases, ThreadPoolExecutor(2) as pool:
        points = points_of(all_cases, times(TRIES, effort))
        outs = (place / f"out-{n}" for n in range(len(points)))
        yield from pool.map(_try, points, outs)


def points_of(all_cases: Sequence[Case], most: int) -> list[tuple[Case, Call]]:
    """Calls of all cases in turn, those that are no writes first: writes are many and alike."""
    rows = [[(case, call) for call in _in_order(case)] for case in all_cases[:most]]
    return [point for turn in zip_longest(*rows) for point in turn if point][:most]


def _in_order(case: Case) -> list[Call]:
    rng = random.Random(case.name)
    writes = [call for call in case.calls if call.name in WRITES]
    others = [call for call in case.calls if call.name not in WRITES]
    rng.shuffle(others)
    return others + rng.sample(writes, min(len(writes), WRITES_A_CASE))


def _try(point: tuple[Case, Call], out: Path) -> Try:
    case, call = point
    done = killed_at(call, case.command(case.fresh(out)))
    kind = f"{KIND}: {case.name.split()[0]}"
    fault = case.reader_fault(out) or case.end_fault(out)
    if fault is None and done.returncode not in (-signal.SIGKILL, 0):
        fault = f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
    return Try(
        kind, fault and f"{case.name}: kill at {call.name} {call.nth} ({call.text}): {fault}"
    )
