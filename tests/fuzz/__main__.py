"""Fuzzes every target, prints a table of what was tried, and exits with 1 at a finding.

python -m tests.fuzz --runs 1000000 --seconds 0 --jobs 2 --corpus DIR [TARGET ...]
"""

import argparse
import math
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.one import atheris
from tests.fuzz.targets import TARGETS

_LINE = "{:16}{:>12}{:>10}{:>10}{:>10}{:>9}{:>9}"
_DONE = re.compile(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)/", re.M)
_FINDING = re.compile(r"Test unit written to (\S+)")


class Tried(NamedTuple):
    """What became of one target."""

    target: str
    runs: int
    seconds: float
    coverage: tuple[int, int, int]
    """Edges of the package's code, features, inputs kept."""
    finding: str | None
    said: str

    def line(self) -> str:
        speed = f"{self.runs / max(self.seconds, 0.001):.0f}"
        return _LINE.format(
            self.target, f"{self.runs:,}", speed, *self.coverage, f"{self.seconds:.0f} s"
        )


def tried(target: str, runs: int, seconds: int, corpus: Path) -> Tried:
    """A target in a process of its own."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.one", target, str(runs), str(seconds)]
    done = subprocess.run(
        [*command, str(corpus / target)], capture_output=True, text=True, errors="replace"
    )
    found = _DONE.findall(done.stderr)
    number, *coverage = map(int, found[-1] if found else (0, 0, 0, 0))
    written = _FINDING.search(done.stderr)
    finding = written[1] if written else None if done.returncode == 0 else "none written"
    one, two, three = coverage
    return Tried(target, number, time.monotonic() - began, (one, two, three), finding, done.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    asked = parser.parse_args()
    chosen = asked.targets or list(TARGETS)
    whole = sum(TARGETS[target].share for target in chosen)
    how = "guided by coverage" if atheris is not None else "by chance: atheris is not installed"
    put(f"{asked.runs:,} executions over {len(chosen)} targets, {how}; corpus in {asked.corpus}")
    put(_LINE.format("target", "executions", "a second", "edges", "features", "inputs", "time"))

    def run(target: str) -> Tried:
        part = TARGETS[target].share / whole
        seconds = asked.seconds and max(1, int(asked.seconds * asked.jobs * part))
        one = tried(target, math.ceil(asked.runs * part), seconds, asked.corpus)
        put(one.line())
        return one

    with ThreadPoolExecutor(asked.jobs) as pool:
        # Those that are slow and few begin first.
        ordered = sorted(chosen, key=lambda target: TARGETS[target].share)
        results = list(pool.map(run, ordered))
    put(f"{sum(one.runs for one in results):,} executions")
    found = [one for one in results if one.finding is not None]
    for one in found:
        put(f"\n{one.target}: {one.finding}\n{_last(one.said)}")
    put(f"{len(found)} findings")
    return 1 if found else 0


def put(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _last(said: str) -> str:
    """The traceback of a finding."""
    begin = said.rfind("Traceback")
    return said[max(begin, 0) :][:4000]


if __name__ == "__main__":
    sys.exit(main())
