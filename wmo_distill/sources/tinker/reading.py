"""The records of one rollout to evidence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from wmo_distill.arrays import NO_IDS
from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, SegmentInfo, SegmentKind, SpanSource, StopReason
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.captured import sampling_by_call
from wmo_distill.sources.evidence import (
    CallCounters,
    EndingEvidence,
    Evidence,
    GradeEvidence,
    Identity,
    Times,
)
from wmo_distill.sources.growth import Mark
from wmo_distill.sources.recorded import Call, CallStatus
from wmo_distill.sources.tinker.capture import Record
from wmo_distill.sources.tinker.places import COORDINATES, Rollout, key_of, rollout_state
from wmo_distill.sources.tinker.rewards import lost_steps, rewards_of
from wmo_distill.sources.values import Values, group_id, moment
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.rows import (
    DAMAGED_IDS,
    DAMAGED_LOGPROBS,
    id_row,
    linked,
    logprob_row,
    whole_row,
)
from wmo_distill.tokenjson.tree import IdTree

_AGENT = "agent"
_STATUS = {"error": CallStatus.FAILED, "cancelled": CallStatus.CANCELLED}


@dataclass(slots=True)
class _Read:
    """The calls of a rollout, and what their records say of all of it."""

    values: Values = field(default_factory=Values)
    calls: list[Call] = field(default_factory=list)
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Of each call, what is one for the answers to one request."""
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Of each answered call: ids of its prompt, images included, and of its answer."""
    agents: list[str] = field(default_factory=list)
    models: Counter[str] = field(default_factory=Counter)
    marks: list[Mark] = field(default_factory=list)
    began: datetime | None = None
    ended: datetime | None = None
    damaged: int = 0


def evidence_of(
    found: FoundTrial,
    rollout: Rollout,
    records: Iterable[tuple[Mark, Record | None]],
    summary: Mapping[str, Any],
    *,
    extra: bool,
) -> Evidence:
    """One episode; `records` are in order of time with their marks, None for a damaged one."""
    read = _Read()
    for mark, record in records:
        read.marks.append(mark)
        if record is None:
            read.damaged += 1
        else:
            _add(read, record, rollout.sample, extra=extra)
    damaged = read.damaged + rollout.unreadable
    _drop_partial_steps(read)
    sampling, own = sampling_by_call(read.asked)
    calls = [
        call._replace(call_index=index, sampling=text)
        for index, (call, text) in enumerate(zip(_settled(read), own, strict=True))
    ]
    calls, lineages, unsure = _lineages(read, calls, rollout, graded=bool(summary))
    lost = lost_steps(summary, read.sizes)
    return Evidence(
        identity=_identity(found, rollout, read),
        calls=calls,
        call_source=SpanSource.CAPTURE,
        call_issues=(Issue.AMBIGUOUS_LAST_CALL,) * unsure,
        lineages=lineages,
        unreadable_calls=damaged,
        counters=CallCounters(
            declared=Completeness.INCOMPLETE if damaged else Completeness.SILENT, lost=lost
        ),
        sampling=sampling,
        ending=EndingEvidence(stated=StopReason.UNKNOWN),
        grade=GradeEvidence(rewards=rewards_of(summary)),
        times=Times(started_at=read.began, finished_at=read.ended),
        issues=(
            *[Issue.RECORD_UNREADABLE] * damaged,
            *[Issue.NO_COORDINATES] * rollout.alone,
            *read.values.issues,
        ),
        state=rollout_state(rollout, read.marks),
    )


def _identity(found: FoundTrial, rollout: Rollout, read: _Read) -> Identity:
    file = found.path.rpartition("#")[0]
    parts = list(rollout.coordinates)
    attempt = rollout.sample
    if isinstance(parts[5], str) and parts[5].isdecimal():
        attempt = read.values.integer(int(parts[5]))
    group = [file, found.trial_name] if rollout.alone else [file, *parts[:5], parts[6]]
    model = next(iter(read.models), None)
    # A store may hold several runs.
    job = parts[0] if rollout.is_store else None
    folder = found.root.parents[rollout.up - 1]
    return Identity(
        trial_id=found.trial_id,
        trial_name=found.trial_name,
        artifact_dir=found.path,
        job=plain_text(str(job or folder.name)) or None,
        attempt=attempt,
        group_id=group_id(["tinker_capture", *group]),
        model_name=model if len(read.models) == 1 else None,
    )


def _add(read: _Read, record: Record, sample: int | None, *, extra: bool) -> None:
    """Add the calls of one record: one for each answer, one where there is none."""
    row = id_row(record.get("prompt_tokens"))
    size = record.get("prompt_length")
    if row.delta is not None and type(size) is int and size != row.size:
        row = DAMAGED_IDS
    began = moment(record.get("created_at"))
    _span_time(read, began, record.get("latency_sec"))
    key = key_of(record)
    path = record.get("model_path")
    version = plain_text(path) if isinstance(path, str) and path else None
    model = record.get("base_model")
    if isinstance(model, str) and model:
        read.models[plain_text(model)] += 1
    scope = record["scope"]
    agent = scope.get(_AGENT)
    also = {k: v for k, v in scope.items() if k not in COORDINATES}
    call = Call(
        0,
        row,
        extra=json_text(also) if extra and also else None,
        key=key,
        at=began,
        versions=None if version is None else ((version, 0),),
        status=_STATUS.get(str(record.get("status")), CallStatus.OK),
    )
    asked = record.get("sampling_params")
    arguments = {**asked} if isinstance(asked, dict) else {}
    step = version.rpartition("/")[2] if version else ""
    if step.isdecimal() and len(step) < 19:
        arguments["train_step"] = int(step)
    request = f"#{len(read.requests)}" if key is None else key
    for one in _answered(call, record, sample):
        read.calls.append(one._replace(prompt=row))
        row = row if row.delta is None else linked(row.size, NO_IDS, row)
        read.asked.append(arguments if one.status is CallStatus.OK else {})
        read.requests.append(request)
        read.agents.append(plain_text(agent) if isinstance(agent, str) else "")
        if one.status is CallStatus.OK and not one.completion.missing:
            read.sizes.append((size if type(size) is int else row.size, one.completion.size))


def _answered(call: Call, record: Record, sample: int | None) -> Iterator[Call]:
    samples = record.get("samples")
    if call.status is not CallStatus.OK or not isinstance(samples, list) or not samples:
        # The outcome of a call is unknown that was submitted: its answer may have been used.
        if sample in (None, 0):
            yield call
        return
    for number, answer in enumerate(samples):
        value = answer if isinstance(answer, dict) else {}
        index = value.get("index", number)
        if sample is not None and index != sample:
            continue
        reason = value.get("stop_reason")
        sound = isinstance(answer, dict)
        yield call._replace(
            completion=id_row(value.get("tokens")) if sound else DAMAGED_IDS,
            logprobs=logprob_row(value.get("logprobs")) if sound else DAMAGED_LOGPROBS,
            finish_reason=plain_text(reason) if isinstance(reason, str) else None,
            key=None if call.key is None else f"{call.key}:{index}",
        )


def _span_time(read: _Read, began: datetime | None, seconds: object) -> None:
    if began is None:
        return
    ended = began
    if isinstance(seconds, int | float) and 0 <= seconds < 1e7:
        ended += timedelta(seconds=float(seconds))
    read.began = min(began, read.began or began)
    read.ended = max(ended, read.ended or ended)


def _settled(read: _Read) -> Iterator[Call]:
    """The calls; one that was submitted, and is recorded again with its answer, has failed."""
    answered = {
        request
        for call, request in zip(read.calls, read.requests, strict=True)
        if not call.completion.missing
    }
    for call, request in zip(read.calls, read.requests, strict=True):
        again = call.completion.missing and request in answered and call.status is CallStatus.OK
        yield call._replace(status=CallStatus.FAILED) if again else call


def _drop_partial_steps(read: _Read) -> None:
    """A training step is the episode's only where every answer has one."""
    answered = [call.status is CallStatus.OK for call in read.calls]
    steps = [("train_step" in asked) for asked in read.asked]
    if any(ok and not step for ok, step in zip(answered, steps, strict=True)):
        read.asked = [{k: v for k, v in a.items() if k != "train_step"} for a in read.asked]


def _lineages(
    read: _Read, calls: list[Call], rollout: Rollout, *, graded: bool
) -> tuple[list[Call], dict[str, SegmentInfo], int]:
    """The chats that scopes name, and those of alternatives of which none was gone on from.

    Where neither is recorded the tokens decide. Which alternative earned a reward is unknown: one
    is taken, the others are not trained. Also gives how often that was so.
    """
    names = list(read.agents)
    if "" not in names and names:
        names = ["" if name == names[0] else name for name in names]
    infos = {
        name: SegmentInfo(SegmentKind.SUBAGENT if name else SegmentKind.MAIN, agent=agent or None)
        for name, agent in zip(names, read.agents, strict=True)
    }
    unsure = 0
    gone_on = _gone_on(calls) if len(set(read.requests)) < len(calls) else frozenset[int]()
    by_request: dict[str, list[int]] = {}
    for index, (call, request) in enumerate(zip(calls, read.requests, strict=True)):
        if rollout.sample is None and call.status is CallStatus.OK:
            by_request.setdefault(request, []).append(index)
    for request, answers in by_request.items():
        others = [i for i in answers[1:] if calls[i].key != calls[answers[0]].key]
        if not others or not gone_on.isdisjoint(answers):
            continue
        unsure += graded
        for number, i in enumerate(others, 1):
            name = f"{names[i]}~{request}~{number}"
            side = replace(infos[names[i]], kind=SegmentKind.SUBAGENT, trainable=not graded)
            infos[name], names[i] = side, name
    if len(infos) < 2:
        return calls, {}, unsure
    main = {"": infos.pop("", SegmentInfo())}
    named = [call._replace(lineage=name) for call, name in zip(calls, names, strict=True)]
    return named, {**main, **infos}, unsure


def _gone_on(calls: Sequence[Call]) -> frozenset[int]:
    """The calls that a later prompt starts with, prompt and answer."""
    tree = IdTree()
    later: set[int] = set()
    """Nodes on the way to a prompt of a later call."""
    found: list[int] = []
    prompts = [None if call.prompt.delta is None else tree.add(call.prompt) for call in calls]
    ends = [
        None if node is None or answer is None else tree.walk(node, answer)
        for node, answer in zip(prompts, (whole_row(c.completion) for c in calls), strict=True)
    ]
    for i in reversed(range(len(calls))):
        if ends[i] in later:
            found.append(i)
        node = prompts[i]
        while node is not None and node not in later:
            later.add(node)
            node = tree.up[node]
    return frozenset(found)
