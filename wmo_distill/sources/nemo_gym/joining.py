"""Which capture belongs to which row of a rollouts file: decided from names and ids alone.

A rollout's id is only unique in its run, so a row looks for its capture near its file, and a
capture belongs to the nearest rollouts file that has a row of its id:

    run/rollouts.jsonl                    row 0-0
    run/rollouts_failures.jsonl           row 0-1
    run/token_capture/0-0.tokens.jsonl    of row 0-0
    run/token_capture/0-2.tokens.jsonl    of no row: an episode of its own

Near are the same directory, those up to two levels below, and one next to it where no other has
captures or rows. Where two captures, or two files, are equally near, nothing is joined.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from wmo_distill.errors import ReadFault
from wmo_distill.files import TrialFiles, path_text
from wmo_distill.sources.base import Folder, in_each, listed
from wmo_distill.sources.nemo_gym.index import RowPlace, is_rollouts_file, rows_of

CAPTURE_FILES = (".tokens.jsonl", ".tokens.intents", ".tokens.incomplete", ".tokens.state.json")
_ROLLOUT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_ROWS = (*CAPTURE_FILES, ".capture.jsonl")
_MOST_SIBLINGS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """What of Gym's one directory holds."""

    path: Path
    relative: str
    folders: tuple[str, ...] = ()
    captures: frozenset[str] = frozenset()
    """Rollout ids."""
    rows: tuple[RowPlace, ...] = ()
    by_rollout: dict[str, RowPlace | None] = field(default_factory=dict)
    """The row that a capture of this id is of; None where several files have one."""
    faults: tuple[str, ...] = ()
    """What of files that may be Gym's could not be read."""
    is_listed: bool = True
    """Whether its names could be read: captures are known by these alone."""

    @property
    def holds_any(self) -> bool:
        return bool(self.captures or self.rows)


def directory_of(folder: Folder) -> Directory:
    """The captures and rows in a directory."""
    files = TrialFiles(folder.path)
    captures = set()

    def rows_in(name: str) -> Sequence[RowPlace]:
        suffix = next((s for s in CAPTURE_FILES if name.endswith(s)), None)
        if suffix is not None:
            rollout = name.removesuffix(suffix)
            if _ROLLOUT.fullmatch(rollout) and files.stat(name) is not None:
                captures.add(rollout)
            return ()
        is_of_rows = name.endswith(".jsonl") and not name.endswith(_NOT_ROWS)
        return rows_of(files, name) if is_of_rows and is_rollouts_file(files, name) else ()

    rows, faults = in_each(sorted(folder.files), rows_in)
    return Directory(
        folder.path, folder.relative, folder.folders,
        frozenset(captures), tuple(rows), _by_rollout(rows), faults,
    )  # fmt: skip


def _by_rollout(rows: list[RowPlace]) -> dict[str, RowPlace | None]:
    """Of several rows of one id in a file the last, which its capture was cleared for."""
    chosen: dict[str, RowPlace | None] = {}
    for failed in (True, False):  # a rollout that came to an end goes before its failures
        found: dict[str, RowPlace | None] = {}
        for row in rows:
            if row.failed is failed and row.rollout is not None:
                before = found.get(row.rollout, row)
                same = before is not None and before.file == row.file
                found[row.rollout] = row if same else None
        chosen |= found
    return chosen


@dataclass(slots=True)
class Runs:
    """The directories that one search has seen, and those near them that it looked into."""

    _visited: set[str] = field(default_factory=set)
    _known: dict[str, Directory] = field(default_factory=dict)
    _above: dict[str, tuple[Directory, ...]] = field(default_factory=dict)
    _captures: dict[str, dict[str, Directory | None]] = field(default_factory=dict)
    _doubts: dict[tuple[str, str | Path | None], tuple[str, ...]] = field(default_factory=dict)
    _any_faults: bool = False

    def visit(self, folder: Folder) -> Directory:
        """A directory of the search; all that is above it below a PATH was visited before."""
        self._visited.add(folder.relative)
        found = self._known.get(folder.relative)
        if found is None:
            found = directory_of(folder)
            if found.holds_any or found.faults:
                self._know(folder.relative, found)
        return found

    def _know(self, relative: str, found: Directory) -> None:
        self._known[relative] = found
        self._any_faults |= bool(found.faults)

    def row_doubts(self, place: Directory, rollout: str | None) -> tuple[str, ...]:
        """What could not be read where a nearer capture of a row may be, or a nearer row of it."""
        capture = None if rollout is None else self.capture(place, rollout)
        if not self._any_faults:  # of all that was looked into for the capture
            return place.faults
        key = place.relative, rollout if capture is None else capture.path
        if key not in self._doubts:
            self._doubts[key] = tuple(self._row_doubts(place, rollout, capture))
        return self._doubts[key]

    def _row_doubts(
        self, place: Directory, rollout: str | None, capture: Directory | None
    ) -> Iterator[str]:
        yield from place.faults
        for number, level in enumerate(self._levels(place)):
            if number == 2 and (parent := self._parent(place)) is not None:
                yield from self._counterpart_doubts(parent)
            for near in level:
                yield from () if near.is_listed else near.faults
                # Of two that are equally near, one may be of a nearer row.
                if near is capture or (capture is None and rollout in near.captures):
                    yield from self._doubts_below(place, near)
            if capture in level:
                break

    def capture_doubts(self, place: Directory, rollout: str) -> tuple[str, ...]:
        """What could not be read where the row of a capture may be, or a nearer capture of it."""
        owner = self.owner(place, rollout)
        own = () if owner is None else self.row_doubts(owner, rollout)
        return (*self._doubts_below(owner, place), *own)

    def _doubts_below(self, owner: Directory | None, place: Directory) -> Iterator[str]:
        """What could not be read on the way from a capture up to its row, or to where it may be."""
        way = self.above(place)
        nearer = way if owner is None or owner not in way else way[: way.index(owner)]
        for near in nearer:
            yield from near.faults
        if len(nearer) > 1:
            yield from self._counterpart_doubts(nearer[1])

    def _counterpart_doubts(self, parent: Directory) -> tuple[str, ...]:
        """What could not be read of directories next to each other, where that may join two.

        A file that cannot be read may hold rows, never a capture: next to a run that has both, or
        where nobody has captures, it changes nothing.
        """
        near = self._below(parent) if len(parent.folders) <= _MOST_SIBLINGS else []
        captures = [one for one in near if one.captures]
        closed = [one for one in near if not one.is_listed]
        if len(captures) > 1 or (captures and captures[0].rows):
            return ()
        may_join = near if captures else closed
        return tuple(fault for one in may_join for fault in one.faults)

    def owner(self, place: Directory, rollout: str) -> Directory | None:
        """The directory whose row a capture belongs to."""
        return next((near for near in self.above(place) if rollout in near.by_rollout), None)

    def above(self, place: Directory) -> tuple[Directory, ...]:
        """Where the rollouts file of a capture may be, the nearest first."""
        found = self._above.get(place.relative)
        if found is None:
            found = self._above[place.relative] = tuple(self._look_above(place))
        return found

    def _look_above(self, place: Directory) -> Iterator[Directory]:
        yield place
        parent = self._parent(place)
        if parent is None:
            return
        yield parent
        yield from self._counterpart(place, parent)
        grandparent = self._parent(parent)
        if grandparent is not None:
            yield grandparent

    def run(self, place: Directory) -> Directory:
        """The directory of the run that a capture is of: of its rows, else the one above it."""
        with_rows = next((near for near in self.above(place) if near.rows), None)
        return with_rows or self._parent(place) or place

    def capture(self, place: Directory, rollout: str) -> Directory | None:
        """The directory with the capture that belongs to the row of this id."""
        if place.by_rollout.get(rollout) is None:
            return None
        found = self._captures.get(place.relative)
        if found is None:
            found = self._captures[place.relative] = self._captures_of(place)
        return found.get(rollout)

    def _captures_of(self, place: Directory) -> dict[str, Directory | None]:
        """The nearest capture of each row; None where two are equally near."""
        nearest: dict[str, Directory | None] = {}
        for level in self._levels(place):
            found: dict[str, Directory | None] = {}
            for near in level:
                for rollout in near.captures & place.by_rollout.keys():
                    if self.owner(near, rollout) is place:
                        found[rollout] = None if rollout in found else near
            nearest = found | nearest
        return nearest

    def _levels(self, place: Directory) -> Iterator[list[Directory]]:
        yield [place]
        children = self._below(place)
        yield children
        parent = self._parent(place)
        yield [] if parent is None else list(self._counterpart(place, parent))
        yield [near for child in children for near in self._below(child)]

    def _counterpart(self, place: Directory, parent: Directory) -> Iterator[Directory]:
        """The one directory next to it that is its counterpart: rows here, captures there."""
        if len(parent.folders) > _MOST_SIBLINGS:
            return
        near = self._below(parent)
        with_rows = [one for one in near if one.rows]
        with_captures = [one for one in near if one.captures]
        if len(with_rows) == len(with_captures) == 1:
            yield from {*with_rows, *with_captures} - {place}

    def _below(self, place: Directory) -> list[Directory]:
        return [self._look(place, name) for name in sorted(place.folders)]

    def _look(self, place: Directory, name: str) -> Directory:
        relative = Folder(place.path, place.relative).below(path_text(name))
        return self._at(place.path / name, relative)

    def _parent(self, place: Directory) -> Directory | None:
        """The directory above, None where that is outside the PATHs."""
        above = str(PurePosixPath(place.relative).parent)
        inside = above in self._visited or above in self._known
        if place.relative in ("", ".") or not inside:
            return None
        return self._at(place.path.parent, above)

    def _at(self, path: Path, relative: str) -> Directory:
        found = self._known.get(relative)
        if found is None:
            try:
                folder = listed(path, relative)
                found = Directory(path, relative) if folder is None else directory_of(folder)
            except ReadFault as fault:
                found = Directory(path, relative, faults=(str(fault),), is_listed=False)
            self._know(relative, found)
        return found
