"""Engines of this machine: in this process, or in worker processes."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from wmo_distill.engines.frames import read_frame, write_frame
from wmo_distill.engines.outcome import Died, Done, Engine, Failed, Item, Value
from wmo_distill.errors import DistillError, fault_of

Outcome = Done[Any] | Failed | Died


def usable_cores() -> int:
    """The cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Local:
    """This machine: this process for little input, else worker processes."""

    workers: int | None = None
    """None: as many as there are cores, where the input is worth their start."""
    process_bytes: int = 1_000_000_000
    """The input from which on worker processes are worth their start."""

    def engine(self, items: int, input_bytes: int, *, apart: bool = False) -> Engine:
        """An engine for so many items; `apart` from this process where an item may end it."""
        count = self.workers or usable_cores()
        worth = self.workers is not None or input_bytes >= self.process_bytes
        if apart or (count > 1 and worth):
            return Workers(max(1, min(count, items)))
        return InProcess()


class InProcess:
    """Runs the items one by one in this process; only a worker process can outlive a death."""

    apart = False

    def map(
        self, task: Callable[[Item], Value], items: Sequence[Item]
    ) -> Iterator[Done[Value] | Failed | Died]:
        for item in items:
            try:
                yield Done(task(item))
            except BaseException as error:
                yield Failed(fault_of(error))


class Workers:
    """Fresh interpreters, each given one item at a time, so that a death costs one item.

    They run `wmo_distill.engines.worker` and never the caller's main module. A worker ends with
    the pipe that it is fed by, so none outlives this process.
    """

    apart = True

    def __init__(self, count: int) -> None:
        self.count = count

    def map(
        self, task: Callable[[Item], Value], items: Sequence[Item]
    ) -> Iterator[Done[Value] | Failed | Died]:
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in range(len(items)):
            waiting.put(index)
        finished: queue.SimpleQueue[tuple[int, Outcome | BaseException]] = queue.SimpleQueue()
        seats = [_Seat(task, items, waiting, finished) for _ in range(min(self.count, len(items)))]
        try:
            for seat in seats:
                seat.thread.start()
            early: dict[int, Outcome] = {}
            for index in range(len(items)):
                while index not in early:
                    number, outcome = finished.get()
                    if isinstance(outcome, BaseException):
                        raise outcome
                    early[number] = outcome
                yield early.pop(index)
        finally:
            for seat in seats:
                seat.stop()
            for seat in seats:
                seat.join()


class _Seat:
    """A thread that feeds one worker at a time, and a new one after each death."""

    def __init__(
        self,
        task: Callable[[Any], Any],
        items: Sequence[Any],
        waiting: "queue.SimpleQueue[int]",
        finished: "queue.SimpleQueue[tuple[int, Outcome | BaseException]]",
    ) -> None:
        self._task = task
        self._items = items
        self._waiting = waiting
        self._finished = finished
        self._worker: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._worker.kill()

    def join(self) -> None:
        """Wait until the worker is gone: nothing writes after this."""
        if self.thread.ident is not None:
            self.thread.join()

    def _run(self) -> None:
        index = -1
        try:
            while not self._stopped:
                try:
                    index = self._waiting.get_nowait()
                except queue.Empty:
                    return
                self._finished.put((index, self._answer(index)))
        except BaseException as error:  # the consumer would wait for ever without it
            self._finished.put((index, error))
        finally:
            self._end()

    def _answer(self, index: int) -> Outcome:
        worker = self._started()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            write_frame(worker.stdin, (self._task, self._items[index]))
            answer = read_frame(worker.stdout)
        except (BrokenPipeError, EOFError):
            return Died(self._end())
        assert isinstance(answer, Done | Failed)
        return answer

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._worker is not None:
            return self._worker
        worker = subprocess.Popen(
            [sys.executable, "-c", _START, *map(os.fspath, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # what a terminal sends to its group reaches this process alone
            env=LEAN | os.environ,
        )
        with self._lock:
            self._worker = worker
            if self._stopped:
                worker.kill()
        assert worker.stdout is not None
        try:
            read_frame(worker.stdout)
        except EOFError:
            raise DistillError(
                f"workers: expected a process of {sys.executable} that can load wmo_distill, found "
                f"one that ended with exit code {self._end()}; build with --workers 1"
            ) from None
        return worker

    def _end(self) -> int:
        """End the worker; gives its exit code."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is None:
            return 0
        assert worker.stdin is not None
        assert worker.stdout is not None
        with suppress(BrokenPipeError):
            worker.stdin.close()
        worker.stdout.close()
        return worker.wait()


# Arrow's allocator takes memory as it is used, and gives it back as it is freed: one trial of a
# worker may be large. An option that the caller has set stays.
LEAN = {"MIMALLOC_PURGE_DELAY": "0", "MIMALLOC_ARENA_EAGER_COMMIT": "0"}

# The worker sees the same modules as this process, wherever they were found.
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; sys.argv[1:] = []; "
    "from wmo_distill.engines.worker import serve; serve()"
)
