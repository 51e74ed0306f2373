"""The benchmark of recorders' files: speed and memory next to the owner's loader and plain `json`.

    python -m tests.bench.sources [--mb 1000] [--line-mb 10] [--owners PYTHON] [--owners-mb 100]

Each sample is a process of its own. `--owners` is a Python that has verifiers and
rllm-model-gateway; without it those rows are left out.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[2]
MEASURED = """
import os, resource, sys, time
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
{}
print(time.perf_counter() - began, time.process_time(), peak())
"""
OURS = "from wmo_distill import build\nbuild([sys.argv[1]], sys.argv[1] + '/../out', workers=1)"
AGENT = (
    '"agent":{"config":{"model":"m"},"name":"agent","trainable":true,'
    '"runtime":{"id":"r","type":"subprocess"}}'
)
WAYS = {
    "traces.jsonl": {
        "build, one worker": OURS,
        "json, line by line": (
            "import json\nfor line in open(sys.argv[1] + '/traces.jsonl'): json.loads(line)"
        ),
        "owner's loader": (
            "from verifiers.v1.utils.trace_store import read_episodes\n"
            "from verifiers.v1.trace import WireTrace\n"
            "from pathlib import Path\n"
            "for one in read_episodes(Path(sys.argv[1]), WireTrace): pass"
        ),
    },
    "gateway.db": {
        "build, one worker": OURS,
        "json, row by row": (
            "import json, sqlite3\n"
            "db = sqlite3.connect(sys.argv[1] + '/gateway.db')\n"
            "for (data,) in db.execute('SELECT data FROM traces'): json.loads(data)"
        ),
        "owner's loader": (
            "import asyncio\n"
            "from rllm_model_gateway.store.sqlite_store import SqliteTraceStore\n"
            "async def read():\n"
            "    store = SqliteTraceStore(sys.argv[1] + '/gateway.db')\n"
            "    for one in await store.list_sessions():\n"
            "        await store.get_session_traces(one['session_id'])\n"
            "    await store.close()\n"
            "asyncio.run(read())"
        ),
    },
}


def traces(size: int, line: int) -> Iterator[str]:
    """Lines of about `line` bytes, as verifiers 0.4 writes them."""
    random, written, number = Random(1), 0, 0
    while written < size:
        nodes: list[str] = []
        while sum(map(len, nodes)) < line:
            sampled, n = bool(len(nodes) % 2), 1500
            node: dict[str, Any] = {
                "message": {"role": "assistant" if sampled else "user", "content": "word " * n},
                "sampled": sampled,
                "token_ids": [random.randrange(150_000) for _ in range(n)],
                "mask": [sampled] * n,
                "is_content": [True] * n,
                "timestamp": 1.0,
            }
            if sampled:
                node["logprobs"] = [round(-random.random(), 4) for _ in range(n)]
            if nodes:
                node["parent"] = len(nodes) - 1
            nodes.append(json.dumps(node, separators=(",", ":")))
        head = f'"id":"{number:032x}","version":1,"ok":true,"errors":[],"calls":[],{AGENT}'
        task = f'"task":{{"type":"T","data":{{"idx":{number}}}}}'
        yield (
            f'{{"id":"e{number}",{task},"ok":true,"errors":[],'
            f'"traces":[{{{head},{task},"nodes":[{",".join(nodes)}]}}]}}\n'
        )
        written, number = written + sum(map(len, nodes)), number + 1


def write_traces(place: Path, size: int, line: int) -> None:
    with (place / "traces.jsonl").open("w") as file:
        file.writelines(traces(size, line))


def write_store(place: Path, size: int) -> None:
    """Sessions of 30 calls; each trace repeats prompt and messages, as the gateway stores them."""
    random, written, number = Random(1), 0, 0

    def ids(n: int) -> list[int]:
        return [random.randrange(150_000) for _ in range(n)]

    with closing(sqlite3.connect(place / "gateway.db")) as db:
        db.execute("CREATE TABLE traces(trace_id TEXT PRIMARY KEY, data TEXT, created_at REAL)")
        db.execute("CREATE TABLE trace_sessions(trace_id TEXT, session_id TEXT, created_at REAL)")
        while written < size:
            prompt, messages = ids(2000), [{"role": "user", "content": "word " * 2000}]
            session = f"task{number // 120}:{number // 30 % 4}"
            for _ in range(30):
                answer, logprobs = ids(300), [-random.random() for _ in range(300)]
                said = {"role": "assistant", "content": "word " * 300}
                request = {"messages": messages, "temperature": 1.0}
                content = [{"logprob": x} for x in logprobs]
                choice = {"token_ids": answer, "logprobs": {"content": content}, "message": said}
                data = json.dumps(
                    {
                        "trace_id": f"{number:032x}", "session_id": session, "model": "m",
                        "messages": messages, "prompt_token_ids": prompt, "metadata": {},
                        "response_message": said, "completion_token_ids": answer,
                        "logprobs": logprobs, "finish_reason": "stop", "latency_ms": 1.0,
                        "token_counts": {}, "timestamp": 1.7e9 + number, "raw_request": request,
                        "raw_response": {"choices": [choice], "prompt_token_ids": prompt},
                    }
                )  # fmt: skip
                db.execute("INSERT INTO traces VALUES (?, ?, 1)", (f"{number:032x}", data))
                row = f"{number:032x}", session
                db.execute("INSERT INTO trace_sessions VALUES (?, ?, 1)", row)
                written, number = written + len(data), number + 1
                prompt = prompt + answer + ids(500)
                messages = [*messages, said, {"role": "user", "content": "word " * 500}]
            db.commit()


def sample(python: str, code: str, place: Path) -> tuple[float, float, float] | str:
    """(seconds, of which of the processor, peak in MB); the error where there is one."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT) if "wmo_distill" in code else ""}
    done = subprocess.run(
        [python, "-c", MEASURED.format(code), str(place)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2]
    seconds, cpu, kilobytes = map(float, done.stdout.split()[-3:])
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return seconds, cpu, kilobytes / unit


def rows_of(name: str, places: dict[bool, Path], rounds: int, owners: str | None) -> Iterator[str]:
    """The medians of interleaved samples; what failed with its error."""
    found: dict[str, list[tuple[float, float, float] | str]] = {way: [] for way in WAYS[name]}
    for _ in range(rounds):
        for way, code in WAYS[name].items():
            is_owner = way.startswith("owner")
            python = owners if is_owner else sys.executable
            place = places[is_owner]
            found[way].append(sample(python, code, place) if python else "not installed")
            shutil.rmtree(place.parent / "out", ignore_errors=True)
    for way, samples in found.items():
        size = (places[way.startswith("owner")] / name).stat().st_size / 1e6
        sound = [one for one in samples if not isinstance(one, str)]
        if not sound:
            yield f"| {name} | {way} | {samples[0]} | | |"
            continue
        wall, cpu, peak = map(statistics.median, zip(*sound, strict=True))
        yield (
            f"| {name}, {size:,.0f} MB | {way} | {size / wall:,.0f} | {size / cpu:,.0f} "
            f"| {peak:,.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=float, default=1000)
    parser.add_argument("--owners-mb", type=float, default=100)  # they hold all of a file
    parser.add_argument("--line-mb", type=float, default=10)
    parser.add_argument("--owners")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    table = ["| file | way | MB/s | MB/s of processor time | peak MB |"]
    table.append("| --- | --- | ---: | ---: | ---: |")
    for name in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            places = {is_owner: Path(folder, str(is_owner), "run") for is_owner in (False, True)}
            for is_owner, place in places.items():
                place.mkdir(parents=True)
                size = int(1e6 * (chosen.owners_mb if is_owner else chosen.mb))
                if name == "traces.jsonl":
                    write_traces(place, size, int(chosen.line_mb * 1e6))
                else:
                    write_store(place, size)
            table += rows_of(name, places, chosen.rounds, chosen.owners)
    print("\n".join(table))  # noqa: T201


if __name__ == "__main__":
    main()
