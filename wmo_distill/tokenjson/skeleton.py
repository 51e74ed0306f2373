"""What a scan leaves of a document, and what it took out."""

from dataclasses import dataclass
from typing import NamedTuple

from wmo_distill.tokenjson.extras import Written
from wmo_distill.tokenjson.rows import IdRow, LogprobRow
from wmo_distill.tokenjson.values import Unparsed

Row = IdRow | LogprobRow


class ListNames(NamedTuple):
    """The keys of the three token lists in a format."""

    prompt: str = "prompt_token_ids"
    completion: str = "completion_token_ids"
    logprobs: str = "logprobs"


HARBOR_NAMES = ListNames()


class CutList(NamedTuple):
    """A list cut out of a document: rows of numbers, or numbers (`flat`, one row)."""

    key: str
    flat: bool
    """Whether the list holds numbers itself, not rows of them."""
    rows: list[Row]


@dataclass(slots=True)
class Skeleton:
    """A document without its token lists and what else was cut out, and these by placeholder."""

    text: bytes
    lists: dict[str, CutList]
    extras: dict[str, Written]
    values: dict[str, Unparsed]

    @property
    def cut(self) -> int:
        """How many placeholders there are."""
        return len(self.lists) + len(self.extras) + len(self.values)
