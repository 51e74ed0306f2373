"""Sessions of OpenEnv's capture proxy, one a trial, from all that a directory holds of them."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wmo_distill.files import FilesState, TrialFiles, path_text
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import NOTHING, Folder, FoundTrial, Here
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.growth import state_of_sections
from wmo_distill.sources.openenv.files import Kind, Piece, pieces_in
from wmo_distill.sources.openenv.reading import read_session

_MINTED = re.compile("s[0-9a-f]{24}")
"""A session id that the proxy chose: it is no other session's anywhere."""
_PLAIN = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True)
class Pieces:
    """What a directory holds of one session, the best tokens first: the locator."""

    job: str
    pieces: tuple[Piece, ...]


class OpenEnv:
    """The source `openenv`."""

    kind = "openenv"

    def find(self, folder: Folder) -> Here:
        pieces, faults = pieces_in(folder)
        if faults:  # a file that cannot be read may hold the better half of any session
            return Here(faults=faults)
        sessions = _by_session(pieces)
        found = [self._found(folder, pieces) for pieces in sessions]
        taken: dict[str, int] = defaultdict(int)
        unique = []
        for trial in found:
            taken[trial.path] += 1
            again = taken[trial.path]
            unique.append(trial if again == 1 else replace(trial, path=f"{trial.path}#{again}"))
        return Here(tuple(unique)) if unique else NOTHING

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        """That of the session's pieces."""
        pieces = _pieces_of(found).pieces
        return state_of_sections(TrialFiles(found.root), pieces, [piece.kind for piece in pieces])

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        located = _pieces_of(found)
        return [read_session(found, located.job, located.pieces)]

    def _found(self, folder: Folder, pieces: Sequence[Piece]) -> FoundTrial:
        first = pieces[0]
        session = first.session
        plain = session is not None and _PLAIN.fullmatch(session) is not None
        inside = "" if first.kind in (Kind.DOCUMENT, Kind.ENTRIES, Kind.RUN) else (
            f"#{session if plain else first.start}"
        )  # fmt: skip
        path = folder.below(path_text(first.name)) + inside
        names = [piece.label for piece in pieces if piece.label]
        own = session if plain else next(iter(names), None)
        unique = own if own and _MINTED.fullmatch(own) else own and folder.below(own)
        return FoundTrial(
            source=self.kind,
            root=folder.path,
            path=path,
            trial_id=unique,
            trial_name=next(iter(names), session or path_text(first.name)),
            locator=Pieces(path_text(folder.path.name), tuple(pieces)),
        )


def _by_session(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Pieces of one session and of different kinds together; of one kind each by itself."""
    order = list(Kind)
    sessions: dict[str, list[Piece]] = {}
    alone: list[list[Piece]] = []
    for piece in pieces:
        known = sessions.setdefault(piece.session, []) if piece.session else None
        if known is None or any(other.kind is piece.kind for other in known):
            alone.append([piece])
        else:
            known.append(piece)
    grouped = [sorted(known, key=lambda p: order.index(p.kind)) for known in sessions.values()]
    return sorted([*grouped, *alone], key=lambda known: (known[0].name, known[0].start))


def _pieces_of(found: FoundTrial) -> Pieces:
    return found.locator if isinstance(found.locator, Pieces) else Pieces("", ())
