"""What a build opens: nothing outside the PATHs, OUT and the options' files, and no socket.

For every source, as it was recorded and with each of its names and references pointing outside;
with links, names that SQLite would take for an address, and a folder full of what they point to.
"""

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.torture.attack import LeftOut, Try
from tests.torture.strace import ROOT, missing, traced

TRIALS = ("01-solved", "11e-multistep-step-timeout", "06b-summarize-reactive-context-error")
NAMES = re.compile(r"name|ref|path|file|dir|id$|uri|url|source|session|rollout|run")
REFERENCES = ("{outside}/secret", "../../../outside/secret", "file:{outside}/secret.db?mode=rwc")
SYSTEM = ("/dev/", "/proc/", "/sys/", "/etc/", "/lib", "/usr/")


class World:
    """PATHs, sinks and cells in `place`, and next to them what no build may open."""

    def __init__(self, place: Path, *, every: int = 1) -> None:
        """With every so-manieth run of each recorder."""
        place = place.resolve()
        self.place, self.outside = place, place / "outside"
        self.jobs, self.sinks, self.cells = (place / n for n in ("jobs", "sinks", "cells.json"))
        self.temporary = place / "temporary"
        for directory in (self.sinks, self.temporary):
            directory.mkdir(parents=True)
        for recorder in sorted((ROOT / "fixtures/recorders").iterdir()):
            for run in sorted(recorder.iterdir())[::every]:
                shutil.copytree(run, self.jobs / "recorders" / recorder.name / run.name)
        for trial in TRIALS:
            shutil.copytree(ROOT / "fixtures/trials" / trial, self.jobs / trial)
        self._databases()
        for number, reference in enumerate(REFERENCES):
            self._referring(number, reference.format(outside=self.outside))
        self._fill_outside()
        self._link()

    def arguments(self, *more: str) -> list[str]:
        out = self.place / "out"
        return ["build", str(self.jobs), "-o", str(out), "--sinks", str(self.sinks), *more]

    def _databases(self) -> None:
        """Names that are an address, or end as one, where they are taken for one."""
        for file in sorted(self.jobs.rglob("*.db")):
            for number, name in enumerate(("a?mode=rwc&x=.db", "b#c.db", "%2e%2e%2foutside.db")):
                there = self.jobs / "databases" / f"{file.parent.name}-{number}"
                shutil.copytree(file.parent, there)
                (there / file.name).rename(there / name)

    def _referring(self, number: int, reference: str) -> None:
        """Every file once more, with each name and reference in it replaced."""
        copies = self.jobs / f"referring-{number}"
        for folder in ("recorders", *TRIALS):
            shutil.copytree(self.jobs / folder, copies / folder)
        for file in sorted(copies.rglob("*.json*")):
            text = file.read_text(errors="surrogateescape")
            lines = text.splitlines() if file.suffix == ".jsonl" else [text]
            found = [_replaced(line, reference) for line in lines]
            file.write_text("\n".join(found), errors="surrogateescape")

    def _fill_outside(self) -> None:
        shutil.copytree(ROOT / "fixtures/trials/30-unicode", self.outside / "trial")
        whole = next((self.outside / "trial").rglob("result.json")).read_text()
        for name in ("secret", "secret.json", "secret.jsonl", "secret.db", "traces.jsonl"):
            (self.outside / name).write_text(whole)

    def _link(self) -> None:
        """Links to files and directories outside, wherever a file or directory is looked for."""
        (self.jobs / "linked").symlink_to(self.outside / "trial")
        (self.sinks / "linked.jsonl").symlink_to(self.outside / "secret.jsonl")
        linked = self.jobs / "links"
        for trial in TRIALS:
            shutil.copytree(self.jobs / trial, linked / trial)
        shutil.copytree(self.jobs / "recorders", linked / "recorders")
        for number, path in enumerate(sorted(linked.rglob("*"))):
            if path.is_file() and number % 2:
                path.unlink()
                path.symlink_to(self.outside / "secret.json")
        for agent in [path for path in linked.rglob("verifier") if path.is_dir()]:
            shutil.rmtree(agent)
            agent.symlink_to(self.outside)

    def may_open(self, path: str) -> bool:
        """Whether a build may open a path."""
        inside = (self.jobs, self.place / "out", self.sinks, self.cells, self.temporary)
        program = (ROOT, Path(sys.prefix), Path(sys.base_prefix), *map(Path, sys.path))
        roots = [str(root) for root in (*inside, *program) if str(root) not in ("", ".")]
        return any(path == root or path.startswith(f"{root}/") for root in roots)


def _replaced(text: str, reference: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(_walked(value, reference, lambda key: bool(NAMES.search(key))))


def _walked(value: Any, reference: str, wanted: Callable[[str], bool], key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _walked(v, reference, wanted, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [_walked(one, reference, wanted, key) for one in value[:200]]
    return reference if isinstance(value, str) and wanted(key) else value


def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
    kind = "opening by a build"
    if why := missing():
        yield LeftOut(kind, why)
        return
    world = World(place)
    for workers in ("1", "2"):
        log = place / "log"
        command = [sys.executable, "-m", "wmo_distill", *world.arguments("--workers", workers)]
        more = {"TMPDIR": str(world.temporary)}
        done = traced(log, "%file,%network", command, **more)
        if done.code != 0:
            yield Try(kind, f"exit {done.code}: {done.said[-500:]}")
        for line in log.read_text(errors="replace").splitlines():
            if fault := _odd(line, world):
                yield Try(kind, fault)
            elif "openat(" in line:
                yield Try(kind)
        shutil.rmtree(place / "out")


def _odd(line: str, world: World) -> str | None:
    if re.search(r"^\d+ +(socket|connect|bind|sendto)\(", line):
        return None if "AF_UNIX" in line or "AF_NETLINK" in line else line
    opened = re.search(r"open(?:at)?\(.* = \d+<(.*)>$", line)
    if opened is None or world.may_open(opened[1]) or opened[1].startswith(SYSTEM):
        return None
    return None if opened[1].startswith(tempfile.gettempdir() + "/.") else line
