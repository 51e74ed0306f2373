"""One JSON line of Gym with its token lists read into rows, never into Python lists."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wmo_distill.files import parse_json
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.numbers import NotFlat, NotText
from wmo_distill.tokenjson.rows import (
    DAMAGED_IDS,
    DAMAGED_LOGPROBS,
    IdRow,
    LogprobRow,
    id_row,
    logprob_row,
)
from wmo_distill.tokenjson.scan import scan
from wmo_distill.tokenjson.skeleton import CutList, ListNames, Row

NAMES = ListNames("prompt_token_ids", "generation_token_ids", "generation_log_probs")
_EXPERTS = "routed_experts"


@dataclass(frozen=True, slots=True)
class Line:
    """An object of JSON; where it was read fast, its token lists are `cut` out by placeholder."""

    value: dict[str, Any]
    cut: Mapping[str, CutList] = field(default_factory=dict)

    def prompt(self, holder: Mapping[str, Any]) -> IdRow:
        return self._ids(holder, NAMES.prompt)

    def completion(self, holder: Mapping[str, Any]) -> IdRow:
        return self._ids(holder, NAMES.completion)

    def logprobs(self, holder: Mapping[str, Any]) -> LogprobRow:
        value = holder.get(NAMES.logprobs)
        found = self._row(value, NAMES.logprobs)
        if isinstance(found, LogprobRow):
            return found
        return logprob_row(value) if found is None else DAMAGED_LOGPROBS

    def experts(self, holder: Mapping[str, Any]) -> str | None:
        """The experts of a call as JSON of a provider's extra."""
        value = holder.get(_EXPERTS)
        text = None if value is None else json_text({_EXPERTS: value})
        # A placeholder in it replaces lists that no recorder of experts writes.
        nonce = next(iter(self.cut), ":").partition(":")[0]
        return None if text is None or (nonce and nonce in text) else text

    def _ids(self, holder: Mapping[str, Any], name: str) -> IdRow:
        value = holder.get(name)
        found = self._row(value, name)
        if isinstance(found, IdRow):
            return found
        return id_row(value) if found is None else DAMAGED_IDS

    def _row(self, value: Any, name: str) -> Row | bool | None:
        """The row that was cut out here; False for a list of lists, None where none was."""
        found = self.cut.get(value) if isinstance(value, str) else None
        if found is None or found.key != name:
            return None
        if found.flat:
            return found.rows[0]
        if found.rows:
            return False
        return logprob_row([]) if name == NAMES.logprobs else id_row([])


def read_object(data: bytes) -> Line | None:
    """A line as an object, None where it is no readable JSON object."""
    try:
        skeleton = scan(io.BytesIO(data), names=NAMES)
        value = parse_json(skeleton.text)
        if isinstance(value, dict):
            return Line(value, skeleton.lists)
    except (NotFlat, NotText):
        pass
    value = parse_json(data)
    return Line(value) if isinstance(value, dict) else None
