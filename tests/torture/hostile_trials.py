"""Hostile trials: files that would take all memory or time, each next to a sound trial of its job.

Sizes grow with the effort, and with 1.0 are beyond what a machine holds. The sound trial keeps its
row, the hostile one has its own or a reason, and the build stays below its memory and time.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.torture.attack import LeftOut, Try
from tests.torture.strace import ROOT

KIND = "hostile trial"
MOST_MEMORY = 2_500_000_000
MOST_SECONDS = 300
SOUND = ROOT / "fixtures" / "trials" / "01-solved" / "jobs"
Write = Callable[[Path, int], None]


def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
    """Each kind with a size that is a share of its largest."""
    for name, (write, most) in HOSTILE.items():
        folder = place / name.replace(" ", "-")
        try:
            yield Try(KIND, _fault(name, write, max(1, round(most * min(1.0, effort))), folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _fault(name: str, write: Write, size: int, folder: Path) -> str | None:
    shutil.copytree(SOUND, folder / "jobs")
    (sound,) = (folder / "jobs").glob("*/*/result.json")
    hostile = sound.parent.parent / "hostile__Ab3dEfG"
    shutil.copytree(sound.parent, hostile)
    write(hostile / "result.json", size)
    command = [sys.executable, "-m", "wmo_distill", "build", folder / "jobs", "-o", folder / "out"]
    limits = (resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    done = subprocess.Popen(
        [*map(str, command), "--workers", "1", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(*limits),
    )
    assert done.stdout is not None
    said = done.stdout.read()
    _, status, used = os.wait4(done.pid, 0)
    done.returncode = os.waitstatus_to_exitcode(status)
    seen = f"{name}, size {size:,}"
    if done.returncode != 0:
        return f"{seen}: exit {done.returncode}"
    account = json.loads(said)
    if account["found"] != 2 or account["written"] + sum(account["skipped"].values()) != 2:
        return f"{seen}: not two trials in the account"
    if account["written"] < 1 or not account["tokens"]["output"]:
        return f"{seen}: the sound trial has no row"
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return f"{seen}: {peak:,} bytes of memory" if peak > MOST_MEMORY else None


def _sparse(path: Path, size: int) -> None:
    with open(path, "r+b") as file:
        file.truncate(size)


def _string(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        file.write(b'{"trial_name": "t", "id": "x", "note": "')
        for _ in range(size >> 20):
            file.write(b"y" * (1 << 20))
        file.write(b'"}')


def _changed(change: Callable[[dict[str, Any], int], None]) -> Write:
    def write(path: Path, size: int) -> None:
        value = json.loads(path.read_text())
        value["id"] = "0" * 32
        change(value, size)
        path.write_text(json.dumps(value))

    return write


def _entries(value: dict[str, Any], n: int) -> None:
    chat = {"prompt_token_ids": [[1, 2]], "completion_token_ids": [[3]], "logprobs": [[-0.1]]}
    value["agent_result"]["rollout_details"] = [chat] * n


def _calls(value: dict[str, Any], n: int) -> None:
    value["agent_result"]["rollout_details"] = [
        {
            "prompt_token_ids": [[k, 2] for k in range(n)],
            "completion_token_ids": [[]] * n,
            "logprobs": [[]] * n,
        }
    ]


def _steps(value: dict[str, Any], n: int) -> None:
    value["step_results"] = [{"step_name": f"s{k}", "agent_result": None} for k in range(n)]


def _deep(path: Path, n: int) -> None:
    """More than a parser nests."""
    nested = "[" * n + "]" * n
    path.write_text(path.read_text().replace("{", f'{{"deep": {nested}, ', 1))


def _id(value: dict[str, Any], n: int) -> None:
    """Text on which the search for credentials could go back and forth."""
    value["id"] = "=" + "?" * n


HOSTILE: dict[str, tuple[Write, int]] = {
    "a sparse file": (_sparse, 50_000_000_000),
    "one long string": (_string, 2_000_000_000),
    "many chats": (_changed(_entries), 30_000),
    "many empty calls": (_changed(_calls), 100_000),
    "many steps": (_changed(_steps), 20_000),
    "deep nesting": (_deep, 10_000_000),
    "an id without an end": (_changed(_id), 1_000_000),
}
"""Each with its largest size, in bytes or in elements."""
