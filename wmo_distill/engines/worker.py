"""A worker process: takes (task, item) from its standard input, answers on its standard output."""

import os
import pickle
import queue
import sys
import threading
from typing import IO, Any

from wmo_distill.engines.frames import read_frame, write_frame
from wmo_distill.engines.outcome import Done, Failed
from wmo_distill.errors import fault_of


def serve() -> None:
    """Answer until the pipe ends; ends at once, work or not, when the parent is gone."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not fall among the answers
    tasks: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    write_frame(answers, "ready")
    while True:
        task, item = tasks.get()
        _send(answers, _run(task, item))


def _receive(pipe: IO[bytes], tasks: "queue.SimpleQueue[tuple[Any, Any]]") -> None:
    try:
        while True:
            tasks.put(read_frame(pipe))
    except EOFError:
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"worker: {type(error).__name__}: {error}\n")
        os._exit(1)


def _run(task: Any, item: Any) -> Done[Any] | Failed:
    try:
        return Done(task(item))
    except BaseException as error:
        return Failed(fault_of(error))


def _send(answers: IO[bytes], outcome: Done[Any] | Failed) -> None:
    try:
        pickle.loads(pickle.dumps(outcome))
    except Exception as error:
        cause = outcome.error if isinstance(outcome, Failed) else error
        outcome = Failed(RuntimeError(f"{type(cause).__name__}: {cause}"))
    write_frame(answers, outcome)
