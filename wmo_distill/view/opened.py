"""The state of a dataset that is served: its manifest, its parts, and the index of its episodes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TypeVar

from wmo_distill.disk import asked
from wmo_distill.errors import DistillError
from wmo_distill.outputs.manifest import MANIFEST, STAGING
from wmo_distill.outputs.parts import check_out
from wmo_distill.outputs.stored import footer_sha256
from wmo_distill.shards.manifest import DATASET, Manifest, read_manifest
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.view.index import Index

_T = TypeVar("_T")
_Mark = tuple[int, int, int]
_TRIES = 5


class NothingCommitted(DistillError):  # noqa: N818 - a state of a dataset that is being built
    """No build has committed anything yet."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A dataset as one manifest has it."""

    mark: str
    """Another for each commit."""
    manifest: Manifest
    index: Index


class Dataset:
    """A directory that builds may change while it is read: always the newest commit."""

    def __init__(self, out: Path) -> None:
        """UsageError for a directory that is neither a dataset nor one that is being made."""
        check_out(out, DATASET)
        self.out = out
        self._lock = RLock()
        self._opened: Opened | None = None

    def read(self, question: Callable[[Opened], _T]) -> _T:
        """The answer from the newest commit; asked again where a commit came between.

        NothingCommitted before the first commit, DistillError where something is damaged.
        """
        for _ in range(_TRIES):
            mark = self._mark()
            try:
                return question(self._current(mark))
            except DistillError:
                if self._mark() == mark:
                    raise
        return question(self._current(self._mark()))

    def mark(self) -> str | None:
        """Another for each commit, None before the first."""
        mark = self._mark()
        return None if mark is None else _text(mark)

    def whole_parts(self) -> int:
        """How many part files a build has finished that are not committed yet."""
        found = 0
        for path in self.out.glob(f"{STAGING}*/{DATASET.folder}/*.parquet"):
            try:
                footer_sha256(path)
            except (OSError, ValueError):  # being written, or moved by a commit just now
                continue
            found += 1
        return found

    def _current(self, mark: _Mark | None) -> Opened:
        if mark is None:
            raise NothingCommitted(
                f"{self.out}: expected a dataset, found nothing committed yet; wait for the build"
            )
        with self._lock:
            if self._opened is None or self._opened.mark != _text(mark):
                self._opened = None  # its memory is needed for the next one
                manifest = read_manifest(self.out)
                parts = [DATASET.stored(self.out, part, SCHEMA) for part in manifest.parts]
                self._opened = Opened(_text(mark), manifest, Index.of(parts))
            return self._opened

    def _mark(self) -> _Mark | None:
        state = asked(os.stat, self.out / MANIFEST)
        return None if state is None else (state.st_ino, state.st_mtime_ns, state.st_size)


def _text(mark: _Mark) -> str:
    return "-".join(f"{number:x}" for number in mark)
