"""What became of one item, and the seam that every engine fills."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Done(Generic[Value]):
    value: Value


@dataclass(frozen=True, slots=True)
class Failed:
    """The task raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended without an answer, by its exit code; negative: by that signal."""

    exit_code: int


class Engine(Protocol):
    """Runs a task over items; outcomes come in the order of the items."""

    def map(
        self, task: Callable[[Item], Value], items: Sequence[Item]
    ) -> Iterator[Done[Value] | Failed | Died]: ...
