"""One chat's parallel lists to calls where nothing is wrong with them, and the extras of each."""

from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.predicates import finish_reason_of
from wmo_distill.sources.recorded import Call, Lists
from wmo_distill.tokenjson.extras import Written, object_text


def whole_calls(lists: Lists) -> list[Call] | None:
    """The calls of an entry by the reference's rule: any fault, and there are none."""
    if lists.issues and lists.issues != [Issue.EXTRA_UNPLACED]:
        return None
    n = len(lists.prompts)
    if not n or len(lists.completions) != n or len(lists.logprobs) != n:
        return None
    calls = [
        Call(k, *rows)
        for k, rows in enumerate(zip(lists.prompts, lists.completions, lists.logprobs, strict=True))
    ]
    for call in calls:
        values = call.logprobs.values
        if call.prompt.delta is None or call.completion.delta is None or values is None:
            return None
        if call.logprobs.nulls or values.size != call.completion.size:
            return None
    return calls


def place_extra(calls: list[Call], lists: Lists, found: int, wanted: bool) -> list[Issue]:
    """Give each call its extras, where a list has one element for each call found."""
    if not wanted or not lists.extra:
        return []
    placeable = {key: rows for key, rows in lists.extra.items() if len(rows) == found}
    if placeable:
        for position, call in enumerate(calls):
            values = {key: rows[call.call_index] for key, rows in placeable.items()}
            for rows in placeable.values():
                rows[call.call_index] = None  # an element can be large, and is used once
            said = [values.get(name) for name in ("finish_reason", "stop_reason")]
            reason = finish_reason_of(*[v.value() if isinstance(v, Written) else v for v in said])
            calls[position] = call._replace(
                extra=object_text(values),
                finish_reason=None if reason is None else plain_text(reason),
            )
    return [] if len(placeable) == len(lists.extra) else [Issue.EXTRA_UNPLACED]
