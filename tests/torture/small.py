"""`wmo-distill` with several parts of everything, though there is little to write.

A process that has everything loaded and runs each command in a fork of itself: a try takes the
time of its work, not that of loading Python. For each line `[ARGUMENTS, SAID, STOP]` on stdin it
answers with the exit status; what the command says goes to the file SAID. With STOP its number
comes first, and it waits for SIGCONT, so that a tracer can take hold of it.
"""

import ctypes
import importlib
import json
import os
import pkgutil
import signal
import sys

import aiohttp

import wmo_distill
from tests.outputs.works import small
from wmo_distill.cli.app import main
from wmo_distill.pipeline.build import build_with
from wmo_distill.pipeline.reading import Limits

PR_SET_PTRACER = 0x59616D61


def command(arguments: list[str], said: str, stop: bool) -> None:
    """In the fork: run it, and end as the command does."""
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(file, number)
    if stop:
        if sys.platform == "linux":  # any process may trace this one
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1))
        os.kill(os.getpid(), signal.SIGSTOP)
    sys.argv[1:] = arguments
    code: object = 1
    try:
        main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 0)


def serve() -> None:
    for module in pkgutil.walk_packages(wmo_distill.__path__, "wmo_distill."):
        if not module.name.endswith(("__main__", "pytorch")):
            importlib.import_module(module.name)
    assert aiohttp
    small()
    (build_with.__kwdefaults__ or {})["limits"] = Limits(part_bytes=3000, part_trials=3)
    for line in sys.stdin:
        arguments, said, stop = json.loads(line)
        child = os.fork()
        if not child:
            command(arguments, said, stop)
        if stop:
            os.waitpid(child, os.WUNTRACED)
            os.write(1, f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    serve()
