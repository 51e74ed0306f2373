"""Lists of one chat that lost elements independently: which element belongs to which call.

Order is kept always, and an element is placed only where no other place is possible.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from wmo_distill.arrays import Ids


def place_completions(
    prompts: Sequence[Ids | None], completions: Sequence[Ids | None]
) -> list[int | None]:
    """The prompt of each completion, None from the first one on that cannot be placed.

    Completion j belongs to prompt k if prompt k+1 starts with prompt k followed by completion j,
    and enough prompts are left for the completions after it; the last completion is placed
    without such proof if only the last prompt is left for it. Here one completion was lost:

        prompts      [1]   [1, 2, 3]   [1, 2, 3, 4, 5]   added: [2, 3], [4, 5]
        completions  [4]   [6]
        places       1     2           [4] begins added[1] alone; [6] has only prompt 2 left
    """
    added = [_added(before, after) for before, after in pairwise(prompts)]
    spare = len(prompts) - len(completions)
    options = []
    for j, completion in enumerate(completions):
        end = len(added) if spare < 0 else min(len(added), j + spare + 1)
        options.append([k for k in range(j, end) if _begins(added[k], completion)])
    earliest = _earliest(options)
    placed = _forced(options[: len(earliest)], earliest)
    first = next((j for j, k in enumerate(placed) if k is None), len(placed))
    kept: list[int | None] = list(placed[:first])
    if first == len(completions) - 1 and completions[-1] is not None:
        last_used = placed[first - 1] if first else -1
        if last_used == len(prompts) - 2:
            kept.append(len(prompts) - 1)
    return kept + [None] * (len(completions) - len(kept))


def place_by_length(lengths: Sequence[int], rows: Sequence[int]) -> list[int | None]:
    """For each row of a given length the one call it can belong to, None where there are several.

    `lengths` are the calls' numbers of sampled ids. No row is placed if not all of them fit.
    """
    options = [[k for k, length in enumerate(lengths) if length == row] for row in rows]
    earliest = _earliest(options)
    if len(earliest) < len(rows):
        return [None] * len(rows)
    return _forced(options, earliest)


def _earliest(options: Sequence[Sequence[int]]) -> list[int]:
    """The earliest places in ascending order, as far as there are any."""
    taken: list[int] = []
    for places in options:
        after = taken[-1] if taken else -1
        place = next((k for k in places if k > after), None)
        if place is None:
            break
        taken.append(place)
    return taken


def _forced(options: Sequence[Sequence[int]], earliest: Sequence[int]) -> list[int | None]:
    """Each place that the latest possible order gives too."""
    placed: list[int | None] = []
    before: int | None = None
    for places, early in zip(reversed(options), reversed(earliest), strict=True):
        before = max(k for k in places if before is None or k < before)
        placed.append(early if early == before else None)
    return placed[::-1]


def _added(before: Ids | None, after: Ids | None) -> Ids | None:
    """The ids by which a prompt extends the one before, None if it does not."""
    if before is None or after is None or not np.array_equal(after[: before.size], before):
        return None
    return after[before.size :]


def _begins(ids: Ids | None, completion: Ids | None) -> bool:
    if ids is None or completion is None:
        return False
    return np.array_equal(ids[: completion.size], completion)
