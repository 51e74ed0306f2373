"""Lists of one chat that lost elements independently: which element belongs to which call.

Order is kept always, and an element is placed only where no other place is possible.
"""

from collections.abc import Callable, Sequence
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
    stops = [
        len(added) if spare < 0 else min(len(added), j + spare + 1) for j in range(len(completions))
    ]
    placed = _forced(stops, lambda j, k: _begins(added[k], completions[j]))
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
    placed = _forced([len(lengths)] * len(rows), lambda j, k: lengths[k] == rows[j])
    return placed if len(placed) == len(rows) else [None] * len(rows)


def _forced(stops: Sequence[int], fits: Callable[[int, int], bool]) -> list[int | None]:
    """The one place of each element in every ascending order, None where orders differ.

    Element j may have place k below stops[j] if it fits there; stops ascend. The list ends where no
    order goes on. The earliest and the latest order are found in one pass each:

        fits      0: 0 or 1    1: 1 or 2    2: 4
        earliest  0            1            4
        latest    1            2            4        only element 2 has one place
    """
    earliest: list[int] = []
    for j, stop in enumerate(stops):
        begin = earliest[-1] + 1 if earliest else 0
        place = next((k for k in range(begin, stop) if fits(j, k)), None)
        if place is None:
            break
        earliest.append(place)
    placed: list[int | None] = []
    latest = max(stops, default=0)
    for j, early in reversed(list(enumerate(earliest))):
        latest = next(k for k in range(min(latest, stops[j]) - 1, -1, -1) if fits(j, k))
        placed.append(early if early == latest else None)
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
