"""The benchmark: every way over every corpus, interleaved, each sample a process of its own.

    python -m tests.bench.run [--scale 0.1] [--rounds 5] [--reference PYTHON] [--keep DIR]

Prints medians and their ratio to the reference as Markdown. `--reference` is a Python that has
world-model-optimizer 0.2.0; without it those columns are empty.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench.corpus import Shape, write_corpus

ROOT = Path(__file__).parents[2]
READERS = Path(__file__).with_name("readers.py")

READ = {
    "10 turns": Shape(trials=40, turns=10),
    "30 turns": Shape(trials=6, turns=30),
    "100 turns": Shape(trials=4, turns=100),
    "nothing shared": Shape(trials=10, turns=10, history="nothing"),
    "history edited": Shape(trials=6, turns=30, history="edited"),
}
READ_WAYS = (
    "ours", "ours_without_simdjson", "reference", "json", "orjson", "msgspec", "simdjson", "cat",
)  # fmt: skip
BUILD = {
    "many of 2 MB": Shape(trials=2000, turns=10),
    "40 turns, 46 MB each": Shape(trials=128, turns=40, observed=1400, sampled=400),
    "one of 300 MB": Shape(turns=114, observed=1100, sampled=250),
}
BUILD_WAYS = ("build1", "build2", "reference", "reference_full", "harbor_export", "cat")
DATUMS = {
    "10 turns": Shape(trials=400, turns=10),
    "10 turns, a quarter of the trials": Shape(trials=100, turns=10),
    "40 turns": Shape(trials=24, turns=40, observed=1400, sampled=400),
}
DATUM_WAYS = ("datums_memory", "datums_parquet", "reference_datums")
PEERS = ("reference", "reference_full", "harbor_export", "reference_datums")
Samples = dict[str, list[dict[str, Any]]]


def measure(
    places: Mapping[str, Path], corpus: Path, rounds: int, reference: str | None
) -> Samples:
    """`rounds` samples of each way, in turn, after one of `cat` that warms the page cache."""
    samples: Samples = defaultdict(list)
    sample("cat", corpus, reference)
    for _ in range(rounds):
        for way, place in places.items():
            result = sample(way, place, reference)
            if result is not None:
                samples[way].append(result)
    return samples


def sample(way: str, corpus: Path, reference: str | None) -> dict[str, Any] | None:
    """One process; None where what it needs is not installed."""
    python = reference if way in PEERS else sys.executable
    if python is None:
        return None
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if way in PEERS:
        environment.pop("PYTHONPATH")
    done = subprocess.run(
        [python, str(READERS), way, str(corpus)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr:
            return None
        raise RuntimeError(f"{way} over {corpus}: {done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def median(samples: Samples, way: str, key: str = "seconds") -> float | None:
    values = [s[key] for s in samples.get(way, ()) if key in s]
    return statistics.median(values) if values else None


def ratio(samples: Samples, way: str, to: str) -> float | None:
    """The median of the ratios within each round, so that a slow minute counts for both."""
    pairs = zip(samples.get(to, ()), samples.get(way, ()), strict=False)
    values = [slow["seconds"] / fast["seconds"] for slow, fast in pairs]
    return statistics.median(values) if values else None


def text(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def read_table(found: dict[str, Samples]) -> list[str]:
    lines = ["| read and validate | " + " | ".join(found) + " |", "| --- |" + " --- |" * len(found)]
    for way in READ_WAYS:
        cells = []
        for samples in found.values():
            seconds = median(samples, way)
            speed = samples[way][0]["bytes"] / seconds / 1e6 if seconds else None
            against = text(ratio(samples, way, "reference"), "{:.1f}x")
            peak = text(median(samples, way, "peak_kb"), "{:,.0f} kB")
            cells.append(f"{text(speed, '{:,.0f} MB/s')}, {against}, {peak}")
        lines.append(f"| {way.replace('_', ' ')} | " + " | ".join(cells) + " |")
    return lines


def build_table(found: dict[str, Samples]) -> list[str]:
    lines = [
        "| build to Parquet | seconds | against the reference's spans | against all of it "
        "| against harbor's export | 2 workers to 1 "
        "| share of cat | peak memory | bytes a token | JSON / Parquet |",
        "| --- |" + " --- |" * 9,
    ]
    for name, samples in found.items():
        one = samples["build1"][0]
        raw = samples["cat"][0]["bytes"]
        cells = [
            text(median(samples, "build1"), "{:.2f}"),
            text(ratio(samples, "build1", "reference"), "{:.1f}x"),
            text(ratio(samples, "build1", "reference_full"), "{:.1f}x"),
            text(ratio(samples, "build1", "harbor_export"), "{:.1f}x"),
            text(ratio(samples, "build2", "build1"), "{:.2f}x"),
            text(ratio(samples, "build1", "cat"), "{:.0%}"),
            text(median(samples, "build1", "peak_kb"), "{:,.0f} kB"),
            f"{one['stored'] / one['tokens']:.2f}",
            f"{raw / one['stored']:.0f}",
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def datum_table(found: dict[str, Samples]) -> list[str]:
    lines = [
        "| shards to sequences | tokens | in memory | against the reference's builder "
        "| to Parquet | of one core | peak memory |",
        "| --- |" + " --- |" * 6,
    ]
    for name, samples in found.items():
        tokens = samples["datums_memory"][0]["tokens"]

        def speed(way: str, key: str = "seconds", samples: Samples = samples) -> str:
            seconds = median(samples, way, key)
            return text(tokens / seconds / 1e6 if seconds else None, "{:.1f} M/s")  # noqa: B023

        cells = [
            f"{tokens:,}",
            speed("datums_memory"),
            text(ratio(samples, "datums_memory", "reference_datums"), "{:.1f}x"),
            speed("datums_parquet"),
            speed("datums_parquet", "cpu"),
            text(median(samples, "datums_parquet", "peak_kb"), "{:,.0f} kB"),
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def shards_of(corpus: Path) -> Path:
    """The corpus as shards, made once."""
    from wmo_distill import build

    out = corpus / "shards"
    if not out.exists():
        build([corpus / "job"], out, workers=1)
    return out


def machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            s.split(":")[1].strip() for s in info.read_text().splitlines() if "model name" in s
        ]
        cpu = names[0] if names else cpu
    return f"{os.cpu_count()} cores, {cpu}, Python {platform.python_version()}"


def reference_python(python: str | None) -> str:
    if python is None:
        return "skipped, no --reference PYTHON (3.12 or newer)"
    return subprocess.run([python, "--version"], capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0, help="share of the trials")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reference", default=os.environ.get("REFERENCE_PYTHON"))
    parser.add_argument("--keep", type=Path, help="where the corpora are made and kept")
    parser.add_argument("--only", choices=["read", "build", "datums"])
    args = parser.parse_args()
    print(f"{machine()}; medians of {args.rounds} interleaved runs\n")  # noqa: T201
    print(f"reference: {reference_python(args.reference)}\n")  # noqa: T201
    with tempfile.TemporaryDirectory() as scratch:
        base = args.keep or Path(scratch)
        for kind, shapes, ways, table in (
            ("read", READ, READ_WAYS, read_table),
            ("build", BUILD, BUILD_WAYS, build_table),
            ("datums", DATUMS, DATUM_WAYS, datum_table),
        ):
            if args.only not in (None, kind):
                continue
            found = {}
            for number, (name, shape) in enumerate(shapes.items()):
                trials = max(1, round(shape.trials * args.scale))
                corpus = base / f"{kind}-{number}-{trials}"
                if not corpus.exists():
                    write_corpus(corpus, replace(shape, trials=trials))
                places = dict.fromkeys(ways, corpus / "job")
                if kind == "datums":
                    places |= dict.fromkeys(DATUM_WAYS[:2], shards_of(corpus))
                found[name] = measure(places, corpus / "job", args.rounds, args.reference)
            print("\n".join(table(found)) + "\n", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
