"""The JSON lines of Gym: a call of a capture, or a rollout whose items hold its calls."""

from collections.abc import Iterator, Mapping
from typing import Any

from wmo_distill.sources.values import at, object_in
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.reader import RecordReader
from wmo_distill.tokenjson.skeleton import ListNames

NAMES = ListNames("prompt_token_ids", "generation_token_ids", "generation_log_probs")
_EXPERTS = "routed_experts"


def reader() -> RecordReader:
    """For the records of one rollout."""
    return RecordReader(NAMES, _holders)


def experts_of(call: Mapping[str, Any]) -> str | None:
    """The experts of a call as JSON of a provider's extra."""
    value = call.get(_EXPERTS)
    return None if value is None else json_text({_EXPERTS: value})


def _holders(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A call, the items that a rollout was given, and those that it generated."""
    yield line
    for items in (at(line, "responses_create_params", "input"), at(line, "response", "output")):
        yield from map(object_in, items if isinstance(items, list) else ())
