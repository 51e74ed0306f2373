"""`wmo-distill`, with every path that Python opens or lists, and every other way out, written down.

python -m tests.torture.audited LOG ARGUMENTS
"""

import os
import sys
from typing import Any
from urllib.parse import unquote

WATCHED = (
    "open", "os.listdir", "os.scandir", "sqlite3.connect", "subprocess.Popen", "os.system",
    "os.exec", "os.posix_spawn", "urllib.Request", "glob.glob",
)  # fmt: skip


def _place(event: str, args: tuple[Any, ...]) -> str:
    """Where a path leads, all links followed that the call would follow."""
    if not args or not isinstance(args[0], str | bytes | os.PathLike):
        return repr(args[:1])
    path = os.fsdecode(args[0])
    if event == "sqlite3.connect" and path.startswith("file:"):
        path = unquote(path.removeprefix("file:").partition("?")[0])
    if event == "open" and len(args) > 2 and args[2] & os.O_NOFOLLOW:
        return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return os.path.realpath(path)


if __name__ == "__main__":
    log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], int):  # a file that is open already
            return
        if event in WATCHED or event.startswith("socket."):
            os.write(log, f"{event}\t{_place(event, args)!r}\n".encode())

    sys.addaudithook(hook)
    from wmo_distill.cli.app import main

    main()
