"""Commands under strace: which calls change files, and a run in which one of them goes wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wmo_distill.outputs.metrics import METRICS, RUNS

ROOT = Path(__file__).parents[2]
CHANGES = (
    "open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,copy_file_range,sendfile,fsync,"
    "fdatasync,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "truncate,ftruncate,fallocate,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat"
)
WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2")
_TO_WRITE = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC)")
# A name that this machine does not have is refused without a question mark.
_TRACED = ",".join(f"?{name}" for name in CHANGES.split(","))
_STRACE = ("strace", "-f", "-e", "signal=none")
_SAME_EACH_TIME = {
    "PYTHONPATH": str(ROOT),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    said: str


@dataclass(frozen=True)
class Call:
    """The `nth` call of this name in its thread; `text` is what strace says of it."""

    name: str
    nth: int
    text: str


@cache
def missing() -> str | None:
    """Why there is no strace, once it was tried to get it; None where there is one."""
    if shutil.which("strace") is None and shutil.which("apt-get") and os.geteuid() == 0:
        for step in ("update", "install --yes strace"):
            subprocess.run(["apt-get", "-qq", *step.split()], capture_output=True, check=False)
    if shutil.which("strace") is None:
        return "no strace; install it with the system's package manager"
    tried = run(
        [*_STRACE, "-qq", "--seccomp-bpf", "-e", "inject=rmdir:error=EIO", sys.executable, "-c", ""]
    )
    return f"strace cannot trace: {tried.said[-200:]}" if tried.code else None


def run(command: Sequence[str], **env: str) -> Done:
    """Run a command of this checkout, the same way each time."""
    done = subprocess.run(
        command,
        env={**os.environ, **_SAME_EACH_TIME, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=600,
    )
    return Done(done.returncode, done.stdout.strip())


def traced(log: Path, calls: str, command: Sequence[str], **env: str) -> Done:
    """Run a command with all its threads and children, and write these calls down."""
    options = ["-qq", "-y", "-o", str(log), "-e", f"trace={calls}", "--seccomp-bpf"]
    return run([*_STRACE, *options, *command], **env)


class Commands(AbstractContextManager["Commands"]):
    """Runs `wmo-distill` in forks of one process, alone or under strace; one at a time."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self._said, self._log = place / "said", place / "log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.small"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_SAME_EACH_TIME},
            text=True,
        )

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, arguments: Sequence[str], options: Sequence[str] | None = None) -> Done:
        """One command; with `options` under strace."""
        assert self._process.stdin is not None
        line = json.dumps([arguments, str(self._said), options is not None])
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        if options is not None:
            child = self._answer()
            with subprocess.Popen(
                [*_STRACE, *options, "-p", str(child)], stderr=subprocess.PIPE, text=True
            ) as tracer:
                assert tracer.stderr is not None
                while "attached" not in (line := tracer.stderr.readline()):
                    assert line, "strace has ended"
                os.kill(child, signal.SIGCONT)
                tracer.stderr.read()
        code = self._answer()
        return Done(code, self._said.read_text(errors="backslashreplace").strip())

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def changes(self, arguments: Sequence[str], below: Path) -> list[Call]:
        """The calls that change something below a directory, each by its number in its thread."""
        self.run(arguments, ["-y", "-o", str(self._log), "-e", f"trace={_TRACED}"])
        counts: Counter[tuple[str, str]] = Counter()
        found: dict[tuple[str, int], Call] = {}
        for line in self._log.read_text(errors="replace").splitlines():
            match = re.match(r"(\d+) +(\w+)\((.*)", line)
            if match is None:  # the second half of a call that another thread interrupted
                continue
            thread, name, text = match.groups()
            counts[thread, name] += 1
            reads = name in ("open", "openat") and not _TO_WRITE.search(text)
            if str(below) in text and not reads:
                call = Call(name, counts[thread, name], f"{name}({text}")
                found.setdefault((name, call.nth), call)
        return list(found.values())

    def killed_at(self, call: Call, arguments: Sequence[str]) -> Done:
        """The command, whose process is killed right before that call."""
        return self._injected(call, f"signal=SIGKILL:when={call.nth}", arguments)

    def failing_at(self, call: Call, error: str, arguments: Sequence[str], *, on: bool) -> Done:
        """The command, in which that call, and with `on` those of its name after it, fail."""
        return self._injected(call, f"error={error}:when={call.nth}{'+' * on}", arguments)

    def _injected(self, call: Call, how: str, arguments: Sequence[str]) -> Done:
        inject = ["-e", f"trace={call.name}", "-e", f"inject={call.name}:{how}"]
        return self.run(arguments, ["-o", os.devnull, *inject])


def entries(place: Path) -> Mapping[str, bytes | None]:
    """What is in a directory: files with their bytes, directories with None; no log of runs."""
    return {
        path.relative_to(place).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(place.rglob("*"))
        if path.name not in (METRICS, RUNS)
    }
