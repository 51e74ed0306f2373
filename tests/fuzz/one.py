"""One target for so many executions: guided by coverage with atheris, else by chance alone.

    python -m tests.fuzz.one TARGET RUNS SECONDS CORPUS

0 seconds are no limit. What is printed has the form of libFuzzer's. Exits with 77 at a finding,
whose input is then in CORPUS-findings.
"""

import hashlib
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.mutate import mutated

try:
    import atheris
except ImportError:
    atheris = None
FOUND = 77
LONGEST = 200_000
_MEMORY = Path("/dev/shm")


def changed(data: bytes, seeds: list[bytes], rng: random.Random) -> bytes:
    """Another content for the place of an input, or for that of a seed.

    Of places that are covered by the same code, libFuzzer keeps one.
    """
    if rng.random() < 0.3:
        data = rng.choice(seeds)
    place, _, content = data.partition(b"\n")
    return place + b"\n" + mutated(content, rng)


def main(name: str, runs: int, seconds: int, corpus: Path) -> int:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
    findings = corpus.with_name(f"{corpus.name}-findings")
    for made in (corpus, findings):
        made.mkdir(parents=True, exist_ok=True)
    try:
        if atheris is not None:
            _guided(name, runs, seconds, corpus, findings, folder)  # ends the process
        return _unguided(name, runs, seconds, findings, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _guided(name: str, runs: int, seconds: int, corpus: Path, findings: Path, folder: Path) -> None:
    with atheris.instrument_imports(include=["wmo_distill"]):
        from tests.fuzz.targets import TARGETS
    seeds, check = TARGETS[name].begin(folder)
    for data in seeds:
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        return changed(bytes(data), seeds, random.Random(seed))[:max_size]

    options = [
        f"-runs={runs}", f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-len_control=0",
        "-cross_over=0", "-reload=0", "-timeout=60", "-rss_limit_mb=4096",
        f"-artifact_prefix={findings}/", "-print_final_stats=1", str(corpus),
    ]  # fmt: skip
    atheris.Setup([name, *options], lambda data: check(bytes(data)), custom_mutator=mutate)
    atheris.Fuzz()


def _unguided(name: str, runs: int, seconds: int, findings: Path, folder: Path) -> int:
    from tests.fuzz.targets import TARGETS

    seeds, check = TARGETS[name].begin(folder)
    began = time.monotonic()
    rng = random.SystemRandom()  # a finding is kept as it is, so no seed is needed
    done = 0
    while done < runs and not (seconds and time.monotonic() - began > seconds):
        some = min(1000, runs - done)
        data = tried(seeds, check, some, rng)
        if data is not None:
            finding = findings / hashlib.sha1(data).hexdigest()
            finding.write_bytes(data)
            sys.stderr.write(f"Test unit written to {finding}\n")
            return FOUND
        done += some
    speed = done / (time.monotonic() - began)
    sys.stderr.write(f"#{done} DONE cov: 0 ft: 0 corp: {len(seeds)}/0 exec/s: {speed:.0f}\n")
    return 0


def tried(
    seeds: list[bytes], check: Callable[[bytes], None], runs: int, rng: random.Random
) -> bytes | None:
    """The first of so many inputs that breaks an invariant, with what it breaks on stderr."""
    for _ in range(runs):
        data = changed(rng.choice(seeds), seeds, rng)
        try:
            check(data)
        except Exception:
            traceback.print_exc()
            return data
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
