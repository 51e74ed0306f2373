"""What became of one item, and the seam that every engine fills."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Done(Generic[Value]):
    """The task returned."""

    value: Value


@dataclass(frozen=True, slots=True)
class Failed:
    """The task raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended without an answer."""

    exit_code: int
    """Negative: the number of the signal that ended it."""


class Engine(Protocol):
    """Runs a task over items; outcomes come in the order of the items."""

    @property
    def apart(self) -> bool:
        """Whether an item that ends its process leaves this one alive."""
        ...

    def map(
        self, task: Callable[[Item], Value], items: Sequence[Item]
    ) -> Iterator[Done[Value] | Failed | Died]: ...


class Engines(Protocol):
    """Where the work of a build runs: gives an engine for each piece of it."""

    def engine(self, items: int, input_bytes: int, *, apart: bool = False) -> Engine:
        """An engine for so many items of so many bytes in all; `apart` as in `Engine`."""
        ...
