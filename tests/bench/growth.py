"""How the time of one trial grows: seconds of CPU for documents of n and of 4 n elements.

`power` is the exponent by which time grew against bytes: 1.0 is in proportion. Only what takes a
second or has a power above 1.3 is worth a look, since small documents are mostly start-up.

python -m tests.bench.growth [--n 2000] [--only WORD]
"""

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.long_captures import DOCUMENTS

LIMIT = 120
"""Seconds after which a document is given up."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--only", default="")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(*_phases(args.one[0], int(args.one[1])))  # noqa: T201
        return
    print("| document | n | bytes | read | datums, stats, verify | MB | power |")  # noqa: T201
    print("| --- | --- | --- | --- | --- | --- | --- |")  # noqa: T201
    for name in DOCUMENTS:
        if args.only in name:
            for line in _rows(name, args.n):
                print(line, flush=True)  # noqa: T201


def _rows(name: str, n: int) -> list[str]:
    lines, before = [], None
    for size in (n, 4 * n):
        command = [sys.executable, "-m", "tests.bench.growth", "--one", name, str(size)]
        try:
            ran = subprocess.run(command, capture_output=True, timeout=LIMIT, text=True)
        except subprocess.TimeoutExpired:
            return [*lines, f"| {name} | {size:,} | | over {LIMIT} s | | | |"]
        if ran.returncode:
            return [*lines, f"| {name} | {size:,} | | {ran.stderr.strip()[-300:]} | | | |"]
        written, read, after, peak = map(float, ran.stdout.split())
        power = ""
        if before is not None:
            grown = math.log((read + after) / (before[1] + before[2]))
            power = f"{grown / math.log(written / before[0]):.2f}"
        before = (written, read, after)
        shown = f"| {name} | {size:,} | {written:,.0f} | {read:.2f} | {after:.2f} | {peak:.0f} "
        lines.append(f"{shown}| {power} |")
    return lines


def _cpu() -> float:
    """Seconds of CPU of this process and of its workers."""
    return sum(os.times()[:4])


def _phases(name: str, n: int) -> tuple[int, float, float, float]:
    """(bytes of the document, seconds of reading, of all that reads the record, peak in MB)."""
    from wmo_distill import build, build_datum_shards, scan, verify
    from wmo_distill.stats.rollout import rollout_stats

    with tempfile.TemporaryDirectory() as folder:
        DOCUMENTS[name](Path(folder) / "in", n)
        size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
        out, sinks = Path(folder) / "out", Path(folder) / "in" / "sinks"
        usual = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = _cpu()
        build([Path(folder) / "in"], out, workers=1, sinks=sinks if sinks.is_dir() else None)
        read = _cpu()
        rollout_stats(scan(out))
        verify(out)
        build_datum_shards(out, Path(folder) / "datums")
        build_datum_shards(out, Path(folder) / "reopened", reopen=True)
        done = _cpu()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size, read - start, done - read, (peak - usual) / 1000


if __name__ == "__main__":
    main()
