"""One entry of `rollout_details`: its lists as recorded, and the extras beside them."""

from dataclasses import dataclass
from typing import Any

from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.predicates import finish_reason_of
from wmo_distill.tokenjson.extras import Written, object_text
from wmo_distill.tokenjson.rows import IdRow, LogprobRow
from wmo_distill.trials.calls import Call


@dataclass(slots=True)
class Lists:
    """One entry's lists as recorded; an absent list is empty."""

    prompts: list[IdRow]
    completions: list[IdRow]
    logprobs: list[LogprobRow]
    extra: dict[str, list[Any]]
    issues: list[Issue]

    @property
    def n_calls(self) -> int:
        return max(len(self.prompts), len(self.completions), len(self.logprobs))

    def aligned(self) -> bool:
        """Whether the lists that hold anything are of one length."""
        lengths = {len(self.prompts), len(self.completions)}
        if self.logprobs:
            lengths.add(len(self.logprobs))
        return len(lengths) == 1


def entry_lists(entry: Any) -> Lists:
    """The lists of one entry; what is no list counts as absent, with an issue."""
    issues: list[Issue] = []
    if not isinstance(entry, dict):
        return Lists([], [], [], {}, [Issue.ENTRY_DAMAGED])

    def rows(key: str) -> list[Any]:
        value = entry.get(key)
        if value is not None and not isinstance(value, list):
            issues.append(Issue.ENTRY_DAMAGED)
        return value if isinstance(value, list) else []

    lists = Lists(
        rows("prompt_token_ids"), rows("completion_token_ids"), rows("logprobs"), {}, issues
    )
    if not issues and not lists.n_calls:
        issues.append(Issue.ENTRY_EMPTY)
    extra = entry.get("extra")
    if isinstance(extra, dict):
        lists.extra = {str(key): value for key, value in extra.items() if isinstance(value, list)}
        if len(lists.extra) < len(extra):
            issues.append(Issue.EXTRA_UNPLACED)
    elif extra is not None:
        issues.append(Issue.EXTRA_UNPLACED)
    return lists


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
