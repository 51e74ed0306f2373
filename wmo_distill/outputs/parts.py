"""The one writer of a directory: numbered, whole files that become its content at a commit.

Files are written in a staging directory. One with a manifest in it is a decision: everything before
it is synced, and who finds it after a crash finishes the move. One without is worth nothing.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic

from wmo_distill.disk import is_there
from wmo_distill.errors import DistillError, UsageError, stop_says
from wmo_distill.files import Absent, file_sha256, path_text, sync_directory, sync_file
from wmo_distill.outputs.lock import LOCK_FILE, writer_lock
from wmo_distill.outputs.manifest import MANIFEST, STAGING, Kind, M, PartFile, stated
from wmo_distill.outputs.metrics import METRICS, RUNS
from wmo_distill.outputs.stored import footer_sha256


@contextmanager
def writing(
    out: Path, kind: Kind[M], *, fresh: bool = False, differs: Callable[[M], str] = lambda _: ""
) -> Iterator["Parts[M]"]:
    """Be the one writer of a directory; what is not committed in the end is discarded.

    UsageError for another writer, where `out` is something else, and, unless `fresh`, where the
    manifest in it `differs` from what is asked for: a phrase, "" where it does not. DistillError,
    which says what is there now, where the disk fails. A directory that was made in vain is taken
    away again.
    """
    if os.fspath(out).encode("utf-8", "ignore") != os.fsencode(out):  # Arrow writes to no other
        raise UsageError(
            f"{path_text(out)}: expected a path in UTF-8, found other bytes; name another directory"
        )
    check_out(out, kind, fresh=fresh)
    parts = Parts(out, kind)
    try:
        with stop_says(lambda: f"{out} {parts.state()}"), writer_lock(out):
            check_out(out, kind, fresh=fresh)  # another run may have been there first
            try:
                parts.recover()
                before = None if fresh else parts.before
                if before is not None and (phrase := differs(before)):
                    raise UsageError(
                        f"{out}: {phrase}; give the same, name another directory, or --fresh"
                    )
                yield parts
            finally:
                parts.discard()
    except OSError as error:
        raise DistillError(
            f"{error.filename or out}: expected a file system to read from and write to, found: "
            f"{error.strerror or error}; {out} {parts.state()}"
        ) from error


class Parts(Generic[M]):
    """Files that take their numbers and names together.

    >>> with writing(out, DATUMS) as parts:
    ...     path = parts.begin()  # and write it
    ...     part = parts.end(rows=3)
    ...     parts.commit(DatumManifest(parts=[part], ...))
    """

    def __init__(self, out: Path, kind: Kind[M]) -> None:
        self.out, self.kind = out, kind
        self.before: M | None = None
        """The manifest that was there, if it is one that can be read."""
        self.parts: list[PartFile] = []
        """Those that were begun and ended since the last commit."""
        self._place: Path | None = None
        self._next = 0
        self._begun = Path()
        self._committed = False

    @property
    def place(self) -> Path:
        """The staging directory; UsageError where none can be made, unless work was done."""
        if self._place is None:
            try:
                self._place = Path(tempfile.mkdtemp(prefix=STAGING, dir=self.out))
            except OSError as error:
                if self._committed:
                    raise
                raise UsageError(
                    f"{self.out}: expected a directory that can be written to, found: "
                    f"{error.strerror}; change its permissions, or name another"
                ) from None
            (self._place / self.kind.folder).mkdir(exist_ok=True)
            # No file is written to that a manifest names, whether it can be read or not.
            self._next = 1 + max(map(self.kind.number, self._names()), default=-1)
        return self._place

    def begin(self, ending: str = "parquet") -> Path:
        """Where the next file is to be written."""
        folder = self.place / self.kind.folder
        self._begun = folder / f"{self.kind.stem}-{self._next:05d}.{ending}"
        self._next += 1
        return self._begun

    def name(self) -> str:
        """The name of the file that was begun last, as a manifest holds it."""
        return self._begun.relative_to(self.place).as_posix()

    def end(self, rows: int) -> PartFile:
        """The file that was begun is complete: it is synced, and the manifest's account of it."""
        sync_file(self._begun)
        sha256, size = file_sha256(self._begun)
        footer = footer_sha256(self._begun) if self._begun.suffix == ".parquet" else None
        self.parts.append(
            PartFile(file=self.name(), rows=rows, bytes=size, sha256=sha256, footer=footer)
        )
        return self.parts[-1]

    def commit(self, manifest: M) -> None:
        """Put the files and their manifest in place, and remove the parts that it does not name."""
        sync_directory(self.place / self.kind.folder)
        self.kind.write(self.place, manifest)
        self._move(self.place)
        self._clean(manifest.files())
        shutil.rmtree(self.place, ignore_errors=True)
        self._place, self.parts = None, []

    def discard(self) -> None:
        """Remove what was not committed; a commit that was broken off is left to `recover`."""
        for place in self.out.glob(f"{STAGING}*"):
            if not is_there(place / MANIFEST):
                shutil.rmtree(place, ignore_errors=True)
        self._place, self.parts = None, []

    def recover(self) -> None:
        """Finish a commit that was broken off, and remove what runs without one have left."""
        for place in unfinished_commits(self.out):
            self._move(place)
        for place in self.out.glob(f"{STAGING}*"):
            shutil.rmtree(place, ignore_errors=True)
        with suppress(UsageError):
            self.before = self.kind.read(self.out)
            self._clean(self.before.files())

    def state(self) -> str:
        """What is in the directory after a fault, and what to do."""
        try:
            unfinished = unfinished_commits(self.out)
        except OSError:
            return "cannot be read now; run it again, which finishes or removes what was begun"
        if unfinished:
            return "holds a commit that is not finished; run it again, which finishes it first"
        if self._committed:
            return "holds what was committed; run it again, which removes what that replaced"
        return "was left as it was; run it again"

    def _move(self, place: Path) -> None:
        """Parts first, the manifest last; each step can be done again."""
        folder = self.out / self.kind.folder
        folder.mkdir(exist_ok=True)
        for name in sorted(os.listdir(place / self.kind.folder)):
            if self.kind.number(name) >= 0:
                os.replace(place / self.kind.folder / name, folder / name)
        sync_directory(folder)
        for name in self.kind.fixed:
            if is_there(place / name):
                os.replace(place / name, self.out / name)
        self._committed = True  # as soon as the manifest is no longer in the staging directory
        os.replace(place / MANIFEST, self.out / MANIFEST)
        sync_directory(self.out)

    def _clean(self, named: Collection[str]) -> None:
        """Remove parts that the manifest does not name, and files that were never complete."""
        for name in self._names():
            file = f"{self.kind.folder}/{name}".lstrip("/")
            if self.kind.number(name) >= 0 and file not in named:
                (self.out / file).unlink(missing_ok=True)
        for folder in {self.out, self.out / self.kind.folder}:
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)

    def _names(self) -> list[str]:
        folder = self.out / self.kind.folder
        return sorted(os.listdir(folder)) if folder.is_dir() else []


def check_out(out: Path, kind: Kind[Any], *, fresh: bool = False) -> None:
    """UsageError unless `out` is of this kind, what a run left unfinished, empty, or not there.

    `fresh` lets a manifest of this kind through that is damaged or of another version.
    """
    try:
        _refuse_other(out, kind, fresh=fresh)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"{out}: expected a directory for {kind.noun}, found: {error.strerror}; name another"
        ) from None


def _refuse_other(out: Path, kind: Kind[Any], *, fresh: bool) -> None:
    names = sorted(os.listdir(out))
    for place in unfinished_commits(out):
        value = stated(place)
        if value is Absent.MISSING:  # the commit of another run, which has just come to its end
            continue
        if not isinstance(value, dict) or value.get(kind.mark[0]) != kind.mark[1]:
            raise UsageError(
                f"{out}: expected {kind.noun}, found a commit of another command that was broken "
                f"off ({place.name}); run that command again, or name another directory"
            )
    other = [name for name in names if not _is_own(out, name, kind)]
    # In this order: a commit has its manifest in one of the two places, and moves it to the second.
    unfinished = unfinished_commits(out)
    if (out / MANIFEST).exists():
        if not (fresh and _was_ours(out, kind, other)):
            kind.read(out)
        return
    if not unfinished:  # a commit that was broken off has put parts there, and no manifest
        other = [name for name in names if name in other or kind.number(name) >= 0]
    if other:
        shown = ", ".join(map(path_text, other[:3])) + (", ..." if len(other) > 3 else "")
        raise UsageError(
            f"{out}: expected {kind.noun} or an empty directory, found other files ({shown}); "
            "name another directory"
        )


def unfinished_commits(out: Path) -> list[Path]:
    """The staging directories of commits that were broken off."""
    return sorted(p for p in out.glob(f"{STAGING}*") if is_there(p / MANIFEST))


def _is_own(out: Path, name: str, kind: Kind[Any]) -> bool:
    """Whether an entry of a directory is one that a run of this kind leaves there."""
    if kind.folder and name == kind.folder:
        try:
            names = os.listdir(out / name)
        except OSError:
            return False
        return all(kind.number(n) >= 0 or _is_temporary(n) for n in names)
    known = (MANIFEST, LOCK_FILE, *kind.fixed)
    part = not kind.folder and kind.number(name) >= 0
    return name in known or name.startswith(STAGING) or _is_temporary(name) or part


def _was_ours(out: Path, kind: Kind[Any], other: Collection[str]) -> bool:
    """Whether a manifest was written by this tool, in whatever version or state."""
    value = stated(out)
    if isinstance(value, dict):
        return bool(value.get(kind.mark[0]) == kind.mark[1])
    return value is Absent.UNREADABLE and not set(other) - {METRICS, RUNS}


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")
