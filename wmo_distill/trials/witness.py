"""Recorded lists held against a second record of the same calls."""

from collections.abc import Sequence

import numpy as np

from wmo_distill.sources.recorded import Lists, Turn, Witness
from wmo_distill.tokenjson.rows import IdRow, LogprobRow, same_ids


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
    return len(rows) >= len(first) and all(map(same_ids, rows, first))


def _same_values(a: LogprobRow, b: LogprobRow) -> bool:
    """Equal numbers; null, NaN and infinity are one and the same, "not recorded"."""
    if a.values is None or b.values is None or a.values.size != b.values.size:
        return False
    left = np.where(np.isfinite(a.values), a.values, np.nan)
    right = np.where(np.isfinite(b.values), b.values, np.nan)
    return np.array_equal(left, right, equal_nan=True)


def is_summarizer(entry: Lists, witness: Witness) -> bool:
    """Whether entry 0 is a summarizer's chat: the main chat recorded nothing before it."""
    if not entry.prompts:
        return False
    first = entry.prompts[0]
    if witness.turns and same_ids(first, witness.turns[0].prompt):
        return False
    return any(same_ids(first, row) for row in witness.summarizer_prompts)


def _has_ids(row: IdRow) -> bool:
    return row.size > 0


def _has_values(row: LogprobRow) -> bool:
    return row.values is not None and row.values.size > 0
