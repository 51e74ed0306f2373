"""Storage faults on writing: each call that changes files fails, once or from then on.

The command ends with 1 or 2 and a message that names the fault and says truly what is there now;
nothing is lost, and the same command run again gives what it gives without a fault.
"""

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.torture.attack import LeftOut, Try, times
from tests.torture.commands import Case, cases
from tests.torture.kills import points_of
from tests.torture.strace import WRITES, Call, Done, failing_at, missing
from wmo_distill.outputs.manifest import MANIFEST

KIND = "storage fault on writing"
TRIES = 400
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)


def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
    if why := missing():
        yield LeftOut(KIND, why)
        return
    with cases(place / "cases") as found, ThreadPoolExecutor(2) as pool:
        # A worker's own calls have the same numbers as others of the main process.
        alone = [case for case in found if "workers" not in case.name]
        points = points_of(alone, times(TRIES, effort))
        yield from pool.map(lambda n: _try(*points[n], n, place / f"out-{n}"), range(len(points)))


def _try(case: Case, call: Call, number: int, out: Path) -> Try:
    code, on = ERRORS[number % len(ERRORS)], number // len(ERRORS) % 2 == 1
    done = failing_at(call, errno.errorcode[code], case.command(case.fresh(out)), on=on)
    unheard = on and call.name in WRITES  # the message is written, too
    fault = (
        _untrue(case, out, done, os.strerror(code), unheard=unheard)
        or case.reader_fault(out)
        or case.end_fault(out)
    )
    how = f"{errno.errorcode[code]}{' from then on' if on else ''} at {call.name} {call.nth}"
    kind = f"{KIND}: {case.name.split()[0]}"
    return Try(kind, fault and f"{case.name}: {how} ({call.text}): {fault}")


def _untrue(case: Case, out: Path, done: Done, named: str, *, unheard: bool) -> str | None:
    """What is wrong with how the command ended, held against what it left."""
    said = done.stderr.strip()
    ended = f"exit {done.returncode}: {said[-300:]}"
    manifest = (out / MANIFEST).read_bytes() if (out / MANIFEST).exists() else None
    before, after = (state.get(MANIFEST) for state in case.states[:2])
    if done.returncode == 0:
        return None if manifest == after and not said else f"{ended} though not all was written"
    if done.returncode not in (1, 2) or "unexpected" in said or said.count("\n"):
        return ended
    if unheard and not said:
        return None
    if named not in said:
        return f"{ended}: expected {named}"
    claims = {
        "left as it was": manifest == before,
        "holds what was committed": manifest == after or case.grows,
        "holds a commit that is not finished": any(out.glob(f".staging-*/{MANIFEST}")),
        "cannot be read now": True,
        "expected a directory": manifest == before,
    }
    made = [truth for claim, truth in claims.items() if claim in said]
    return None if made == [True] else f"{ended}: not what is there"
