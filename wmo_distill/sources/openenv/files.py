"""Which files of a directory hold sessions of OpenEnv, known by their first keys."""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from wmo_distill.files import TrialFiles
from wmo_distill.sources.base import Folder, in_each
from wmo_distill.sources.growth import Section, marks_of
from wmo_distill.sources.values import object_in
from wmo_distill.tokenjson.outline import outline, read_between
from wmo_distill.tokenjson.reader import RecordReader
from wmo_distill.tokenjson.skeleton import ListNames

_NAMES = ListNames("prompt_token_ids", "completion_token_ids", "per_token_logps")
_ENDINGS = (".json", ".jsonl")


class Kind(StrEnum):
    """What an object is, in the order of what its tokens are worth."""

    DOCUMENT = "document"
    """The answer of `/sessions/{id}/rollout`: every call of a session."""
    RESULT = "result"
    """A rollout of `openenv harbor`: the agent's calls, and how it was graded."""
    RUN = "run"
    """A file of the UI's runs: a result, and when it ran."""
    ENTRIES = "entries"
    """The answer of `/sessions/{id}/trace_entries`: the agent's calls that can train."""


@dataclass(frozen=True, slots=True)
class Piece(Section):
    """One object of a file that is about a session."""

    kind: Kind
    session: str | None
    """As recorded; None where none is, or the object is cut off before it."""
    label: str | None = None
    """The trial's or the run's own name."""


_SIGNS: tuple[tuple[Kind, frozenset[str]], ...] = (
    (Kind.ENTRIES, frozenset(("session_id", "entries"))),
    (Kind.RESULT, frozenset(("session_id", "trial_name", "harness"))),
    (Kind.RESULT, frozenset(("agent_log_tail", "atif", "budget_stop_count"))),
    (Kind.RUN, frozenset(("id", "status", "harness", "sandbox"))),
    (Kind.DOCUMENT, frozenset(("session_id", "turns", "budget_stop_count"))),
    (Kind.DOCUMENT, frozenset(("session_id", "turns", "sequences"))),
    (Kind.DOCUMENT, frozenset(("budget_stop_count", "capture_level", "sequences"))),
)


def pieces_in(folder: Folder) -> tuple[list[Piece], tuple[str, ...]]:
    """(what the files hold of sessions, in order of name and place; what could not be read)."""
    files = TrialFiles(folder.path)
    names = sorted(name for name in folder.files if name.endswith(_ENDINGS))
    return in_each(names, partial(_pieces, folder, files))


def value_of(files: TrialFiles, piece: Piece) -> dict[str, object] | None:
    """The object of a piece, None where it cannot be read or is another session's by now.

    The prompts of its turns or entries are rows, each linked to the one before.
    """
    data = read_between(files, piece.name, piece.start, piece.end)
    reader = RecordReader(_NAMES, _holders, files.refuse_large)
    value = reader.read(data) if isinstance(data, bytes) else None
    if not isinstance(value, dict):
        return None
    inner = value.get("result") if piece.kind is Kind.RUN else value
    session = inner.get("session_id") if isinstance(inner, dict) else None
    return value if piece.session is None or session == piece.session else None


def _holders(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The turns of a result, of a run's or of a document, and entries."""
    for holder in (value, object_in(value.get("result"))):
        for calls in (holder.get("turns"), holder.get("entries")):
            yield from map(object_in, calls if isinstance(calls, list) else ())


def _pieces(folder: Folder, files: TrialFiles, name: str) -> Iterator[Piece]:
    state = files.state_of((name,))
    if _kind(folder.first_keys(name)) is None:
        return
    whole = outline(files, name)
    marks = marks_of(files, name, [(element.start, element.end) for element in whole])
    for element, mark in zip(whole, marks, strict=True):
        kind = _kind(element.texts.keys())
        if kind is None:
            continue
        inner = "result." if kind is Kind.RUN else ""
        label = element.text("id" if kind is Kind.RUN else "trial_name")
        session = element.text(f"{inner}session_id")
        yield Piece(name, element.start, element.end, mark, state, kind, session, label)


def _kind(keys: Set[str]) -> Kind | None:
    return next((kind for kind, signs in _SIGNS if signs <= keys), None)
