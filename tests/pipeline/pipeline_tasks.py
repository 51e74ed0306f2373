"""Tasks for engines; worker processes import them from here."""

import os
import signal
import sys
import time
from pathlib import Path


def square(x: int) -> int:
    if x < 0:
        raise ValueError(f"negative: {x}")
    return x * x


def late_first(x: int) -> tuple[int, int]:
    time.sleep(0.2 if x == 0 else 0)
    return x, os.getpid()


def kill_at_three(x: int) -> int:
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def noisy(x: int) -> int:
    sys.stdout.write(f"a library prints {x}\n")
    os.write(1, b"and writes below Python\n")
    return x


class UnpicklableError(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("two arguments")


def raise_unpicklable(x: int) -> int:
    raise UnpicklableError(1, 2)


def slow(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def slow_or_square(item: int | str) -> int | None:
    return square(item) if isinstance(item, int) else slow(item)


def panic(x: int) -> int:
    raise type("PanicException", (BaseException,), {})(f"index {x} out of range")
