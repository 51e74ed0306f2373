"""At once: writers of one directory, readers during builds, jobs that are read while they run.

One writer gets the directory and the others are refused with a plain message; a reader sees one
dataset or the other; and what many builds made of a job that was running is what one build makes of
it once it has ended.
"""

import json
import multiprocessing
import random
import shutil
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tests.outputs.works import VERIFY, WORKS
from tests.pipeline.pipeline_trials import make_job, make_trial, result, touch
from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from tests.torture.attack import Try, times
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.outputs.manifest import MANIFEST, STAGING
from wmo_distill.pipeline.build import build
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.scan import iter_records, scan
from wmo_distill.shards.verify import verify

WRITERS = 3
TRIES = 600
PLANS = (
    ("build", "build", "build"),
    ("datums", "datums", "datums"),
    ("score", "score", "score"),
    ("build", "datums", "export"),
    ("datums", "export", "score"),
)
REFUSALS = ("found one at work", "other files", "expected the manifest of", "of another command")
_barrier: Barrier


def attack(effort: float, place: Path) -> Iterator[Try]:
    most = times(TRIES, effort)
    yield from writing_tries(place, most)
    yield from _readers(place, most)
    yield from _live_jobs(place, times(TRIES // 10, effort))


def writing_tries(place: Path, most: int) -> Iterator[Try]:
    """Three writers of one directory, new or old: of one command, or of several."""
    make_job(place / "job", *(f"t{i}" for i in range(4)))
    rng = np.random.default_rng(5)
    records = [record(chat(LanguageModel(), rng), n) for n in range(4)]
    build_datum_shards(dataset(place / "shards", records), place / "datums")
    spawn = multiprocessing.get_context("spawn")
    start = (spawn.Barrier(WRITERS),)
    with ProcessPoolExecutor(WRITERS, spawn, _begin, start) as pool:
        for n in range(most):
            kinds = PLANS[n % len(PLANS)]
            new = n // len(PLANS) % 2 == 0
            out = place / f"out-{n // len(PLANS) // 2}-{n % len(PLANS)}"
            said = list(pool.map(write, kinds, [str(place)] * WRITERS, [str(out)] * WRITERS))
            if fault := _fault(out, kinds, said):
                fault = f"{', '.join(kinds)} in {'a new' if new else 'an old'} directory: {fault}"
            yield Try("writers at once", fault or None)


def _begin(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def write(kind: str, source: str, out: str) -> str:
    """Write a directory, beginning with the others; "" or what the command would say."""
    _barrier.wait(600.0)
    try:
        if kind == "build":
            build([Path(source) / "job"], out, workers=1)
        elif kind == "vain":
            build([Path(source) / "job"], out, workers=1, cells=Path(source) / "none.json")
        else:
            WORKS[kind](Path(source), Path(out))
    except DistillError as error:
        return f"{error.exit_code}: {error}"
    except Exception as error:
        return f"1: unexpected {type(error).__name__}: {error}"
    return ""


def _fault(out: Path, kinds: tuple[str, ...], said: list[str]) -> str:
    wrong = [text for text in said if text and not _is_refusal(text)]
    if wrong:
        return "; ".join(wrong)
    if not (out / MANIFEST).exists():
        return f"nobody wrote: {said}"
    checks = {"build": verify, **VERIFY}
    ends = [f"{kind}: {error}" for kind, error in _verified(out, {k: checks[k] for k in kinds})]
    strays = [p.name for p in out.rglob(".*") if p.name.startswith(STAGING) or ".tmp" in p.name]
    if len(ends) == len(set(kinds)):
        return f"no command knows what is there: {ends}"
    return f"left: {strays}" if strays else ""


def _is_refusal(text: str) -> bool:
    return text.startswith("2: ") and any(words in text for words in REFUSALS)


def _verified(out: Path, checks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """For each kind that the directory is not, or not whole, what is wrong."""
    for kind, check in checks.items():
        try:
            if faults := check(out):
                yield kind, str(faults[0])
        except UsageError as error:
            yield kind, str(error)


def _readers(place: Path, most: int) -> Iterator[Try]:
    """Readers while one build after the other replaces what they read."""
    job, out = make_job(place / "read-job", *(f"t{i}" for i in range(5))), place / "read"
    build([job], out, workers=1)
    stop = threading.Event()
    failed: list[str] = []
    builder = threading.Thread(target=_rebuild, args=(job, out, stop, failed))
    builder.start()
    try:
        for n in range(most):
            yield Try("reader during builds", _read(out, n))
    finally:
        stop.set()
        builder.join()
    failed += map(str, verify(out))
    yield Try("reader during builds", f"of the builds: {failed[0]}" if failed else None)


def _rebuild(job: Path, out: Path, stop: threading.Event, failed: list[str]) -> None:
    """Builds until the readers are done; one that is kept out by a reader has failed."""
    n = 0
    while not stop.is_set():
        touch(job / f"t{n % 5}" / "result.json")
        try:
            build([job], out, workers=1)
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}")
        n += 1


def _read(out: Path, n: int) -> str | None:
    """Five trials, whichever dataset it is; a reader whose parts were replaced opens it again."""
    for _ in range(20):
        before = (out / MANIFEST).read_bytes()
        try:
            if n % 3 == 0:
                found = [fault for fault in verify(out) if "manifest names" not in str(fault)]
                return f"verify: {found[0]}" if found else None
            names = (
                scan(out).select("trial_name").collect()["trial_name"].to_list()
                if n % 3 == 1
                else [one.trial_name for one in iter_records(out)]
            )
            return None if sorted(names) == [f"t{i}" for i in range(5)] else f"rows {names}"
        except Exception as error:
            if (out / MANIFEST).read_bytes() == before:
                return f"{type(error).__name__}: {error}"
    return None


def _live_jobs(place: Path, most: int) -> Iterator[Try]:
    for n in range(most):
        rng = random.Random(n)
        job, out = make_job(place / "live" / f"job-{n}"), place / "live" / f"out-{n}"
        try:
            builds = run_live(job, out, rng)
            fault = None if builds else "no build"
            fault = fault or differs(out, job, place / "live" / f"once-{n}")
        except DistillError as error:
            fault = str(error)
        yield Try("job that is built while it runs", fault and f"seed {n}: {fault}")
        shutil.rmtree(place / "live")


def run_live(job: Path, out: Path, rng: random.Random) -> int:
    """Trials of a job appear, grow, are retried and removed; a build every few steps."""
    builds = 0
    running: dict[str, list[bytes]] = {}
    for step in range(60):
        name = f"t{rng.randrange(6)}"
        trial = job / name
        if running.get(name):
            with (trial / "result.json").open("ab") as file:
                file.write(running[name].pop(0))
        elif name in running and rng.random() < 0.1:  # a retry begins in the same directory
            shutil.rmtree(trial)
            del running[name]
        elif name not in running:
            (trial / "agent").mkdir(parents=True)
            text = json.dumps(result(name, finished_at=f"2026-01-01T00:{step:02}:00Z")).encode()
            cuts = sorted(rng.randrange(len(text)) for _ in range(3))
            running[name] = [text[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
            config = {"trial_name": name, "task": {"path": name}}
            (trial / "config.json").write_text(json.dumps(config))
        if rng.random() < 0.3:
            build([job], out, workers=1)
            builds += 1
    for name in running:  # the job comes to its end
        make_trial(job / name)
    build([job], out, workers=1)
    return builds


def differs(out: Path, job: Path, once: Path) -> str | None:
    """How a dataset differs from one fresh build."""
    build([job], once, workers=1)
    if faults := verify(out):
        return str(faults[0])
    found, wanted = read_manifest(out), read_manifest(once)
    totals = found.totals.model_copy(update={"removed": 0})  # by the last build
    if found.dataset_hash != wanted.dataset_hash or totals != wanted.totals:
        return f"other rows than of one build: {found.totals} {wanted.totals}"
    ledgers = [pq.read_table(p / "ledger.parquet").drop(["part"]) for p in (out, once)]
    if ledgers[0].sort_by("path") != ledgers[1].sort_by("path"):
        return "another ledger than of one build"
    return None
