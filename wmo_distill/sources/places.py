"""PATHs as they are given: checked, made absolute, and relative to what they share."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from wmo_distill.disk import asked, entries, is_directory
from wmo_distill.errors import ReadFault, UsageError
from wmo_distill.files import path_text

AnyPaths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One PATH, or several."""


def places_of(paths: AnyPaths) -> list[Path]:
    """The PATHs, absolute; UsageError for one that is no readable directory."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not paths:
        raise UsageError("PATH: expected at least one directory of trials, found none; name one")
    return [_place(path) for path in paths]


def common_parent(places: Sequence[Path]) -> Path:
    """The deepest directory that holds every PATH; for one PATH its parent."""
    return Path(os.path.commonpath([place.parent for place in places]))


def relative(place: Path, parent: Path) -> str:
    """A place below the parent as POSIX text; UsageError where it is outside."""
    for spelled in (os.fspath, os.path.realpath):
        try:
            below = Path(spelled(place)).relative_to(spelled(parent))
        except ValueError:
            continue
        return path_text(below.as_posix())
    raise UsageError(
        f"{place}: expected a PATH below {parent}, the parent of the dataset's first build, found "
        "one outside it; build into another directory, or all PATHs again with --fresh"
    )


def path_below(path: str, above: str) -> bool:
    """Whether a relative path is, or is below, another."""
    return above == "." or path == above or path.startswith(above + "/")


def outermost(places: Sequence[Path]) -> Iterator[Path]:
    """The PATHs that are below no other, each once, so that no trial is found twice."""
    kept: list[str] = []
    for place in sorted(places, key=lambda p: (len(os.path.realpath(p)), os.fsencode(p))):
        real = os.path.realpath(place)
        if not any(Path(real).is_relative_to(above) for above in kept):
            kept.append(real)
            yield place


def _place(path: str | os.PathLike[str]) -> Path:
    """An absolute PATH, links in it as given."""
    given = Path(path)
    # `..` behind a link leads elsewhere than its text says.
    place = Path(os.path.realpath(given)) if ".." in given.parts else given.absolute()
    try:
        if not is_directory(place):
            kind = "nothing there" if asked(os.lstat, place) is None else "no directory"
            raise UsageError(
                f"{given}: expected a directory of trials, jobs, or one trial, found {kind}; "
                "check the PATH"
            )
        entries(place)
    except ReadFault as fault:
        raise UsageError(
            f"{given}: expected a directory that can be listed, found: {fault.found}; "
            "check the PATH and its permissions"
        ) from None
    return place


def checked_sinks(sinks: Path | None) -> Path | None:
    """The directory of sinks, absolute; UsageError where none is there."""
    if sinks is not None and not is_directory(sinks):
        raise UsageError(
            f"--sinks: expected a directory of sink files, found none at {sinks}; check the path"
        )
    return None if sinks is None else sinks.absolute()
