"""`make torture`: all attacks one after the other, one table of counts, exit 1 on any finding."""

import argparse
import importlib
import pkgutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tests.torture
from tests.torture.attack import LeftOut, Try
from wmo_distill.cli.output import put, say
from wmo_distill.report.tables import table
from wmo_distill.visible import visible

MINUTES = 60.0


def attacks() -> dict[str, str]:
    """The modules of this folder that can attack, and what each does."""
    modules = [m.name for m in pkgutil.iter_modules(tests.torture.__path__)]
    found = {}
    for name in modules:
        if name != "__main__":
            module = importlib.import_module(f"tests.torture.{name}")
            if hasattr(module, "attack"):
                found[name] = (module.__doc__ or "").splitlines()[0]
    return found


def tries(name: str, effort: float) -> Iterator[Try | LeftOut]:
    """Those of one attack; that it fails itself is a finding."""
    module = importlib.import_module(f"tests.torture.{name}")
    with tempfile.TemporaryDirectory(prefix=f"torture-{name}-") as place:
        try:
            yield from module.attack(effort, Path(place))
        except Exception:
            yield Try(name, f"the attack failed: {traceback.format_exc()}")


def main(arguments: list[str] | None = None) -> int:
    known = attacks()
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="about, on two cores")
    parser.add_argument("names", nargs="*", metavar="ATTACK", help=f"of {', '.join(known)}")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(known):
        parser.error(f"expected attacks of {', '.join(known)}, found {', '.join(unknown)}")
    done: Counter[str] = Counter()
    found: Counter[str] = Counter()
    left_out: list[LeftOut] = []
    stopped = False
    try:
        for name in given.names or known:
            began = time.monotonic()
            say(f"{name}: {known[name]}")
            for one in tries(name, given.minutes / MINUTES):
                if isinstance(one, LeftOut):
                    left_out.append(one)
                    continue
                done[one.kind] += 1
                found[one.kind] += one.fault is not None
                if one.fault is not None:
                    say(f"FOUND {one.kind}: {visible(one.fault)}")
            say(f"{name}: {time.monotonic() - began:.0f} s")
    except KeyboardInterrupt:
        stopped = True
    rows = [[kind, f"{n:,}", f"{found[kind]:,}"] for kind, n in done.items()]
    rows.append(["all", f"{done.total():,}", f"{found.total():,}"])
    put(table(rows, head=["attack", "tries", "found"]))
    for one in left_out:
        put(f"left out: {one.kind}: {one.why}")
    if stopped:
        put("stopped before the end")
        return 128 + signal.SIGINT
    return 1 if found.total() else 0


if __name__ == "__main__":
    sys.exit(main())
