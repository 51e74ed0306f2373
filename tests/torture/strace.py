"""Commands under strace: which calls change files, and a run in which one of them goes wrong."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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

Done = subprocess.CompletedProcess[str]


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
    tried = strace(["-e", "inject=rmdir:error=EIO"], [sys.executable, "-c", ""])
    return None if tried.returncode == 0 else f"strace cannot trace: {tried.stderr.strip()[-200:]}"


def strace(options: Sequence[str], command: Sequence[str], **env: str) -> Done:
    """Run a command under strace, with all its threads and children."""
    start = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none"]
    return run([*start, *options, *command], **env)


def run(command: Sequence[str], **env: str) -> Done:
    """Run a command of this checkout, the same way each time."""
    fixed = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    return subprocess.run(
        command,
        env={**os.environ, **fixed, **env},
        capture_output=True,
        text=True,
        errors="backslashreplace",
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=600,
    )


def changes(command: Sequence[str], below: Path, log: Path) -> list[Call]:
    """The calls of a command that change something below a directory, each in its thread."""
    strace(["-y", "-o", str(log), "-e", f"trace={_TRACED}"], command)
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, int], Call] = {}
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if match is None:  # the second half of a call that another thread interrupted
            continue
        thread, name, text = match.groups()
        counts[thread, name] += 1
        reads = name in ("open", "openat") and not _TO_WRITE.search(text)
        if str(below) in text and not reads:
            call = Call(name, counts[thread, name], f"{name}({text}")
            found.setdefault((name, call.nth), call)
    log.unlink()
    return list(found.values())


def killed_at(call: Call, command: Sequence[str]) -> Done:
    """The command, whose process is killed right before that call."""
    return _injected(call, f"signal=SIGKILL:when={call.nth}", command)


def failing_at(call: Call, error: str, command: Sequence[str], *, on: bool) -> Done:
    """The command, in which that call, and with `on` those of its name after it, fail."""
    return _injected(call, f"error={error}:when={call.nth}{'+' if on else ''}", command)


def _injected(call: Call, how: str, command: Sequence[str]) -> Done:
    inject = ["-e", f"trace={call.name}", "-e", f"inject={call.name}:{how}"]
    return strace(["-o", os.devnull, *inject], command)


def entries(place: Path) -> Mapping[str, bytes | None]:
    """What is in a directory: files with their bytes, directories with None."""
    return {
        path.relative_to(place).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(place.rglob("*"))
    }
