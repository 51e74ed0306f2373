"""Mutants: every recorded file damaged in turn, many runs in one build; sound ones next to them.

No damage ends a build, takes a trial without a ledger row, a call without a reason or a row from
a trial that is sound; the next build reads nothing again, and each build gives what any other way
to build the same files gives.
"""

import argparse
import hashlib
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.fuzz.seeds import ANSWERS, FIXTURES
from tests.torture.attack import Try, times
from tests.torture.mutations import AWAY, changes
from wmo_distill import build, verify
from wmo_distill.cli.output import put, say
from wmo_distill.issues import Issue
from wmo_distill.pipeline.summary import Summary
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.visible import visible

KIND = "mutant"
LINES = ("traces.jsonl", "results.jsonl")
"""Files in which every line is a trial."""
ROUNDS = 700
"""Each changes a third of the files of most runs: a file is changed some 200 times."""
_SOUND = 0.15
"""Share of the runs that a round leaves as they are."""
_WORKERS = 20
"""Every so many rounds the same is built with more workers."""
_ANY = (-1e308, 1e308)


def attack(effort: float, place: Path) -> Iterator[Try]:
    banks = [*sorted((FIXTURES / "recorders").iterdir()), FIXTURES / "trials"]
    runs = Campaign(banks, place)
    for number in range(times(ROUNDS, effort)):
        yield from runs.round(number)


@dataclass
class Run:
    """One recorded run, its files by their places in the tree, and what a round did to them."""

    folder: Path
    files: dict[Path, bytes]
    changed: dict[Path, str] = field(default_factory=dict)
    times: dict[Path, int] = field(default_factory=dict)

    def change(self, rng: random.Random) -> None:
        paths = list(self.files)
        for path in rng.sample(paths, -(-len(paths) // 3)):
            data = self.files[path]
            if not data or rng.random() < 0.1:
                away = rng.choice(list(AWAY.values()))
                away(path, [p for p in paths if p.parent == path.parent and p != path])
                self.changed[path] = away.__name__
            elif path.is_file():
                change = rng.choice(changes(data))
                path.write_bytes(change(data, rng))
                self.changed[path] = change.__name__

    def restore(self) -> None:
        """Every file as it was, its time too."""
        if any(change in AWAY for change in self.changed.values()):
            shutil.rmtree(self.folder, ignore_errors=True)
            for path in self.files:
                if path.is_symlink() or path.exists():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            self.changed = dict.fromkeys(self.files, "")
        for path in self.changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.files[path])
            at = self.times.setdefault(path, path.stat().st_mtime_ns)
            os.utime(path, ns=(at, at))
        self.changed = {}


@dataclass(frozen=True)
class Dataset:
    """What a build said and wrote; `rows` are digests of the values of each row."""

    ledger: dict[str, tuple[Any, ...]]
    rows: dict[str, list[str]]
    calls: int
    dropped: int
    """Calls that the issues of the rows count."""

    @staticmethod
    def of(out: Path) -> "Dataset":
        ledger = {
            row["path"]: (row["outcome"], tuple(row["reasons"]), row["trial_id"], row["bytes"],
                          row["mtime_ns"], row["records"])
            for row in pq.read_table(out / "ledger.parquet").to_pylist()
        }  # fmt: skip
        rows: dict[str, list[str]] = {}
        calls = dropped = 0
        for part in sorted((out / "parts").iterdir()):
            for row in pq.read_table(part).to_pylist():
                digest = hashlib.sha256(repr(row).encode("utf-8", "surrogatepass")).hexdigest()
                rows.setdefault(row["artifact_dir"], []).append(digest)
                calls += len(row["spans"])
                dropped += sum(Issue(code).drops_call for code in row["issues"])
        return Dataset(ledger, rows, calls, dropped)

    def of_run(self, name: str) -> dict[str, tuple[Any, ...]]:
        return {
            path: (*row, tuple(self.rows.get(path, ())))
            for path, row in self.ledger.items()
            if path.split("/")[1] == name
        }


class Campaign:
    """Runs of banks side by side in one tree, and the dataset of them as they are."""

    def __init__(self, banks: Iterable[Path], place: Path) -> None:
        self.place, self.tree, self.good = place, place / "tree", place / "good"
        self.sinks = place / "sinks"
        self.sinks.mkdir()
        sources = (path for bank in banks for path in sorted(bank.iterdir()) if path.is_dir())
        self.runs = {run.folder.name: run for run in map(self._copied, sources)}
        self.done: Counter[str] = Counter()
        """Mutants by what was done to them, and runs that left no row at all."""
        self._build(self.good)
        self.sound = Dataset.of(self.good)
        self.shared = self._shared()

    def _copied(self, source: Path) -> Run:
        """The files of a run in the tree; sinks and their trial get a name of their own."""
        run = Run(self.tree / f"{source.parent.name}-{source.name}", {})
        for path in sorted(p for p in source.rglob("*") if p.is_file() and not p.is_symlink()):
            name = path.relative_to(source).as_posix().replace("trial__a", f"trial__{source.name}")
            inner = name.removeprefix("sinks/")
            to = run.folder / name if inner == name else self.sinks / inner
            if path.name not in ANSWERS:
                run.files[to] = path.read_bytes()
        run.changed = dict.fromkeys(run.files, "")
        run.restore()
        return run

    def _shared(self) -> set[str]:
        """Runs with an id that another run has too: which gets its row depends on both."""
        owners: dict[str, set[str]] = {}
        for path, row in self.sound.ledger.items():
            owners.setdefault(row[2] or path, set()).add(path.split("/")[1])
        return {run for runs in owners.values() if len(runs) > 1 for run in runs}

    def round(self, number: int) -> Iterator[Try]:
        """A try for each mutant, one with the fault of their build."""
        try:
            for name, run in self.runs.items():
                rng = random.Random(f"{number} {name}")
                if rng.random() >= _SOUND:
                    run.change(rng)
            faults = list(self._faults(number))
        except Exception as error:
            faults = [f"{type(error).__name__}: {error}"]
        mutants = [how for run in self.runs.values() for how in run.changed.values()]
        self.done.update(mutants)
        yield from [Try(KIND)] * max(0, len(mutants) - len(faults))
        yield from (Try(KIND, f"round {number}: {fault}") for fault in faults)
        for run in self.runs.values():
            run.restore()

    def _faults(self, number: int) -> Iterator[str]:
        out, names = self.place / "out", self._names()
        shutil.rmtree(out, ignore_errors=True)
        summary = self._build(out)
        found = Dataset.of(out)
        yield from _account(summary, found)
        yield from map(str, verify(out))
        if self._names() != names:
            yield f"files came or went: {self._names() ^ names}"
        yield from self._of_runs(found, summary)
        manifest = read_manifest(out)
        again = self._build(out)
        if again.read > again.unread or read_manifest(out) != manifest:
            yield f"a second build read {again.read} trials"
        yield from self._grown(found, manifest.dataset_hash)
        for workers in (2, 4) if number % _WORKERS == 0 else ():
            yield from self._differs(out, workers)

    def _of_runs(self, found: Dataset, summary: Summary) -> Iterator[str]:
        """Sound runs have their rows, and every line of a run of `verifiers` has one."""
        for name, run in self.runs.items():
            rows, wanted = found.of_run(name), self.sound.of_run(name)
            if not run.changed:
                if rows != wanted and name not in self.shared:
                    yield f"{name} is sound, and has other rows: {_first(rows, wanted)}"
                continue
            if wanted and not rows and not _said(name, summary):
                self.done[f"no row at all: {name} {sorted(run.changed.values())}"] += 1
            for path, how in run.changed.items():
                if path.name in LINES and path.is_file() and not path.is_symlink() and rows:
                    lines = [
                        line for line in path.read_bytes().split(b"\n") if line.strip(b" \t\r")
                    ]
                    mark = f"{path.relative_to(self.place).as_posix()}#"
                    ours = sum(row.startswith(mark) for row in rows)
                    if ours < len(lines):
                        yield f"{mark} {how}: {len(lines)} lines, {ours} rows of the ledger"

    def _grown(self, found: Dataset, digest: str) -> Iterator[str]:
        """A dataset of the sound files, brought up to date, is that of one build."""
        out = self.place / "grown"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.good, out)
        again = self._build(out)
        grown = Dataset.of(out)
        if read_manifest(out).dataset_hash != digest or grown.ledger != found.ledger:
            for name, run in self.runs.items():
                one, other = grown.of_run(name), found.of_run(name)
                done = {p.relative_to(self.place).as_posix(): h for p, h in run.changed.items()}
                # What cannot be read keeps its rows; a job's own files are in no state.
                excepted = _said(name, again) or any(p.parts[-3] == "jobs" for p in run.changed)
                if one != other and not excepted:
                    yield f"{name}, {done}: grown, it has other rows: {_first(one, other)}"
        yield from map(str, verify(out))

    def _differs(self, out: Path, workers: int) -> Iterator[str]:
        other = self.place / f"workers-{workers}"
        shutil.rmtree(other, ignore_errors=True)
        self._build(other, workers)
        for file in sorted(path.relative_to(out) for path in out.rglob("*.parquet")):
            same = (other / file).is_file()
            if not same or (out / file).read_bytes() != (other / file).read_bytes():
                yield f"{workers} workers: another {file}"

    def _build(self, out: Path, workers: int = 1) -> Summary:
        options = {"workers": workers, "reward_range": _ANY, "sinks": self.sinks}
        return build([self.tree], out, **options)

    def _names(self) -> set[str]:
        return {path.relative_to(self.tree).as_posix() for path in self.tree.rglob("*")}


def _account(summary: Summary, found: Dataset) -> Iterator[str]:
    """Trials and calls balance, in the summary and in the rows."""
    if summary.found != len(found.ledger) != summary.written + sum(summary.skipped.values()):
        yield f"found {summary.found}, ledger {len(found.ledger)}"
    if summary.written != sum(row[0] == "written" for row in found.ledger.values()):
        yield f"written {summary.written}, not as the ledger says"
    if summary.calls_found != found.calls + found.dropped:
        yield f"calls found {summary.calls_found}, in rows {found.calls} + {found.dropped}"
    if summary.calls_found != summary.calls + sum(summary.calls_dropped.values()):
        yield "calls do not balance"


def _said(run: str, summary: Summary) -> bool:
    """Whether the build says that something of a run could not be read."""
    return any(f"{path}/".split("/")[1] == run for path in summary.errors)


def _first(rows: dict[str, Any], wanted: dict[str, Any]) -> str:
    for path in sorted(rows.keys() | wanted.keys()):
        if rows.get(path) != wanted.get(path):
            return f"{path}: {rows.get(path)}, expected {wanted.get(path)}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.mutants", description=__doc__)
    parser.add_argument("banks", nargs="+", type=Path, help="directories of recorded runs")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--place", type=Path, required=True, help="an empty directory")
    given = parser.parse_args()
    campaign = Campaign(given.banks, given.place)
    tries = faults = 0
    try:
        for number in range(given.first, given.first + given.rounds):
            for one in campaign.round(number):
                tries, faults = tries + 1, faults + (one.fault is not None)
                if one.fault is not None:
                    say(f"FOUND {visible(one.fault)}")
            if number % 10 == 9:
                say(f"round {number}: {tries:,} mutants, {faults} findings")
    finally:  # also where it is interrupted
        for what, count in campaign.done.most_common():
            put(f"{count:8,}  {visible(what)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
