"""Work that takes much memory for a moment, in a process that gives it back to the system."""

from collections.abc import Callable
from typing import TypeVar

from wmo_distill.engines.local import Workers
from wmo_distill.engines.outcome import Died, Failed
from wmo_distill.errors import DistillError

_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


def apart(task: Callable[[_Item], _Value], item: _Item) -> _Value:
    """What a task gives; the error that it raises, or DistillError where its process ends."""
    (outcome,) = Workers(1).map(task, [item])
    if isinstance(outcome, Failed):
        raise outcome.error
    if isinstance(outcome, Died):
        raise DistillError(
            f"a process of this command: expected its answer, found that it ended with code "
            f"{outcome.exit_code}; is there memory enough? Try again"
        )
    return outcome.value
