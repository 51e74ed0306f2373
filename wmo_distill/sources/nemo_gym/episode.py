"""A capture, a row, or both, to the evidence of one episode."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wmo_distill.files import NO_STATE, FilesState, TrialFiles, plain_text
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, SpanSource
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.evidence import (
    CallCounters,
    EndingEvidence,
    Evidence,
    Exceptional,
    GradeEvidence,
    Identity,
    SamplingEvidence,
)
from wmo_distill.sources.growth import NO_MARK, Mark
from wmo_distill.sources.nemo_gym.capture import Capture, read_capture
from wmo_distill.sources.nemo_gym.rollout import Rollout, read_rollout
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import INT64, Values, group_id
from wmo_distill.tokenjson.tree import IdTree

# What Gym calls a rollout that has no id of its own: task, rollout, attempt.
_INDICES = re.compile(r"(\d{1,9})-(\d{1,9})(?:-a\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the files of one rollout are, relative to `base`."""

    base: Path
    rollout: str
    trial_id: str
    scope: str
    """What a task's number means something in: a rollouts file, or a directory of captures."""
    job: str | None
    row: str | None = None
    start: int = 0
    size: int = 0
    mark: Mark = NO_MARK
    """Of the row."""
    whole: FilesState = NO_STATE
    """Of the file of rows, from before it was looked into."""
    capture: str | None = None
    """The common start of its files' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tokens:
    """The calls that are taken, from capture or row, and the account of the others."""

    calls: Sequence[Call] = ()
    source: SpanSource = SpanSource.NONE
    unreadable: int = 0
    lost: int = 0
    declared: Completeness = Completeness.SILENT
    issues: tuple[Issue, ...] = ()


def read_episode(found: FoundTrial, place: Place, *, extra: bool) -> Evidence:
    """All that the files of one rollout say."""
    files = TrialFiles(place.base)
    row = capture = None
    if place.row is not None:
        row = read_rollout(files, place.row, place.start, place.size, extra=extra)
    if place.capture is not None:
        capture = read_capture(files, place.capture, extra=extra)
    tokens = _tokens(row, capture)
    values = Values()
    unreadable_row = place.row is not None and row is None
    masked = row is not None and row.is_masked and not row.is_masked_by_capture
    failure = None if row is None or row.failure is None else plain_text(row.failure)
    raised = None if failure is None else Exceptional(type=failure)
    return Evidence(
        identity=_identity(found, place, row, capture, values),
        calls=tokens.calls,
        call_source=tokens.source,
        unreadable_calls=tokens.unreadable,
        counters=CallCounters(declared=tokens.declared, lost=tokens.lost),
        sampling=SamplingEvidence(asked={} if row is None else row.sampling),
        ending=EndingEvidence(
            stated=None if row is None else row.ending,
            readable=row is not None,
            exception=raised,
        ),
        grade=GradeEvidence(
            rewards={} if row is None else row.rewards,
            readable=row is not None,
            recorded_valid=False if masked else None,
            exceptions=() if raised is None else (raised,),
        ),
        issues=(
            *tokens.issues,
            *values.issues,
            *[Issue.RESULT_UNREADABLE] * unreadable_row,
            *[Issue.CAPTURE_INCOMPLETE] * (tokens.declared is Completeness.INCOMPLETE),
        ),
    )


def _identity(
    found: FoundTrial,
    place: Place,
    row: Rollout | None,
    capture: Capture | None,
    values: Values,
) -> Identity:
    """By the row, else by the rollout id where Gym made it of numbers."""
    made = _INDICES.fullmatch(place.rollout)
    task, attempt = (made[1], int(made[2])) if made else (None, None)
    agent = model = None
    if row is not None:
        index = values.integer(row.value.get("_ng_task_index"), INT64)
        task = task if index is None else str(index)
        number = values.integer(row.value.get("_ng_rollout_index"))
        attempt = attempt if number is None else number
        agent, model = values.text(row.agent), values.text(row.model)
    if capture is not None:
        model = capture.model or model
    return Identity(
        trial_id=place.trial_id,
        trial_name=place.rollout,
        artifact_dir=found.path,
        task_id=task,
        job=place.job,
        attempt=attempt,
        # A rollout without a task has no group but itself.
        group_id=group_id([place.scope, task or place.trial_id, agent]),
        agent_name=agent,
        model_name=model,
    )


def _tokens(row: Rollout | None, capture: Capture | None) -> _Tokens:
    """The capture's calls unless the row holds more, or others; then the row's."""
    if capture is None:
        return _Tokens() if row is None else _handed_over(row)
    if row is None:
        return _captured(capture, Completeness.SILENT, 0)
    if _contradicts(row.calls, capture.calls):
        tokens = _handed_over(row)
        return replace(tokens, issues=(*tokens.issues, Issue.CAPTURE_CONFLICT))
    if len(capture.calls) >= len(row.calls) and not (capture.retired and not capture.calls):
        return _captured(capture, row.declared, row.n_calls)
    tokens = _handed_over(row)
    incomplete = capture.declared is Completeness.INCOMPLETE
    return replace(
        tokens,
        declared=Completeness.INCOMPLETE if incomplete else tokens.declared,
        issues=(*tokens.issues, *capture.issues),
    )


def _handed_over(row: Rollout) -> _Tokens:
    """The calls of a row; one that was rebuilt holds one chain of those that it counts."""
    dropped = max(0, row.n_calls - len(row.calls))
    return _Tokens(
        calls=row.calls,
        source=SpanSource.RESULT,
        unreadable=dropped,
        declared=row.declared,
        issues=(Issue.DROPPED_BY_RECORDER,) * dropped,
    )


def _captured(capture: Capture, of_row: Completeness, n_calls: int) -> _Tokens:
    """The calls of a capture; a row was rebuilt from `n_calls` of them."""
    held = len({call.key or number for number, call in enumerate(capture.calls)})
    missing = max(0, n_calls - held - capture.unreadable - capture.lost)
    beyond = max(0, held - n_calls) if n_calls else 0
    declared = _worse(capture.declared, of_row)
    if capture.retired and not capture.calls:
        declared = of_row  # what was handed over is elsewhere
    return _Tokens(
        calls=capture.calls,
        source=SpanSource.CAPTURE,
        unreadable=capture.unreadable,
        lost=capture.lost + missing,
        declared=Completeness.INCOMPLETE if missing or beyond else declared,
        issues=(
            *capture.issues,
            *[Issue.RECORD_UNREADABLE] * capture.unreadable,
            *[Issue.CALLS_BEYOND_TURNS] * beyond,
        ),
    )


def _worse(one: Completeness, other: Completeness) -> Completeness:
    """Incomplete if either says so; what one declares holds where the other is silent."""
    said = {one, other}
    for verdict in (Completeness.INCOMPLETE, Completeness.COMPLETE):
        if verdict in said:
            return verdict
    return Completeness.SILENT


def _contradicts(of_row: Sequence[Call], captured: Sequence[Call]) -> bool:
    """Whether a row's answers are none of the capture's: it is of another run with the same id."""
    read = [call.completion for call in of_row if call.completion.size]
    if not read or not captured:
        return False
    tree = IdTree()
    known = {tree.add(c.completion) for c in captured if c.completion.delta is not None}
    return known.isdisjoint(map(tree.add, read))
