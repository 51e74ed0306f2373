"""The trials that are most wrong, each with its reasons."""

from collections import Counter
from collections.abc import Mapping
from heapq import nsmallest
from typing import Any

from pydantic import BaseModel, ConfigDict

from wmo_distill.endings import StopReason
from wmo_distill.issues import Issue

MOST = 20

# Endings that are not the agent's own doing, or that nothing says.
INTERRUPTED = frozenset(
    {
        StopReason.PROVIDER_ERROR,
        StopReason.SESSION_DIED,
        StopReason.CANCELLED,
        StopReason.NOT_RUN,
        StopReason.ERROR,
        StopReason.UNKNOWN,
    }
)
_ABSURD = frozenset({Issue.LOGPROB_IMPLAUSIBLE, Issue.LOGPROB_NOT_FINITE})
_KNOWN = {issue.value: issue for issue in Issue}
NAMES = ("episode_id", "trial_name", "task_id", "step_name", "artifact_dir")


class Worst(BaseModel):
    """One episode; `reasons` are issue codes, `break: cause` and `ending: word`, with counts."""

    model_config = ConfigDict(frozen=True)

    episode_id: str | None
    trial_name: str | None
    task_id: str | None
    step_name: str | None
    artifact_dir: str | None
    reasons: dict[str, int]


Rank = tuple[tuple[int, ...], str, str]


def ranked(
    row: Mapping[str, Any], issues: Counter[str], breaks: Mapping[str, int], implausible: int
) -> tuple[Rank, Worst] | None:
    """A row and its place; None where nothing is wrong.

    Dropped calls come first, then damaged data, implausible values, breaks and lost endings.
    """
    known = {code: _KNOWN.get(code) for code in issues}
    dropped = sum(n for code, n in issues.items() if (one := known[code]) and one.drops_call)
    reasons = {code: n for code, n in issues.items() if not ((one := known[code]) and one.note)}
    absurd = max(implausible, sum(issues[code] for code in _ABSURD))
    damaged = sum(n for code, n in reasons.items() if code not in _ABSURD) - dropped
    ending = row["stop_reason"] or StopReason.UNKNOWN.value
    lost = ending in INTERRUPTED
    reasons |= {f"break: {cause}": n for cause, n in sorted(breaks.items())}
    if lost:
        reasons[f"ending: {ending}"] = 1
    if implausible and not any(code in issues for code in _ABSURD):
        reasons[Issue.LOGPROB_IMPLAUSIBLE.value] = implausible
    if not reasons:
        return None
    place = (-dropped, -damaged, -absurd, -sum(breaks.values()), -int(lost))
    worst = Worst(**{name: row.get(name) for name in NAMES}, reasons=reasons)
    return (place, worst.artifact_dir or "", worst.step_name or ""), worst


def first(found: list[tuple[Rank, Worst]]) -> list[tuple[Rank, Worst]]:
    """The worst of them, in order."""
    return nsmallest(MOST, found, key=lambda one: one[0])
