"""The search below the PATHs: every directory is shown to every source, once."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, unquote

from wmo_distill.credentials import without_credentials
from wmo_distill.errors import ReadFault
from wmo_distill.files import path_text, text_path
from wmo_distill.limits import TooLarge
from wmo_distill.sources.base import NOTHING, Folder, FoundTrial, Here, Source, listed
from wmo_distill.sources.harbor.source import Harbor
from wmo_distill.sources.places import (
    AnyPaths,
    common_parent,
    outermost,
    path_below,
    places_of,
    relative,
)
from wmo_distill.sources.registry import other_sources


@dataclass(frozen=True, slots=True)
class Found:
    """The trials below the PATHs in order of path, and the directories not seen whole."""

    parent: Path
    trials: tuple[FoundTrial, ...]
    paths: tuple[str, ...]
    """The PATHs, relative to the parent."""
    unlisted: Mapping[str, str] = field(default_factory=dict)
    """Directories that cannot be listed, or hold a file that may be a trial and cannot be read,
    each with what was found."""

    def covers(self, path: str) -> bool:
        """Whether a trial's path is under one of the PATHs, where everything could be seen."""
        return any(map(path_below, [path] * len(self.paths), self.paths)) and not any(
            # a trial that is several files of a directory is the directory, # and its name
            path_below(path, unlisted) or path.startswith(f"{unlisted}#")
            for unlisted in self.unlisted
        )


def discover(paths: AnyPaths, parent: Path | None = None) -> Found:
    """Find the trials below the PATHs; `parent` takes the place of their deepest common parent.

    UsageError for a PATH that is no readable directory, or is outside a given parent.
    """
    places = places_of(paths)
    base = common_parent(places) if parent is None else parent
    names = tuple(dict.fromkeys(relative(place, base) for place in places))
    walk = _Walk(base)
    for root in outermost(places):
        walk.search(root)
    ordered = sorted(walk.trials.values(), key=lambda trial: trial.sort_key)
    return Found(base, tuple(ordered), names, dict(sorted(walk.unlisted.items())))


def found_at(root: Path, parent: Path) -> FoundTrial:
    """The trial in a directory that somebody names as one, whatever it holds."""
    path = relative(root, parent)
    try:
        walk = _Walk(parent)
        folder = listed(root, path)
        if folder is not None:
            walk.look(folder)
        trials = tuple(walk.trials.values())
        found = trials[0] if len(trials) == 1 else Harbor().named(root, path)
        return replace(found, fault=found.fault or walk.unlisted.get(path, ""))
    except ReadFault as fault:
        return FoundTrial("", root, path, trial_name=path_text(root.name), fault=str(fault))


def found_again(path: str, parent: Path, inputs: Sequence[str]) -> FoundTrial | None:
    """The trial that a search below the PATHs `inputs` finds at this path, None if there is none.

    Only the directories on the way are looked into; where one cannot be, it may be there.
    """
    walk = _Walk(parent)
    for above in inputs:
        if not path_below(path, above):
            continue
        at = "" if above == "." else above
        names = [name for name in path.removeprefix(at).split("/") if name not in ("", ".")]
        walk.descend(parent / text_path(above), [str(text_path(name)) for name in names])
        if path in walk.trials:
            return walk.trials[path]
    faults = list(walk.unlisted.values())
    return FoundTrial("", parent, path, fault=faults[0]) if faults else None


@dataclass(slots=True)
class _Walk:
    """One search; a source may remember between directories what it saw.

    Harbor is asked first. The others are loaded at the first directory with a file that Harbor has
    not taken, and are then shown the directories before it too.
    """

    parent: Path
    trials: dict[str, FoundTrial] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)
    _harbor: Harbor = field(default_factory=Harbor)
    _others: tuple[Source, ...] = ()
    _before: list[Folder] = field(default_factory=list)

    def search(self, root: Path) -> None:
        """Look at a directory and all below it, but for what is below a trial."""
        self._visit(root, lambda folder: folder.folders)

    def descend(self, directory: Path, names: Iterable[str]) -> None:
        """The same on one way down."""
        left = iter(names)
        self._visit(directory, lambda folder: [n for n in (next(left, ""),) if n in folder.folders])

    def _visit(self, root: Path, below: Callable[[Folder], Iterable[str]]) -> None:
        waiting = [root]
        while waiting:
            directory = waiting.pop()
            path = relative(directory, self.parent)
            try:
                folder = listed(directory, path)
            except ReadFault as fault:
                self.unlisted[path] = str(fault)
                continue
            # None: taken away since its name was read.
            if folder is not None and not self.look(folder).whole:
                waiting += [directory / name for name in below(folder)]

    def look(self, folder: Folder) -> Here:
        """What all sources find in one directory, up to the first whose own it is."""
        here = self._found(folder, self._harbor)
        if here.whole:
            return here
        folder = _without(folder, here)
        if folder.files and not self._others:
            self._others = other_sources()
            for earlier in self._before:
                self._ask(earlier)
        if self._others:
            return self._ask(folder)
        self._before.append(folder)
        return here

    def _ask(self, folder: Folder) -> Here:
        here = NOTHING
        for source in self._others:
            here = self._found(folder, source)
            folder = _without(folder, here)
            if here.whole:
                break
        return here

    def _found(self, folder: Folder, source: Source) -> Here:
        try:
            here = source.find(folder)
        except TooLarge as error:
            here = Here(faults=(str(error),))
        for trial in map(_without_credentials, here.trials):
            self.trials[trial.path] = trial
        for said in here.faults[:1]:
            self.unlisted.setdefault(folder.relative, said)
        return here


def _without(folder: Folder, here: Here) -> Folder:
    return replace(folder, files=folder.files - here.taken) if here.taken else folder


def _without_credentials(trial: FoundTrial) -> FoundTrial:
    """Without those in recorded names; what is behind the `#` of a path stays another's.

    A file is found again by its own name, which is kept.
    """
    file, mark, name = trial.path.rpartition("#")
    plain, path, given = unquote(name), trial.path, trial.trial_id
    if mark and (cut := without_credentials(plain)) != plain:
        path = f"{file}#{quote(cut, safe='')}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    trial_id = path if given == trial.path else given and _named(given)
    trial_name = _named(trial.trial_name)
    if (path, trial_id, trial_name) == (trial.path, given, trial.trial_name):
        return trial
    return replace(trial, path=path, cut=True, trial_id=trial_id, trial_name=trial_name)


def _named(name: str) -> str:
    """A name that may be quoted, as in a path."""
    cut = without_credentials(plain := unquote(name))
    return name if cut == plain else cut
