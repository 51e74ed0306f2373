"""The command in a process of its own that has its libraries already: most of a short run's time.

Each process is a fork of a server that imported them and did nothing else, so no thread pool or
lock of theirs is in use. Our own modules are imported anew each time, as by a shell's command.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    ["numpy", "orjson", "polars", "pyarrow.parquet", "pyarrow.compute", "pydantic", "rich.console",
     "rich.table", "tenacity", "typer"]
)  # fmt: skip
_PATIENCE = 600
"""Seconds; a machine may be busy."""


def run_forked(
    arguments: Sequence[str], cwd: Path | None, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """What `python -m wmo_distill ARGUMENTS` gives."""
    with TemporaryDirectory() as place:
        streams = Path(place, "stdout"), Path(place, "stderr")
        process = _PROCESSES.Process(
            target=_command, args=(arguments, cwd or Path.cwd(), dict(environment), streams)
        )
        process.start()
        process.join(_PATIENCE)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(list(arguments), _PATIENCE)
        out, said = (stream.read_text() for stream in streams)
        return subprocess.CompletedProcess(list(arguments), process.exitcode, out, said)


def _command(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], streams: Sequence[Path]
) -> None:
    for number, stream in enumerate(streams, 1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["wmo-distill", *arguments]
    from wmo_distill.__main__ import main

    main()
