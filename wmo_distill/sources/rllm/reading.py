"""The traces of one session to evidence."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wmo_distill.files import FilesState, parse_json, plain_text
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, SpanSource, StopReason
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.captured import of_sampling, sampling_by_call
from wmo_distill.sources.evidence import (
    CallCounters,
    EndingEvidence,
    Evidence,
    Identity,
    Times,
)
from wmo_distill.sources.growth import NO_RECORDS, Mark, Own, mark_of, state_of
from wmo_distill.sources.recorded import Call, CallStatus
from wmo_distill.sources.values import Values, at, group_id, moment, object_in
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.reader import RecordReader, parsed
from wmo_distill.tokenjson.rows import LogprobRow, id_row, logprob_row
from wmo_distill.tokenjson.skeleton import ListNames
from wmo_distill.tokenjson.values import Unparsed

# Stores after August 2026 keep what a prompt adds to the one of another trace.
_NAMES = ListNames("prompt_token_ids", "completion_token_ids", "logprobs")
_UNPARSED = ("messages", "tools", "content")
"""Lists of objects: nobody asks for a chat, and for an answer's log-probabilities few do."""
_COMPACT = ("parent_trace_id", "prompt_ids_suffix")


@dataclass(frozen=True, slots=True)
class Session:
    """The locator of one session."""

    name: str | None = None
    """None: calls without a session."""
    run: str = ""
    rows: tuple[int, ...] = ()
    lost: int = 0
    """Traces that the session names and that are not there."""
    own: Own = NO_RECORDS
    task: str | None = None
    attempt: int | None = None
    """Of a session `task:attempt`, where every session of the store is named so."""

    def state_of(self, marks: Mapping[int, Mark]) -> FilesState:
        """By its traces; calls of one time are in the order of their rows."""
        known = [marks[row] for row in sorted(self.rows)]
        return state_of(known, self.name, self.run, self.lost, self.task, self.attempt)


def mark(record: tuple[Any, bytes] | None) -> Mark:
    """Of a row of traces as it was read."""
    return mark_of(*(record or ()))


def _holders(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A trace, and in the order in which it is written what repeats its lists."""
    yield trace
    request = object_in(trace.get("raw_request"))
    # A list there is what was asked for, which goes into the sampling as it was written.
    if not isinstance(request.get("logprobs"), str | list):
        yield request
    answer = object_in(trace.get("raw_response"))
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        yield object_in(object_in(choice).get("logprobs"))
    yield answer


def seconds(trace: Mapping[str, Any]) -> float:
    """When a trace was taken, by which calls are ordered; those without a time are last."""
    value: Any = trace.get("timestamp")
    sound = isinstance(value, int | float) and abs(value) < 1e15
    return float(value) if sound else float("inf")


class Reading:
    """The traces of a session as calls; they are linked as they are read and sorted after."""

    def __init__(self, *, extra: bool) -> None:
        self.found: list[tuple[float, int, Call, Mapping[str, Any]]] = []
        self.marks: dict[int, Mark] = {}
        self.damaged = 0
        self._extra = extra
        self.parse = RecordReader(_NAMES, _holders, values=_UNPARSED).read
        self._models: dict[str, None] = {}
        self._times: list[datetime] = []
        self._issues: list[Issue] = []

    def add(self, row: int, trace: Mapping[str, Any] | None, mark: Mark) -> None:
        """Take one trace, None for a damaged one, and the mark of its record."""
        self.marks[row] = mark
        if trace is None:
            self.damaged += 1
            return
        model = trace.get("model")
        if isinstance(model, str) and model:
            self._models.setdefault(plain_text(model))
        time = moment(trace.get("timestamp"))
        if time is not None:
            self._times.append(time)
        request = trace.get("raw_request")
        self.found.append(
            (
                seconds(trace),
                row,
                self._call(trace, time),
                of_sampling(request) if isinstance(request, dict) else {},
            )
        )

    def _call(self, trace: Mapping[str, Any], time: datetime | None) -> Call:
        prompt = id_row(trace.get("prompt_token_ids") or None)
        sampled = id_row(trace.get("completion_token_ids"))
        status = CallStatus.OK
        if prompt.missing and not sampled.size:
            # An engine that sent no ids has answered all the same: then the call is lost.
            sampled = id_row(None)
            status = CallStatus.OK if _answered(trace) else CallStatus.FAILED
            if any(trace.get(key) is not None for key in _COMPACT):
                status = CallStatus.OK
                self._issues.append(Issue.LAYOUT_UNKNOWN)
        reason = trace.get("finish_reason")
        if not isinstance(reason, str) and sampled.size and trace.get("raw_response") is None:
            status = CallStatus.CUT
        version = trace.get("weight_version")
        named = isinstance(version, int | str) and not isinstance(version, bool)
        key = trace.get("trace_id")
        return Call(
            0,
            prompt,
            sampled,
            self._logprobs(trace, sampled.size),
            extra=_extra(trace) if self._extra else None,
            finish_reason=plain_text(reason) if isinstance(reason, str) else None,
            key=plain_text(key) if isinstance(key, str) else None,
            at=time,
            versions=((plain_text(str(version)), 0),) if named else None,
            status=status,
        )

    def _logprobs(self, trace: Mapping[str, Any], size: int) -> LogprobRow:
        """The list, from the answer itself where the gateway removed its nulls."""
        row = logprob_row(trace.get("logprobs"))
        if row.values is None or row.values.size == size:
            return row
        choices = at(trace, "raw_response", "choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        content = at(first, "logprobs", "content")
        if isinstance(content, Unparsed):
            content = parsed(content.text)
        if not isinstance(content, list) or len(content) != size:
            return row
        self._issues.append(Issue.LOGPROBS_FROM_RAW_RESPONSE)
        return logprob_row([at(one, "logprob") for one in content])

    def evidence(self, found: FoundTrial, session: Session) -> Evidence:
        """One episode of what was read."""
        self.found.sort(key=lambda one: one[:2])
        sampling, own = sampling_by_call(
            [asked if call.status is CallStatus.OK else {} for _, _, call, asked in self.found]
        )
        calls = [
            call._replace(call_index=index, sampling=text)
            for index, ((_, _, call, _), text) in enumerate(zip(self.found, own, strict=True))
        ]
        values = Values()
        return Evidence(
            identity=self._identity(found, session, values),
            calls=calls,
            call_source=SpanSource.CAPTURE,
            unreadable_calls=self.damaged,
            counters=CallCounters(
                declared=Completeness.INCOMPLETE
                if self.damaged or session.lost
                else Completeness.SILENT,
                lost=session.lost,
            ),
            sampling=sampling,
            ending=EndingEvidence(stated=StopReason.UNKNOWN),
            times=Times(
                started_at=min(self._times, default=None),
                finished_at=max(self._times, default=None),
            ),
            issues=(
                *[Issue.RECORD_UNREADABLE] * self.damaged,
                *[Issue.NO_COORDINATES] * (session.name is None),
                *self._issues,
                *values.issues,
            ),
            state=session.state_of(self.marks) if self.marks else None,
        )

    def _identity(self, found: FoundTrial, session: Session, values: Values) -> Identity:
        file = found.path.rpartition("#")[0]
        # Only the caller's naming tells which sessions are of one task.
        group = found.trial_name if session.task is None else f"{session.task}:"
        return Identity(
            trial_id=found.trial_id,
            trial_name=found.trial_name,
            artifact_dir=found.path,
            task_id=None if session.task is None else plain_text(session.task),
            job=plain_text(found.root.parent.name) or None,
            attempt=None if session.attempt is None else values.integer(session.attempt),
            group_id=group_id(["rllm_gateway", file, session.run, plain_text(group)]),
            model_name=next(iter(self._models), None) if len(self._models) == 1 else None,
        )


def _answered(trace: Mapping[str, Any]) -> bool:
    """Whether a trace without ids has an answer."""
    message = trace.get("response_message")
    said = isinstance(message, dict) and any(message.get(k) for k in ("content", "tool_calls"))
    return said or bool(at(trace, "raw_response", "choices")) or bool(trace.get("finish_reason"))


def _extra(trace: Mapping[str, Any]) -> str | None:
    """Routed experts, one row a token, and what the caller sent with the call."""
    found = {k: trace[k] for k in ("metadata",) if trace.get(k)}
    rows = trace.get("routing_matrices")
    if isinstance(rows, list) and rows:
        read: Iterable[Any] = [
            parse_json(row.encode("utf-8", "replace")) if isinstance(row, str) else row
            for row in rows
        ]
        sound = all(isinstance(row, list) for row in read)
        found["routed_experts" if sound else "routing_matrices"] = list(read) if sound else rows
    return json_text(found) if found else None
