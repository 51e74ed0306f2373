"""Storage faults on writing: each call that changes files fails, once or from then on.

The command ends with 1 or 2 and a message that names the fault and says truly what is there now;
nothing is lost, and the same command run again gives what it gives without a fault.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.torture.attack import LeftOut, Try, times
from tests.torture.commands import Case, cases
from tests.torture.kills import in_turn
from tests.torture.strace import WRITES, Call, Commands, Done, missing
from wmo_distill.outputs.manifest import MANIFEST

KIND = "storage fault on writing"
TRIES = 400
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)


def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
    if why := missing():
        yield LeftOut(KIND, why)
        return
    with cases(place / "cases") as found:
        # A worker's own calls have the same numbers as others of the main process.
        alone = [case for case in found if "workers" not in case.name]
        yield from in_turn(alone, times(TRIES, effort), place, _try)


def _try(commands: Commands, number: int, case: Case, call: Call) -> Try:
    out = case.fresh(case.place / f"out-{number}")
    code, on = ERRORS[number % len(ERRORS)], number // len(ERRORS) % 2 == 1
    done = commands.failing_at(call, errno.errorcode[code], case.to(out), on=on)
    unheard = on and call.name in WRITES  # the message is written, too
    fault = (
        _untrue(case, out, done, os.strerror(code), unheard=unheard)
        or case.reader_fault(out)
        or case.end_fault(commands, out, bytewise=not case.grows)
    )
    shutil.rmtree(out)
    how = f"{errno.errorcode[code]}{' from then on' if on else ''} at {call.name} {call.nth}"
    kind = f"{KIND}: {case.name.split()[0]}"
    return Try(kind, fault and f"{case.name}: {how} ({call.text}): {fault}")


def _untrue(case: Case, out: Path, done: Done, named: str, *, unheard: bool) -> str | None:
    """What is wrong with how the command ended, held against what it left."""
    said = done.said
    ended = f"exit {done.code}: {said[-300:]}"
    manifest = (out / MANIFEST).read_bytes() if (out / MANIFEST).exists() else None
    before, after = (state.get(MANIFEST) for state in case.states[:2])
    if done.code == 0:
        # What was to be removed is left to the next run.
        return None if manifest == after else f"{ended} though not all was written"
    if done.code not in (1, 2) or "unexpected" in said or said.count("\n"):
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
