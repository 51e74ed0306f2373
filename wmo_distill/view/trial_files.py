"""A trial's own files, to be read: inside its directory alone, no links, a piece at a time."""

import codecs
import os
from typing import Any, NamedTuple

from wmo_distill.files import Absent, TrialFiles, path_text, text_path
from wmo_distill.shards.manifest import Manifest
from wmo_distill.visible import visible, visible_start

MOST_BYTES = 1 << 16
"""Of a file that one answer holds."""
_MOST_FILES = 2_000
_MOST_DEPTH = 12


def listing(manifest: Manifest, artifact_dir: str) -> dict[str, Any]:
    """The regular files below a trial's directory, by path, with their sizes."""
    files, base = _place(manifest, artifact_dir)
    found: list[dict[str, Any]] = []
    if (single := files.stat(base)) is not None:
        return {"files": [_entry("", single)], "more": False, "there": True}
    left = [("", 0)]
    while left and len(found) < _MOST_FILES:
        folder, depth = left.pop()
        inner = []
        for name in files.names(f"{base}/{folder}".rstrip("/")):
            path = f"{folder}/{name}".lstrip("/")
            if (state := files.stat(f"{base}/{path}")) is not None:
                found.append(_entry(path, state))
            elif depth < _MOST_DEPTH and files.is_dir(f"{base}/{path}"):
                inner.append((path, depth + 1))
        left += reversed(inner)
    return {"files": found[:_MOST_FILES], "more": bool(left), "there": files.is_dir(base)}


class Piece(NamedTuple):
    """A piece of a file as text in which everything can be seen."""

    text: str
    size: int
    """Of the whole file, in bytes."""
    next: int
    """Where the next piece begins."""


def piece(manifest: Manifest, artifact_dir: str, path: str, start: int) -> Piece | None:
    """At most `MOST_BYTES` of a file from `start`; None where no such file is."""
    files, base = _place(manifest, artifact_dir)
    whole = f"{base}/{os.fspath(text_path(path))}" if path else base
    state = files.stat(whole)
    if state is None:
        return None
    start = max(0, min(start, state.st_size))
    data = files.read(whole, MOST_BYTES, start)
    if isinstance(data, Absent):
        return None
    if len(data) == MOST_BYTES:
        data = _whole_characters(data)
    text = visible(data.decode("utf-8", "backslashreplace"), "\n\t")
    return Piece(text, state.st_size, start + len(data))


def _whole_characters(data: bytes) -> bytes:
    """Without the start of a character that the next piece ends."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]


def _place(manifest: Manifest, artifact_dir: str) -> tuple[TrialFiles, str]:
    """The files below the dataset's parent, and where the trial's are: links on the way count."""
    parent = text_path(manifest.parent)
    base = os.fspath(text_path(artifact_dir))
    files = TrialFiles(parent)
    if files.stat(base) is None and not files.is_dir(base) and "#" in base:
        # an episode of a file that holds several
        base = base.rpartition("#")[0]
    return files, base


def _entry(path: str, state: os.stat_result) -> dict[str, Any]:
    text = path_text(path)
    return {"path": text, "shown": visible_start(text, 300), "bytes": state.st_size}
