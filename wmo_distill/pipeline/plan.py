"""Decisions of a build, made from paths, sizes and ids alone: who gets rows, who shares a part."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wmo_distill.pipeline.batch import Unit, Work
from wmo_distill.records import ScoreCell

PART_BYTES = 512_000_000
"""Input of one part; about 1/50 to 1/450 of it on disk."""
PART_TRIALS = 1000
OVERRULED = ("tests", "infra_failed")
"""Columns that a cell may leave to the verifier."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial that could have rows.

    One whose directory is gone yields to one that is there.
    """

    path: str
    trial_id: str | None
    gone: bool = False
    fails: bool = False
    """Whether it could not be read: its id is free for the next."""


def chosen(candidates: Iterable[Candidate]) -> set[str]:
    """The paths that get rows: of those with one id the first, as UTF-8 bytes compare.

    Those that fail before the first one that does not are among them: they are no duplicates.
    """
    paths: set[str] = set()
    taken: set[str] = set()
    for candidate in sorted(candidates, key=lambda c: (c.gone, c.path.encode())):
        if candidate.trial_id not in taken:
            paths.add(candidate.path)
        if candidate.trial_id and not candidate.fails:
            taken.add(candidate.trial_id)
    return paths


def shared_ids(candidates: Iterable[Candidate]) -> set[str]:
    """The ids that more than one trial has."""
    seen: set[str] = set()
    shared: set[str] = set()
    for candidate in candidates:
        if candidate.trial_id:
            (shared if candidate.trial_id in seen else seen).add(candidate.trial_id)
    return shared


def units_in_order(works: Sequence[Work]) -> list[Unit]:
    """What to write, in the order of the works, or, where they have cells, of the cells.

    Works are in order of path. Those without a cell come first.
    """
    units = [Unit(work) for work in works if not work.placed]
    cells = sorted(
        (position, index, cell)
        for index, work in enumerate(works)
        for cell, position in enumerate(work.positions)
    )
    runs: list[tuple[int, list[int]]] = []
    for _, index, cell in cells:
        if runs and runs[-1][0] == index:
            runs[-1][1].append(cell)
        else:
            runs.append((index, [cell]))
    for index, run in runs:
        work = works[index]
        units.append(Unit(work, () if len(run) == len(work.placed) else tuple(run)))
    return units


def cut(
    units: Sequence[Unit],
    *,
    most_bytes: int = PART_BYTES,
    most_trials: int = PART_TRIALS,
) -> list[tuple[Unit, ...]]:
    """The units in order, cut into parts by bytes of input; no trial is cut apart."""
    last = {unit.work.path: index for index, unit in enumerate(units)}
    parts: list[list[Unit]] = []
    seen: set[str] = set()
    size = trials = 0
    open_until = -1
    for index, unit in enumerate(units):
        path = unit.work.path
        more = unit.work.state.bytes if path not in seen else 0
        full = size + more > most_bytes or trials >= most_trials
        if not parts or (full and index > open_until):
            parts.append([])
            size = trials = 0
        parts[-1].append(unit)
        size += more
        trials += path not in seen
        seen.add(path)
        open_until = max(open_until, last[path])
    return [tuple(part) for part in parts]


def cells_digest(cells: Iterable[ScoreCell]) -> str:
    """16 hex digits over what the cells of one trial put into its rows; empty without cells.

    Behind it are the columns that are the verifier's where no cell gives them: "0f…9+tests".
    """
    rows = [cell.model_dump(mode="json", exclude={"artifact_dir"}) for cell in cells]
    text = json.dumps(rows, sort_keys=True, separators=(",", ":"))
    marks = [f"+{name}" for name in OVERRULED if any(row[name] is not None for row in rows)]
    return "".join([hashlib.sha256(text.encode()).hexdigest()[:16], *marks]) if rows else ""
