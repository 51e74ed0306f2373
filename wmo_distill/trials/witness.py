"""What a trajectory knows of the calls: the witness against which recorded lists are held."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wmo_distill.sources.rows import (
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


@dataclass(frozen=True, slots=True)
class Witness:
    """What the trajectory knows: its turns with ids, and the first prompts of its summarizers."""

    turns: Sequence[Turn] = ()
    summarizer_prompts: Sequence[IdRow] = ()


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


def first_prompt_is(entry: Any, turns: Sequence[Turn]) -> bool:
    """Whether an entry's first prompt is that of the first turn."""
    prompts = entry.get("prompt_token_ids") if isinstance(entry, dict) else None
    if not isinstance(prompts, list) or not prompts or not turns:
        return False
    return _same_ids(prompts[0], turns[0].prompt)


def is_summarizer(entry: Any, witness: Witness) -> bool:
    """Whether entry 0 is a summarizer's chat: the main chat recorded nothing before it."""
    prompts = entry.get("prompt_token_ids") if isinstance(entry, dict) else None
    if not isinstance(prompts, list) or not prompts or first_prompt_is(entry, witness.turns):
        return False
    return any(_same_ids(prompts[0], row) for row in witness.summarizer_prompts)


def _has_ids(row: IdRow) -> bool:
    return row.size > 0


def _has_values(row: LogprobRow) -> bool:
    return row.values is not None and row.values.size > 0
