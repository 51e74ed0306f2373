"""The seam for sources: what a format of recorded trials has to offer, and nothing else of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from wmo_distill.disk import entries
from wmo_distill.errors import ReadFault
from wmo_distill.files import FilesState, TrialFiles
from wmo_distill.options import BuildOptions
from wmo_distill.sources.evidence import Evidence

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FoundTrial:
    """One row of the ledger: a trial, found and not yet read. It is pickled to workers."""

    source: str
    """The `kind` of the source that reads it."""
    root: Path
    """Its directory, or its file."""
    path: str
    """POSIX, relative to the parent of the PATHs; with `#` and an id where a file holds several."""
    trial_id: str | None = None
    """By the first bytes; reading tells for certain."""
    trial_name: str = ""
    locator: object = None
    """What the source needs to find it again in its file, or next to it; frozen."""
    cut: bool = False
    """Whether a recorded name in these held a credential, which was cut."""
    is_sure: bool = False
    """Whether the id is certain, so that nobody reads the trial for it."""
    fault: str = ""
    """What could not be read of it, or of its job, when it was found; it is then not read."""

    @property
    def sort_key(self) -> bytes:
        """Paths compare as UTF-8 bytes."""
        return self.path.encode()


@dataclass(frozen=True, slots=True)
class Folder:
    """One directory on the way: its files and its folders by name, links to folders are files."""

    path: Path
    relative: str
    """POSIX, relative to the parent of the PATHs."""
    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()
    _keys: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)

    def first_keys(self, name: str) -> frozenset[str]:
        """The keys of the first object in a file, as its first bytes show them.

        They are read once, whichever sources ask; a key in an object of the first is `outer.inner`.
        """
        from wmo_distill.tokenjson.outline import first_object  # no trial of Harbor's needs it

        if (keys := self._keys.get(name)) is None:
            first = first_object(TrialFiles(self.path), name)
            keys = self._keys[name] = _kept(frozenset(first.texts if first else ()))
        return keys

    def below(self, name: str) -> str:
        """The relative path of a name in it."""
        return name if self.relative in ("", ".") else f"{self.relative}/{name}"


@lru_cache(1024)
def _kept(keys: frozenset[str]) -> frozenset[str]:
    """Equal keys are in memory once: a directory may hold many files of one form."""
    return keys


@dataclass(frozen=True, slots=True)
class Here:
    """What a source finds in one directory."""

    trials: tuple[FoundTrial, ...] = ()
    whole: bool = False
    """Whether the directory is the source's own: no other one is asked, nothing below searched."""
    faults: tuple[str, ...] = ()
    """What could not be read, of files that may hold trials."""
    taken: frozenset[str] = frozenset()
    """Files of this format, which no other source need look at."""


NOTHING = Here()


class Source(Protocol):
    """A format of recorded trials. Nothing that a file holds may raise out of it.

    A file that is there and cannot be read is a ReadFault, which nobody between catches but
    `in_each`.
    """

    @property
    def kind(self) -> str:
        """Its name, which becomes the column `format`."""
        ...

    def find(self, folder: Folder) -> Here:
        """The trials of this format in one directory, by names, tables and first bytes."""
        ...

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        """Sizes and times of the files that reading may open."""
        ...

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        """The evidence of its episodes in recorded order; none where its file cannot be read."""
        ...


@runtime_checkable
class Exact(Protocol):
    """A source whose `state` is by the places and sizes of records, of which each is read once.

    A ledger row has the exact state, so that a trial is read in one pass, and an altered record
    again: the next build looks at the records of the trials that it knows.
    """

    def exact_state(self, found: FoundTrial, known: FilesState | None) -> FilesState:
        """By all bytes of the records; `known` where the files are as they were when found."""
        ...


def listed(path: Path, relative: str) -> Folder | None:
    """A directory with the names in it; None where none is there."""
    names = entries(path)
    if names is None:
        return None
    folders = tuple(name for name, is_folder in names.items() if is_folder)
    return Folder(path, relative, frozenset(names.keys() - set(folders)), folders)


def in_each(
    names: Iterable[str], look: Callable[[str], Iterable[_T]]
) -> tuple[list[_T], tuple[str, ...]]:
    """What `look` finds in each file, and what could not be read: it costs the others nothing."""
    found: list[_T] = []
    faults = []
    for name in names:
        try:
            found += look(name)
        except ReadFault as fault:
            faults.append(str(fault))
        except MemoryError:
            faults.append(f"{name}: expected memory enough to look into it, found too little")
    return found, tuple(faults)
