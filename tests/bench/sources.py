"""The benchmark of recorders' files: speed and memory next to the owner's loader and plain `json`.

    python -m tests.bench.sources [--mb 1000] [--owners PYTHON] [--owners-mb 100] [--only FILE]
    python -m tests.bench.sources --line 100    records of 100 MB, and what else reads such rows

Each sample is a process of its own. `--owners` is a Python that has the recorders'
packages; without it their rows say so.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.bench import captures

LINE = 10_000_000
"""Bytes of a line of traces."""
ROOT = Path(__file__).parents[2]
MEASURED = """
import os, resource, sys, time
def peak():
    # What the process that started this one took counts in its own ru_maxrss.
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with open("/proc/self/status") as file:
            kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    except OSError:
        pass
    return max(kilobytes, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
began = time.perf_counter()
{}
print(time.perf_counter() - began, sum(os.times()[:4]), peak())
"""
OURS = "from wmo_distill import build\nbuild([sys.argv[1]], sys.argv[1] + '/../out', workers={})"
AGENT = (
    '"agent":{"config":{"model":"m"},"name":"agent","trainable":true,'
    '"runtime":{"id":"r","type":"subprocess"}}'
)
BY_ROW = (
    "import json, sqlite3\n"
    "db = sqlite3.connect(sys.argv[1] + '/{}')\n"
    "for row in db.execute('SELECT {}'):\n"
    "    for text in row: json.loads(text)"
)
BY_LINE = (
    "import json, pathlib\n"
    "for file in pathlib.Path(sys.argv[1]).glob('**/*.json*'):\n"
    "    for line in file.open(): json.loads(line)"
)
TINKER_LISTS = "prompt_tokens, sampled_tokens, logprobs FROM wire_rows"
WRITERS: dict[str, Callable[[Path, int], None]] = {
    "traces.jsonl": lambda place, size: write_traces(place, size, LINE),
    "rollouts.jsonl": captures.write_gym_rows,
    "gateway.db": captures.write_gateway,
    "sample.jsonl": captures.write_tinker_lines,
    "capture.sqlite": captures.write_tinker_store,
    "*.tokens.jsonl": captures.write_gym,
    "results.json": captures.write_openenv,
    "*.events.json": captures.write_events,
}
LONG: dict[str, Callable[[Path, int], None]] = {
    "traces.jsonl": lambda place, line: write_traces(place, line, line),
    "rollouts.jsonl": lambda place, line: captures.write_gym_rows(place, 1, _turns(line // 800)),
    "results.json": lambda place, line: captures.write_openenv(place, 1, _turns(line // 1600)),
    "*.events.json": lambda place, line: captures.write_events(place, 1, _turns(line // 2000)),
    "gateway.db": lambda place, line: captures.write_gateway(place, 1, _pair(line // 24)),
    "sample.jsonl": lambda place, line: captures.write_tinker_lines(place, 1, _pair(line // 8)),
    "capture.sqlite": lambda place, line: captures.write_tinker_store(place, 1, _pair(line // 8)),
    "*.tokens.jsonl": lambda place, line: captures.write_gym(place, 1, _pair(line // 8)),
}
"""With one record of about `line` bytes: a session of 100 turns, or two calls of as much each."""
COMMANDS = ("stats out", "verify out", "show out", "datums out -o datums")
RUN = (
    "import os, subprocess, sys\n"
    "subprocess.run([sys.executable, '-m', 'wmo_distill', *'{}'.split()],"
    " cwd=sys.argv[1] + '/..', check=True, stdout=subprocess.DEVNULL)"
)
OTHERS = {
    "traces.jsonl": {
        "json": BY_LINE,
        "owner's loader": (
            "from verifiers.v1.utils.trace_store import read_episodes\n"
            "from verifiers.v1.trace import WireTrace\n"
            "from pathlib import Path\n"
            "for one in read_episodes(Path(sys.argv[1]), WireTrace): pass"
        ),
    },
    "gateway.db": {
        "json": BY_ROW.format("gateway.db", "data FROM traces"),
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
    "sample.jsonl": {
        "json": BY_LINE,
        "owner's loader": (
            "import json\n"
            "from tinker_cookbook.capture.store import client\n"
            "for line in open(sys.argv[1] + '/capture/sample.jsonl'):\n"
            "    client.wire_rows_from_sample_record(json.loads(line))"
        ),
    },
    "capture.sqlite": {
        "json": BY_ROW.format("capture.sqlite", TINKER_LISTS),
        "owner's loader": (
            "from tinker_cookbook.capture.store.db import CaptureDB\n"
            "store = CaptureDB(sys.argv[1] + '/capture.sqlite')\n"
            "for one in store.list_runs():\n"
            "    cursor = 0\n"
            "    while rows := store.query_rows(one.run_id, cursor=cursor, limit=100):\n"
            "        cursor = rows[-1]['cursor']"
        ),
    },
    "*.tokens.jsonl": {"json": BY_LINE},
    "rollouts.jsonl": {"json": BY_LINE},
    "results.json": {"json": BY_LINE},
    "*.events.json": {"json": BY_LINE},
}
"""By file: what else reads it. NeMo Gym is not on PyPI; OpenEnv and Agent Lightning read none."""


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


def _turns(first: int) -> captures.Shape:
    return captures.Shape(calls=100, first=first)


def _pair(first: int) -> captures.Shape:
    return captures.Shape(calls=2, first=first)


def long_rows(name: str, line: int) -> Iterator[str]:
    """The most memory that commands take for one record of about so many bytes."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "run")
        place.mkdir()
        LONG[name](place, line)
        size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / 1e6
        peaks = []
        for code in (OURS.format(1), *(RUN.format(words) for words in COMMANDS)):
            found = sample(sys.executable, code, place)
            peaks.append(found if isinstance(found, str) else f"{found[2]:,.0f}")
        yield f"| {name}, {size:,.0f} MB | {' | '.join(peaks)} |"


def write_traces(place: Path, size: int, line: int) -> None:
    with (place / "traces.jsonl").open("w") as file:
        file.writelines(traces(size, line))


def sample(python: str, code: str, place: Path) -> tuple[float, float, float] | str:
    """(seconds, of the processor, peak of a process in MB); the error where there is one.

    All but the first run modules that are compiled, as pip leaves them.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT) if "wmo_distill" in code else ""}
    environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(place.parent / "pyc")}
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
    ours = {"build, one worker": OURS.format(1), "build, two workers": OURS.format(2)}
    ways = {**ours, **OTHERS[name]}
    found: dict[str, list[tuple[float, float, float] | str]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, code in ways.items():
            is_owner = way.startswith("owner")
            python = owners if is_owner else sys.executable
            place = places[is_owner]
            found[way].append(sample(python, code, place) if python else "not installed")
            shutil.rmtree(place.parent / "out", ignore_errors=True)
    for way, samples in found.items():
        files = places[way.startswith("owner")].rglob("*")
        size = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
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
    parser.add_argument("--owners")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=WRITERS, action="append")
    parser.add_argument("--line", type=float, help="MB of one record; gives memory alone")
    chosen = parser.parse_args()
    if chosen.line:
        words = [command.split()[0] for command in COMMANDS]
        print(f"| one record, peak MB | build | {' | '.join(words)} |")  # noqa: T201
        print("| --- |" + " ---: |" * (len(words) + 1))  # noqa: T201
        for name in chosen.only or LONG:
            print(*long_rows(name, int(1e6 * chosen.line)), sep="\n", flush=True)  # noqa: T201
        return
    table = ["| file | way | MB/s | MB/s of processor time | peak MB |"]
    table.append("| --- | --- | ---: | ---: | ---: |")
    for name in chosen.only or WRITERS:
        with tempfile.TemporaryDirectory() as folder:
            places = {is_owner: Path(folder, str(is_owner), "run") for is_owner in (False, True)}
            if chosen.owners_mb == chosen.mb:
                places[True] = places[False]
            for is_owner, place in places.items():
                if not place.exists():
                    place.mkdir(parents=True)
                    WRITERS[name](place, int(1e6 * (chosen.owners_mb if is_owner else chosen.mb)))
            table += rows_of(name, places, chosen.rounds, chosen.owners)
    print("\n".join(table))  # noqa: T201


if __name__ == "__main__":
    main()
