"""Looking at a large dataset: seconds, and the peak of memory, of a process of its own.

python -m tests.bench.look [--episodes 100000] [--turns 10]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wmo_distill.outputs.stored import footer_sha256
from wmo_distill.shards.manifest import DATASET, LedgerInfo, LedgerTotals, Manifest, PartInfo
from wmo_distill.shards.schema import COLUMNS, PARTS_DIR, SCHEMA, SPAN
from wmo_distill.shards.writer import parquet_writer

PROMPT, SAMPLED = 20, 10
"""Ids that each prompt adds, and that each call samples."""
_GROUP = 3_000
_PART = 30_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(*_measured(args.one[0], Path(args.one[1])))  # noqa: T201
        return
    size = f"{args.episodes:,} episodes of {args.turns} turns"
    print(f"| {size} | s | MB |")  # noqa: T201
    print("| --- | --- | --- |")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        out = write_dataset(Path(folder), args.episodes, args.turns)
        for name in LOOKS:
            command = [sys.executable, "-m", "tests.bench.look", "--one", name, str(out)]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, peak = map(float, ran.stdout.split())
            print(f"| {name} | {seconds:.1f} | {peak:.0f} |", flush=True)  # noqa: T201


def _stats(out: Path) -> None:
    from wmo_distill.stats.rollout import dataset_stats

    dataset_stats(out)


def _stats_where(out: Path) -> None:
    from wmo_distill.stats.rollout import dataset_stats

    dataset_stats(out, by=("task_id",), where="reward < 1 AND n_calls > 2")


def _report(out: Path) -> None:
    from wmo_distill.page.write import write_report

    write_report(out, out / "report.html")


LOOKS = {"stats": _stats, "stats --by --where": _stats_where, "report": _report}


def _measured(name: str, out: Path) -> tuple[float, float]:
    start = time.perf_counter()
    LOOKS[name](out)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return time.perf_counter() - start, peak / 1000


def write_dataset(out: Path, episodes: int, turns: int, seed: int = 0) -> Path:
    """A dataset of so many clean chats, straight from arrays: eight attempts a task."""
    (out / PARTS_DIR).mkdir()
    random = np.random.default_rng(seed)
    parts = []
    for first in range(0, episodes, _PART):
        path = out / PARTS_DIR / f"part-{len(parts):05d}.parquet"
        rows = range(first, min(first + _PART, episodes))
        with parquet_writer(path) as writer:
            for at in range(rows.start, rows.stop, _GROUP):
                names = np.arange(at, min(at + _GROUP, rows.stop))
                writer.write_table(_table(names, turns, random), row_group_size=_GROUP)
        parts.append(
            PartInfo(
                file=f"{PARTS_DIR}/{path.name}",
                rows=len(rows),
                tokens=len(rows) * turns * (PROMPT + SAMPLED),
                bytes=path.stat().st_size,
                sha256="",
                footer=footer_sha256(path),
                row_sum="0" * 64,
            )
        )
    calls = episodes * turns
    manifest = Manifest(
        parent="/",
        inputs=[],
        options={},
        parts=parts,
        ledger=LedgerInfo(rows=episodes, bytes=0, sha256=""),
        totals=LedgerTotals(
            records=episodes, calls=calls, found=episodes, written=episodes, calls_found=calls
        ),
        dataset_hash="",
    )
    DATASET.write(out, manifest)
    return out


def _table(names: Any, turns: int, random: np.random.Generator) -> pa.Table:
    rows, calls = names.size, names.size * turns
    turn = np.tile(np.arange(turns, dtype=np.int32), rows)
    logprobs = -random.exponential(0.3, calls * SAMPLED)
    ids = (random.integers(0, 150_000, calls * n, np.int32) for n in (PROMPT, SAMPLED))
    spans = {
        "segment": pa.array(np.zeros(calls, np.int32)),
        "call_index": pa.array(turn),
        "prefix_len": pa.array(turn * np.int32(PROMPT + SAMPLED)),
        "prompt_suffix": _lists(next(ids), PROMPT),
        "sampled_token_ids": _lists(
            random.integers(0, 150_000, calls * SAMPLED, np.int32), SAMPLED
        ),
        "sampled_logprobs": _lists(logprobs, SAMPLED),
    }
    structs = pa.StructArray.from_arrays(
        [spans[f.name].cast(f.type) if f.name in spans else pa.nulls(calls, f.type) for f in SPAN],
        fields=list(SPAN),
    )
    passed = random.random(rows) < 0.4
    total = turns * (PROMPT + SAMPLED)
    texts = [f"task-{n // 8:06d}__{n:08d}" for n in names.tolist()]
    values: dict[str, Any] = {
        "spans": _lists(structs, turns),
        "segments": [[{"kind": "main", "trainable": True}]] * rows,
        **dict.fromkeys(("episode_id", "trial_id", "trial_name", "artifact_dir"), texts),
        "format": ["harbor"] * rows,
        "task_id": [text[:11] for text in texts],
        "group_id": [f"{n // 8:016x}" for n in names.tolist()],
        "agent_name": ["terminus-2"] * rows,
        "model_name": ["qwen3-30b-a3b"] * rows,
        "policy_version": [str(n % 7) for n in names.tolist()],
        "policy_versions": [[str(n % 7)] for n in names.tolist()],
        "reward": passed.astype(float),
        "rewards": [[{"name": "reward", "value": float(one)}] for one in passed],
        "passed": passed,
        "reward_valid": [True] * rows,
        "infra_failed": [False] * rows,
        "logprob_mode": ["raw"] * rows,
        "span_source": ["result"] * rows,
        "stop_reason": ["submitted"] * rows,
        "completion": ["confirmed"] * rows,
        "agent_seconds": random.exponential(300, rows),
        "n_calls": np.full(rows, turns),
        "fragments": np.ones(rows, int),
        "output_tokens": np.full(rows, turns * SAMPLED),
        "total_tokens": np.full(rows, total),
        "input_tokens": np.full(rows, total - turns * SAMPLED),
        "prompt_tokens": np.full(rows, total * (turns + 1) // 2),
        "expansion": np.ones(rows),
    }
    empty: dict[pa.DataType, Any] = {pa.string(): "silent", pa.int64(): 0}
    arrays = []
    for c in COLUMNS:
        if c.name in values:
            arrays.append(pa.array(values[c.name]).cast(c.type))
        elif c.nullable:
            arrays.append(pa.nulls(rows, c.type))
        else:
            arrays.append(pa.array([empty.get(c.type, [])] * rows, c.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _lists(values: Any, size: int) -> pa.ListArray:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.ListArray.from_arrays(np.arange(0, len(array) + 1, size, dtype=np.int32), array)


if __name__ == "__main__":
    main()
