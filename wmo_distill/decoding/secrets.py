"""Where the text of a secret would be shown, its rule is: `build --on-secret` says which ids."""

from collections.abc import Container, Iterable, Iterator, Mapping

from wmo_distill.decoding.pieces import Kind, Piece
from wmo_distill.records import Secret
from wmo_distill.segment import Segment

_MORE = "▪"
"""Each token of a secret but the first."""


def own_tokens(
    chat: Segment, secret: Secret, breaks: Container[int] = ()
) -> Iterator[tuple[int, int, int]]:
    """(call, start, stop) of a secret's tokens among those that each call has new, last call first.

    Positions are of the call's prompt and completion as one sequence. What a call keeps is new in
    a call before it; calls before one of `breaks` are left out.

        call 0: prompt [1 2], sampled [3 4]      a secret at 2 to 4 of call 1
        call 1: keeps [1 2 3], adds [5 6]        -> (1, 3, 5), (0, 2, 3)
    """
    calls = chat.call_index.tolist()
    at = calls.index(secret.call_index) if secret.call_index in calls else -1
    stop = secret.stop
    while at >= 0 and stop > secret.start:
        kept = int(chat.prefix_len[at])
        if stop > kept:
            yield at, max(secret.start, kept), stop
        stop = min(stop, kept)
        at = -1 if at in breaks else at - 1


def marks_of(chat: Segment, secrets: Iterable[Secret]) -> dict[int, dict[int, str]]:
    """By call what to show in place of its new tokens that are of a secret, by their number.

    A break does not part a secret: its first ids may be those of the call before.
    """
    found: dict[int, dict[int, str]] = {}
    for one in secrets:
        for at, start, stop in own_tokens(chat, one) if one.segment == chat.number else ():
            marks, kept = found.setdefault(at, {}), int(chat.prefix_len[at])
            for place in range(start, stop):
                first = place in (start, chat.prompt_lens[at])
                marks.setdefault(place - kept, f"⟦secret: {one.rule}⟧" if first else _MORE)
    return found


def covered(pieces: Iterable[Piece], marks: Mapping[int, str], offset: int = 0) -> Iterator[Piece]:
    """The pieces, but a mark for each id of those that hold one at `offset` + its place."""
    for piece in pieces:
        places = range(piece.start, piece.stop)
        if marks and any(offset + at in marks for at in places):
            for at in places:
                yield Piece(at, at + 1, marks.get(offset + at, _MORE), Kind.SECRET)
        else:
            yield piece
