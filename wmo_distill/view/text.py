"""The text of tokens for a page: one text a character, whichever tokens it is made of."""

from wmo_distill.decoding import Decoder, Kind
from wmo_distill.decoding.secrets import covered
from wmo_distill.view.flat import Flat
from wmo_distill.visible import visible_start

KINDS = tuple(Kind)
_MOST = 2_000
"""Characters of one token."""


def texts(
    decoder: Decoder, flat: Flat, start: int, stop: int
) -> tuple[list[str | None], list[int]]:
    """For each token its text, and the place of its kind in `KINDS`.

    None for a token that only completes the character of the one before it.
    """
    found: list[str | None] = [None] * (stop - start)
    kinds = [0] * (stop - start)
    for begin, before, ids in flat.around(start, stop):
        for piece in covered(decoder.stream(ids), flat.marks, begin - before):
            first = begin - before + piece.start
            for at in range(max(first, start), min(begin - before + piece.stop, stop)):
                if at >= begin:
                    kinds[at - start] = KINDS.index(piece.kind)
                    found[at - start] = visible_start(piece.text, _MOST) if at == first else None
    return found, kinds
