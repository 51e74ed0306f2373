"""What a trajectory knows of the calls: the witness against which recorded lists are held."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np

from wmo_distill.tokenjson.rows import (
    MISSING_IDS,
    MISSING_LOGPROBS,
    IdRow,
    LogprobRow,
    whole_row,
)
from wmo_distill.trials.lists import Lists


class Turn(NamedTuple):
    """What a trajectory step records of its call."""

    prompt: IdRow = MISSING_IDS
    completion: IdRow = MISSING_IDS
    logprobs: LogprobRow = MISSING_LOGPROBS


class UnreadTurns(Sequence[Turn]):
    """Turns of known number that are read when the first of them is asked for.

    Of a file that changed meanwhile it gives so many turns too, empty ones for those it lost.
    """

    def __init__(self, count: int, read: Callable[[], Sequence[Turn]]) -> None:
        self._count = count
        self._read = read
        self._turns: Sequence[Turn] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | Sequence[Turn]:
        if self._turns is None:
            read = self._read()[: self._count]
            self._turns = [*read, *[Turn()] * (self._count - len(read))]
        return self._turns[index]


@dataclass(frozen=True, slots=True)
class Witness:
    """What the trajectory knows: its turns with ids, and the first prompts of its summarizers.

    `summarizers` are their turns, given only where no result holds them.
    """

    turns: Sequence[Turn] = ()
    summarizer_prompts: Sequence[IdRow] = ()
    summarizers: Sequence[Sequence[Turn]] = ()


def after_turns(lists: Lists, turns: Sequence[Turn]) -> Lists | None:
    """What the lists hold beyond the trajectory's last turn; None where the two disagree."""
    if not turns:
        return None
    sampled = [turn for turn in turns if _has_ids(turn.completion)]
    prompts = [turn.prompt for turn in turns if _has_ids(turn.prompt)]
    completions = [turn.completion for turn in sampled]
    logprobs = [turn.logprobs for turn in sampled if _has_values(turn.logprobs)]
    if not (
        _starts_with(lists.prompts, prompts)
        and _starts_with(lists.completions, completions)
        and len(lists.logprobs) >= len(logprobs)
        and all(map(_same_values, lists.logprobs, logprobs))
    ):
        return None
    return Lists(
        lists.prompts[len(prompts) :],
        lists.completions[len(completions) :],
        lists.logprobs[len(logprobs) :],
        {},
        [],
    )


def _starts_with(rows: Sequence[IdRow], first: Sequence[IdRow]) -> bool:
    return len(rows) >= len(first) and all(map(_same_ids, rows, first))


def _same_ids(a: IdRow, b: IdRow) -> bool:
    left, right = whole_row(a), whole_row(b)
    return left is not None and right is not None and np.array_equal(left, right)


def _same_values(a: LogprobRow, b: LogprobRow) -> bool:
    """Equal numbers; null, NaN and infinity are one and the same, "not recorded"."""
    if a.values is None or b.values is None or a.values.size != b.values.size:
        return False
    left = np.where(np.isfinite(a.values), a.values, np.nan)
    right = np.where(np.isfinite(b.values), b.values, np.nan)
    return np.array_equal(left, right, equal_nan=True)


def first_prompt_is(entry: Any, prompt: IdRow) -> bool:
    """Whether an entry's first prompt is this one."""
    prompts = entry.get("prompt_token_ids") if isinstance(entry, dict) else None
    if not isinstance(prompts, list) or not prompts:
        return False
    return _same_ids(prompts[0], prompt)


def is_summarizer(entry: Any, witness: Witness) -> bool:
    """Whether entry 0 is a summarizer's chat: the main chat recorded nothing before it."""
    prompts = entry.get("prompt_token_ids") if isinstance(entry, dict) else None
    if not isinstance(prompts, list) or not prompts:
        return False
    if witness.turns and _same_ids(prompts[0], witness.turns[0].prompt):
        return False
    return any(_same_ids(prompts[0], row) for row in witness.summarizer_prompts)


def _has_ids(row: IdRow) -> bool:
    return row.size > 0


def _has_values(row: LogprobRow) -> bool:
    return row.values is not None and row.values.size > 0
