"""Storage faults on reading: a call about the trials fails, once or from then on; closed files.

A single fault changes nothing. One that stays is reported, alters no row of an earlier dataset, and
the next build gives what it gives without a fault.
"""

import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.torture.attack import LeftOut, Try, times
from tests.torture.strace import ROOT, missing
from tests.torture.trees import TREES
from wmo_distill import verify
from wmo_distill.pipeline.build import build
from wmo_distill.shards.manifest import read_manifest

KIND = "storage fault on reading"
CLOSED = "closed file"
CALLS = ("openat", "newfstatat", "getdents64", "pread64", "preadv2")
"""What this program asks with on Linux; SQLite too uses `pread64`."""
TRIES, PATHS = 20, 60
"""Numbers of each call, three tries at each; files and directories that are closed."""
PASSING, LASTING = ("EIO", "ESTALE", "EMFILE"), ("EIO", "EACCES", "ESTALE")
NOBODY = 65534
_WITH_OPTIONS = ("sinks", "cells")
Run = subprocess.CompletedProcess[str]


def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
    trials = Trials(place)
    if why := missing():
        yield LeftOut(KIND, why)
    else:
        yield from trials.by_strace(times(TRIES, effort))
    if os.geteuid() == 0 and shutil.which("setpriv"):
        yield from trials.by_permissions(times(PATHS, effort))
    else:
        yield LeftOut(CLOSED, "it takes root and setpriv")


class Trials:
    """Trials of every source, and the dataset of them."""

    def __init__(self, place: Path) -> None:
        self.place, self.tree, self.good = place, place / "tree", place / "good"
        for name, make in TREES.items():
            if name not in _WITH_OPTIONS:
                (self.tree / name).mkdir(parents=True)
                make(self.tree / name)
        build([self.tree], self.good, workers=1)
        self.hash = read_manifest(self.good).dataset_hash

    def by_strace(self, most: int) -> Iterator[Try]:
        """Each call at up to `most` numbers: once, from then on, and so over a dataset."""
        for call in CALLS:
            numbers = list(range(1, self._total(call) + 1))
            random.Random(0).shuffle(numbers)
            for k, number in enumerate(numbers[:most]):
                yield self._once(call, number, PASSING[k % len(PASSING)])
                yield self._lasting(call, number, LASTING[k % len(LASTING)])
                yield self._over_good(call, number, LASTING[k % len(LASTING)])

    def by_permissions(self, most: int) -> Iterator[Try]:
        """Files and directories closed to a user who is not root, and opened again."""
        for path in (self.place, *self.place.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        paths = sorted(self.tree.rglob("*"))
        random.Random(0).shuffle(paths)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"]
        for path in paths[:most]:
            out, mode = self.place / "closed", stat.S_IMODE(path.stat().st_mode)
            path.chmod(0)
            run = self._run([*as_nobody, *self._command(out)])
            path.chmod(mode)
            fault = self._silence(out, run, "EACCES") or self._scar(out)
            yield Try(CLOSED, fault and f"chmod 000 {path.relative_to(self.tree)}: {fault}")

    def _once(self, call: str, number: int, error: str) -> Try:
        out = self.place / "once"
        run = self._injected(out, call, f"error={error}:when={number}")
        is_same = not run.stderr and not run.returncode and self._hash(out) == self.hash
        shutil.rmtree(out, ignore_errors=True)
        return Try(f"{KIND}: once", None if is_same else f"{error}, {call} {number}: {_said(run)}")

    def _lasting(self, call: str, number: int, error: str) -> Try:
        out = self.place / "lasting"
        run = self._injected(out, call, f"error={error}:when={number}+")
        fault = self._silence(out, run, error) or self._scar(out)
        return Try(f"{KIND}: from then on", fault and f"{error}, {call} {number}: {fault}")

    def _over_good(self, call: str, number: int, error: str) -> Try:
        """Where a dataset is there, and all of its trials are due."""
        out = self.place / "over"
        shutil.copytree(self.good, out)
        for file in (path for path in self.tree.rglob("*") if path.is_file()):
            state = file.stat()
            os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))
        run = self._injected(out, call, f"error={error}:when={number}+")
        fault = None if self._hash(out) == self.hash else f"rows altered: {_said(run)}"
        fault = fault or self._scar(out)
        return Try(f"{KIND}: over a dataset", fault and f"{error}, {call} {number}: {fault}")

    def _silence(self, out: Path, run: Run, error: str) -> str | None:
        """What is wrong where the dataset is another one, and nobody said why."""
        told = error in run.stderr or "SQLite" in run.stderr
        return None if told or self._hash(out) == self.hash else f"not reported: {_said(run)}"

    def _scar(self, out: Path) -> str | None:
        """What is left of a fault after the next build."""
        build([self.tree], out, workers=1)
        is_whole = self._hash(out) == self.hash and not verify(out)
        shutil.rmtree(out)
        return None if is_whole else "it lasts"

    def _hash(self, out: Path) -> str | None:
        return read_manifest(out).dataset_hash if (out / "manifest.json").exists() else None

    def _total(self, call: str) -> int:
        """How often a build makes this call about the trials."""
        log, out = self.place / "calls.txt", self.place / "counted"
        self._run([*self._strace(call), "-o", str(log), *self._command(out)])
        shutil.rmtree(out)
        return sum(f" {call}(" in line for line in log.read_text(errors="replace").splitlines())

    def _injected(self, out: Path, call: str, fault: str) -> Run:
        inject = ["-o", os.devnull, "-e", f"inject={call}:{fault}"]
        return self._run([*self._strace(call), *inject, *self._command(out)])

    def _strace(self, call: str) -> list[str]:
        below = [arg for path in self._paths() for arg in ("-P", str(path))]
        return ["strace", "-f", "-qq", "-e", f"trace={call}", *below]

    def _paths(self) -> Iterator[Path]:
        yield self.tree
        for path in self.tree.rglob("*"):
            yield path
            if path.is_dir():  # some that are looked for and are not there
                yield from (path / n for n in ("config.json", "result.json", "agent", "steps"))

    def _command(self, out: Path) -> list[str]:
        paths = [str(self.tree), "-o", str(out), "--workers", "1", "--quiet"]
        return [sys.executable, "-B", "-m", "wmo_distill", "build", *paths]

    def _run(self, command: list[str]) -> Run:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def _said(run: Run) -> str:
    return f"exit {run.returncode}: {run.stderr[-300:]}"
