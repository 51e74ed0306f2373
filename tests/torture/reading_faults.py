"""Reading faults by `strace`, and closed files: `python -m tests.torture.reading_faults`.

Each run is a build in a process of its own. The system call that is answered with an error is one
of those that touch the trials; how many there are, a run without faults tells.
"""

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.trees import TREES
from wmo_distill import verify
from wmo_distill.pipeline.build import build
from wmo_distill.shards.manifest import read_manifest

CALLS = ("openat", "newfstatat", "getdents64", "pread64", "preadv2")
"""What this program asks with on Linux; SQLite uses `pread64` and `read`."""
PASSING, LASTING = ("EIO", "ESTALE", "EMFILE"), ("EIO", "EACCES", "ESTALE")
NOBODY = 65534
_WITH_OPTIONS = ("sinks", "cells")


@dataclass
class Torture:
    """A directory of every source's trials, the dataset of them, and what happened to others."""

    place: Path
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tree, self.good = self.place / "tree", self.place / "good"
        for name, make in TREES.items():
            if name not in _WITH_OPTIONS:
                (self.tree / name).mkdir(parents=True)
                make(self.tree / name)
        build([self.tree], self.good, workers=1)
        self.hash = read_manifest(self.good).dataset_hash

    def command(self, out: Path) -> list[str]:
        paths = [str(self.tree), "-o", str(out), "--workers", "1", "--quiet"]
        return [sys.executable, "-B", "-m", "wmo_distill", "build", *paths]

    def by_strace(self, sample: int) -> None:
        """Single and lasting errors of each call, at up to `sample` numbers each."""
        for call in CALLS:
            total = self._total(call)
            self.counts[f"calls of {call}"] = total
            step = max(1, total // sample)
            for k, number in enumerate(range(1, total + 1, step)):
                self._once(call, number, PASSING[k % len(PASSING)])
                self._from(call, number, LASTING[k % len(LASTING)])
                self._over_good(call, number, LASTING[k % len(LASTING)])

    def by_permissions(self, sample: int) -> None:
        """Files and directories closed to a user who is not root, and opened again."""
        self._give(self.place)
        paths = sorted(self.tree.rglob("*"))
        for path in paths[:: max(1, len(paths) // sample)]:
            mode = stat.S_IMODE(path.stat().st_mode)
            out = self.place / "closed"
            path.chmod(0)
            run = self._run(["setpriv", f"--reuid={NOBODY}", "--clear-groups", *self.command(out)])
            path.chmod(mode)
            relative = path.relative_to(self.tree).as_posix()
            told = "EACCES" in run.stderr
            if not told and self._hash(out) != self.hash:
                self.wrong.append(f"chmod 000 {relative}: silent: {run.returncode} {run.stderr}")
            self._heals(out, f"chmod 000 {relative}")
            self.counts["closed"] += 1
            self.counts["closed, reported"] += told

    def _give(self, place: Path) -> None:
        for path in (place, *place.rglob("*")):
            os.chown(path, NOBODY, NOBODY)

    def _once(self, call: str, number: int, error: str) -> None:
        out = self.place / "once"
        run = self._injected(out, call, f"error={error}:when={number}")
        if run.stderr or run.returncode or self._hash(out) != self.hash:
            self.wrong.append(f"one {error} of {call} {number}: {run.returncode} {run.stderr}")
        self.counts["single"] += 1
        shutil.rmtree(out, ignore_errors=True)

    def _from(self, call: str, number: int, error: str) -> None:
        """From the n-th call on none is answered."""
        out, what = self.place / "from", f"{error} of {call} from {number}"
        run = self._injected(out, call, f"error={error}:when={number}+")
        if self._hash(out) != self.hash and error not in run.stderr and "SQLite" not in run.stderr:
            self.wrong.append(f"{what}: silent: {run.returncode} {run.stderr}")
        self.counts["lasting"] += 1
        self.counts["lasting, reported"] += bool(run.stderr)
        self._heals(out, what)

    def _over_good(self, call: str, number: int, error: str) -> None:
        """The same where a dataset is there and all of its trials are due."""
        out, what = self.place / "over", f"{error} of {call} from {number}, over a dataset"
        shutil.copytree(self.good, out)
        for file in (path for path in self.tree.rglob("*") if path.is_file()):
            state = file.stat()
            os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))
        run = self._injected(out, call, f"error={error}:when={number}+")
        if self._hash(out) != self.hash:
            self.wrong.append(f"{what}: another dataset: {run.returncode} {run.stderr}")
        self.counts["lasting over a dataset"] += 1
        self._heals(out, what)

    def _heals(self, out: Path, what: str) -> None:
        build([self.tree], out, workers=1)
        if self._hash(out) != self.hash or verify(out):
            self.wrong.append(f"{what}: lasts")
            self.counts["that last"] += 1
        shutil.rmtree(out)

    def _hash(self, out: Path) -> str | None:
        return read_manifest(out).dataset_hash if (out / "manifest.json").exists() else None

    def _total(self, call: str) -> int:
        log = self.place / "calls.txt"
        out = self.place / "counted"
        self._run([*self._strace(call), "-o", str(log), *self.command(out)])
        shutil.rmtree(out)
        return sum(f" {call}(" in line for line in log.read_text(errors="replace").splitlines())

    def _injected(self, out: Path, call: str, fault: str) -> "subprocess.CompletedProcess[str]":
        log = ["-o", os.devnull, "-e", f"inject={call}:{fault}"]
        return self._run([*self._strace(call), *log, *self.command(out)])

    def _strace(self, call: str) -> list[str]:
        below = [arg for path in self._paths() for arg in ("-P", str(path))]
        return ["strace", "-f", "-qq", "-e", f"trace={call}", *below]

    def _paths(self) -> Iterator[Path]:
        yield self.tree
        for path in self.tree.rglob("*"):
            yield path
            if path.is_dir():  # some that are looked for and are not there
                yield from (path / n for n in ("config.json", "result.json", "agent", "steps"))

    def _run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, capture_output=True, text=True, cwd=Path.cwd(), check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description="Read faults of every kind into builds.")
    parser.add_argument("--sample", type=int, default=12, help="numbers of each system call")
    sample = parser.parse_args().sample
    with tempfile.TemporaryDirectory() as place:
        torture = Torture(Path(place))
        left_out = []
        if shutil.which("strace"):
            torture.by_strace(sample)
        else:
            left_out.append("strace is not there: no error of a system call")
        if os.geteuid() == 0 and shutil.which("setpriv"):
            torture.by_permissions(4 * sample)
        else:
            left_out.append("not root, or no setpriv: no closed file")
    counts = {**torture.counts, "wrong": len(torture.wrong)}
    print(json.dumps({"reading": counts, "left_out": left_out}, indent=2))  # noqa: T201
    for line in torture.wrong:
        print(line, file=sys.stderr)  # noqa: T201
    return bool(torture.wrong)


if __name__ == "__main__":
    sys.exit(main())
