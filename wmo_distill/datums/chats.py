"""The chats of a record, with the breaks that a build of datums finds in them."""

from dataclasses import dataclass

from wmo_distill.datums.breaks import Decode
from wmo_distill.datums.datum import BreakCause
from wmo_distill.datums.merge import merge
from wmo_distill.records import TrialRecord
from wmo_distill.segment import Segment


@dataclass(frozen=True, slots=True)
class Chat:
    """The calls of a segment in the order of `call_index`, and the cause of each break by call."""

    calls: Segment
    causes: dict[int, BreakCause]


def chats_of(record: TrialRecord, decode: Decode | None = None) -> list[Chat]:
    """The chats in the order of their numbers; with the text of ids causes are more certain."""
    found = []
    for number, recorded in sorted(record.chats.items()):
        compactions = record.compactions if number == 0 else ()
        fragments = merge(recorded, compactions=compactions, decode=decode).fragments
        causes = {f.runs[0][0].start: f.cause for f in fragments if f.cause is not None}
        found.append(Chat(fragments[0].chat if fragments else recorded, causes))
    return found
