"""The caller's grades: cells read from a file, each placed at a trial.

A cell is the caller's word, so any mistake in one is an error that names it; what a trial
directory holds can never be.
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wmo_distill.disk import asked
from wmo_distill.errors import ReadFault, UsageError, shown
from wmo_distill.files import path_text, plain_text
from wmo_distill.pipeline.cell_file import OPTIONAL, REQUIRED, kind_of, read_cell_rows
from wmo_distill.records import GradedTests, ScoreCell
from wmo_distill.trials.cells import finite_reward, wrong_cell

_INT32 = 2**31


@dataclass(frozen=True, slots=True)
class PlacedCell:
    """A cell and its trial's directory or file below a PATH, None where nothing is there."""

    cell: ScoreCell
    root: Path | None
    name: str
    episode: str = ""
    """`#` and the id of one of several episodes in `root`, as in the ledger's paths."""

    @property
    def place(self) -> str:
        """What it names; two cells that name one trial have one place."""
        return f"name:{self.name}" if self.root is None else real_place(self.root, self.episode)


Place = tuple[Path, str]
"""A directory or a file, and `#` with the id of one of its episodes, else nothing."""


def load_cells(
    file: str | os.PathLike[str],
    paths: Sequence[str | os.PathLike[str]],
    look: Callable[[Path], Place | None] | None = None,
) -> tuple[PlacedCell, ...]:
    """The cells of a file in order, placed below the PATHs; UsageError names a wrong cell.

    `look` says what is at a path; by default the file system does.
    """
    source = Path(file)
    roots = [Path(path) for path in paths]
    placed: list[PlacedCell] = []
    seen: dict[tuple[str, str | None], int] = {}
    for index, row in enumerate(read_cell_rows(source)):
        where = _where(source, index, row)
        cell = _cell(row, where)
        name = _base_name(cell.artifact_dir, where)
        place = _place(cell.artifact_dir, roots, source.parent, where, look or place_at)
        one = PlacedCell(cell, None, name) if place is None else PlacedCell(cell, *place)
        key = (one.place, cell.step_name)
        if key in seen:
            step = "" if cell.step_name is None else f", step {cell.step_name!r}"
            raise UsageError(
                f"{where}: artifact_dir: expected each trial once, found {name!r}{step} again "
                f"(first in cell {seen[key]}); remove one of the two"
            )
        seen[key] = index
        placed.append(one)
    return tuple(placed)


def place_at(path: str | os.PathLike[str]) -> Place | None:
    """What is at a path, None where nothing is: `run/traces.jsonl#id` is an episode of a file."""
    text = os.fspath(path)
    at = len(text)
    while at >= 0:
        if _is_there(Path(text[:at])):
            return Path(text[:at]), text[at:]
        at = text.find("#", 0 if at == len(text) else at + 1)
    return None


def _is_there(path: Path) -> bool:
    """Whether a directory or file is there; of one not given by the system, reading it tells."""
    try:
        state = asked(os.stat, path)
    except ReadFault:
        return True
    return state is not None and (stat.S_ISDIR(state.st_mode) or stat.S_ISREG(state.st_mode))


def real_place(root: Path, episode: str) -> str:
    """A place by the path that the system knows it under."""
    return os.path.realpath(root) + path_text(episode)


def _where(file: Path, index: int, row: Any) -> str:
    """Which cell: its place in the file, and what it says it is."""
    said = row if isinstance(row, dict) else {}
    words = [
        f"{word} {shown(said[key])}"
        for word, key in (("task", "task_id"), ("attempt", "attempt"))
        if key in said
    ]
    return f"{file}: cell {index}" + (f" ({', '.join(words)})" if words else "")


def _cell(row: Any, where: str) -> ScoreCell:
    if not isinstance(row, dict):
        raise UsageError(f"{where}: expected an object, found {kind_of(row)}; correct the cell")
    for key in REQUIRED:
        if key not in row:
            raise UsageError(
                f"{where}: expected the keys {', '.join(REQUIRED)}, found no {key}; add it"
            )
    values = {key: row[key] for key in REQUIRED}
    values |= {key: row[key] for key in OPTIONAL if row.get(key) is not None}
    values["reward"] = finite_reward(values["reward"], where)
    attempt = values["attempt"]
    if type(attempt) is not int or not 1 <= attempt < _INT32:
        raise wrong_cell(where, "attempt", "an integer of at least 1 and below 2^31", attempt)
    if "tests" in values:
        values["tests"] = _tests(values["tests"], where)
    for key in ("task_id", "artifact_dir", "note", "step_name"):
        if isinstance(values.get(key), str):
            values[key] = plain_text(values[key]) if key != "artifact_dir" else values[key]
    try:
        return ScoreCell.model_validate(values, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        expected = str(first["msg"]).removeprefix("Input should be ")
        raise wrong_cell(where, key, expected, values[key]) from None


def _tests(value: Any, where: str) -> GradedTests | None:
    """A cell's test counts; in a table a row without them can be an object of nulls."""
    keys = ("passed", "resolved", "unresolved")
    said = [value.get(key) for key in keys] if isinstance(value, dict) else []
    if said == [None, None, None]:
        return None
    counts = [n for n in said if type(n) is int and 0 <= n < _INT32]
    if len(counts) != len(keys) or counts[0] > counts[1]:
        expected = "counts passed, resolved, unresolved with 0 <= passed <= resolved"
        raise wrong_cell(where, "tests", expected, value)
    return GradedTests(passed=counts[0], resolved=counts[1], unresolved=counts[2])


def _base_name(artifact_dir: str, where: str) -> str:
    """The last part of the path, which is the trial's name."""
    name = Path(artifact_dir).name
    if name in ("", "..") or "\0" in artifact_dir:
        raise wrong_cell(where, "artifact_dir", "a path that ends in a trial's name", artifact_dir)
    try:
        return path_text(name)
    except UnicodeEncodeError:  # a lone surrogate, which no path can hold
        return plain_text(name)


def _place(
    artifact_dir: str,
    roots: Sequence[Path],
    next_to: Path,
    where: str,
    look: Callable[[Path], Place | None],
) -> tuple[Path | None, str, str] | None:
    """(what is below a PATH, name, episode); None where nothing is there.

    A relative path is looked for below each PATH, then next to the cells file, and nowhere else.
    """
    try:
        if os.path.isabs(artifact_dir):
            tries: list[list[Path]] = [[Path(artifact_dir)]]
        else:
            tries = [[root / artifact_dir for root in roots], [next_to / artifact_dir]]
        for candidates in tries:
            found = [place for path in candidates if (place := look(path)) is not None]
            if found:
                return _inside(found, roots, where)
    except ValueError:  # text that no path can hold
        return None
    return None


def _inside(
    found: Sequence[Place], roots: Sequence[Path], where: str
) -> tuple[Path | None, str, str]:
    places: dict[str, tuple[Path | None, str, str]] = {}
    for path, episode in found:
        below = _below(path, roots)
        if below is None:
            said = ", ".join(str(root) for root in roots)
            raise UsageError(
                f"{where}: artifact_dir: expected a directory or file below a PATH ({said}), "
                f"found {path}; add its job directory to the PATHs or correct the cell"
            )
        root, relative = below
        place = None if _through_link(root, relative) else root / relative
        places[real_place(path, episode)] = place, path_text(path.name + episode), episode
    if len(places) > 1:
        raise UsageError(
            f"{where}: artifact_dir: expected one directory or file, found {len(places)} by "
            f"that name: {', '.join(str(path) for path, _ in found)}; give an absolute path"
        )
    return next(iter(places.values()))


def _below(path: Path, roots: Sequence[Path]) -> tuple[Path, Path] | None:
    """(PATH, rest), by the spelling of the paths, else by what the system says they are."""
    for spelled in (os.path.abspath, os.path.realpath):
        for root in roots:
            try:
                return root, Path(spelled(path)).relative_to(spelled(root))
            except ValueError:
                continue
    return None


def _through_link(root: Path, relative: Path) -> bool:
    """Whether a symbolic link is on the way down from a PATH; none is followed."""
    steps = [relative, *relative.parents]
    states = (asked(os.lstat, root / step) for step in steps if step.parts)
    return any(state is not None and stat.S_ISLNK(state.st_mode) for state in states)
