"""One session to evidence: tokens of its best record, grade and ending of its result."""

from collections.abc import Mapping, Sequence
from typing import Any

from wmo_distill.files import TrialFiles, plain_text
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, SpanSource, StopReason
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.evidence import (
    CallCounters,
    EndingEvidence,
    Evidence,
    Exceptional,
    GradeEvidence,
    Identity,
    Times,
)
from wmo_distill.sources.openenv.calls import Recorded, of_document, of_entries, of_result
from wmo_distill.sources.openenv.files import Kind, Piece, value_of
from wmo_distill.sources.values import Values, group_id, moment, object_in

_INGEST_FAILED = "[FATAL] capture_ingest_failed"
_CONTEXT_SPENT = "[WARN] context_budget_exhausted"


def read_session(found: FoundTrial, job: str, pieces: Sequence[Piece]) -> Evidence:
    """The evidence of a session; of a record that cannot be read the next best one is taken."""
    files = TrialFiles(found.root)
    result: Mapping[str, Any] | None = None
    run: Mapping[str, Any] = {}
    document: Mapping[str, Any] = {}
    recorded: Recorded | None = None
    unreadable = 0
    for piece in pieces:
        value: Mapping[str, Any] | None = value_of(files, piece)
        if value is None:
            unreadable += 1
            continue
        if piece.kind is Kind.RUN:
            run, value = value, object_in(value.get("result"))
        if piece.kind in (Kind.RUN, Kind.RESULT):
            result = result or value
            recorded = recorded or of_result(value)
        else:
            document = document or value
            read = of_document if piece.kind is Kind.DOCUMENT else of_entries
            recorded = recorded or read(value)
    values = Values()
    graded = {} if result is None else result
    about = {**object_in(document.get("metadata")), **run, **graded}
    recorded = recorded or Recorded()
    findings = [*_findings(document.get("validation")), *_findings(graded.get("findings"))]
    return Evidence(
        identity=_identity(found, job, about, values),
        calls=recorded.calls,
        call_source=SpanSource.CAPTURE,
        lineages=recorded.lineages,
        unreadable_calls=recorded.left_out,
        counters=_counters(document, graded, recorded.missed),
        sampling=recorded.sampling,
        ending=_ending(about, document, findings, bool(recorded.calls)),
        grade=_grade(result),
        times=Times(started_at=moment(run.get("created")), finished_at=moment(run.get("finished"))),
        issues=(
            *[Issue.RESULT_UNREADABLE] * unreadable,
            *[Issue.DROPPED_BY_RECORDER] * recorded.left_out,
            *values.issues,
        ),
    )


def _identity(found: FoundTrial, job: str, about: Mapping[str, Any], values: Values) -> Identity:
    task = about.get("task_id") or about.get("task")
    task_id = values.text(task) if task else None
    harness = values.text(about.get("harness"))
    model = values.text(about.get("model"))
    group = [job, about.get("dataset"), task_id, harness, model]
    return Identity(
        trial_id=found.trial_id,
        trial_name=plain_text(found.trial_name),
        artifact_dir=found.path,
        task_id=task_id,
        source=values.text(about.get("dataset") or None),
        job=job or None,
        group_id=group_id(["openenv", *group] if task_id else ["openenv", found.path]),
        agent_name=harness,
        model_name=model,
    )


def _counters(document: Mapping[str, Any], result: Mapping[str, Any], missed: bool) -> CallCounters:
    """A finding says that a response came and could not be recorded: a call is lost somewhere."""
    findings = max(
        (_findings(document.get("validation")), _findings(result.get("findings"))),
        key=_failed,
    )
    lost = _failed(findings)
    declared = Completeness.INCOMPLETE if lost or missed else Completeness.SILENT
    return CallCounters(declared=declared, lost=lost)


def _failed(findings: Sequence[str]) -> int:
    return sum(finding.startswith(_INGEST_FAILED) for finding in findings)


def _ending(
    about: Mapping[str, Any],
    document: Mapping[str, Any],
    findings: Sequence[str],
    sampled: bool,
) -> EndingEvidence:
    """An exception decides; else what made the proxy answer in the model's place."""
    stops = [about.get("budget_stop_count"), document.get("budget_stop_count")]
    reason = StopReason.UNKNOWN
    if any(finding.startswith(_CONTEXT_SPENT) for finding in findings):
        reason = StopReason.CONTEXT_OVERFLOW
    elif any(type(stop) is int and stop > 0 for stop in stops):
        reason = StopReason.MAX_TURNS
    raised = about.get("exception_type")
    if not raised:
        crashed = about.get("status") == "failed" and not sampled and "ok" not in about
        return EndingEvidence(stated=StopReason.ERROR if crashed else reason)
    exception = Exceptional(
        type=raised if isinstance(raised, str) else None, agent_ran=sampled, agent_result=sampled
    )
    return EndingEvidence(otherwise=reason, exception=exception)


def _grade(result: Mapping[str, Any] | None) -> GradeEvidence:
    """The rewards by name; the headline is one of them, and `reward` where none has that name."""
    if result is None:
        return GradeEvidence(readable=False)
    rewards = dict(object_in(result.get("rewards")))
    if result.get("reward") is not None:
        rewards.setdefault("reward", result["reward"])
    raised = result.get("exception_type")
    exceptions = [Exceptional(type=raised)] if isinstance(raised, str) else []
    return GradeEvidence(rewards=rewards, exceptions=exceptions)


def _findings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
