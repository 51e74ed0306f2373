"""One trace to evidence: whose it is, how it was sampled, how it ended, how it was graded."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.predicates import cut_at_cap
from wmo_distill.records import Completion, SpanSource, StopReason
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.evidence import (
    CallCounters,
    EndingEvidence,
    Evidence,
    Exceptional,
    GradeEvidence,
    Identity,
    RunTrace,
    SamplingEvidence,
)
from wmo_distill.sources.values import Values, at, group_id, object_in
from wmo_distill.sources.verifiers.calls import entries_by_node, flat_sampling, recorded_calls
from wmo_distill.sources.verifiers.chats import chats_of
from wmo_distill.sources.verifiers.ending import Signs, stop_of
from wmo_distill.sources.verifiers.fields import errors_of, number_in, text_in
from wmo_distill.sources.verifiers.grading import grade_of
from wmo_distill.sources.verifiers.graph import graph_of
from wmo_distill.sources.verifiers.run import RunConfig, job_of
from wmo_distill.sources.verifiers.timing import began, seconds, times_of


def trace_evidence(
    found: FoundTrial,
    trace: Mapping[str, Any],
    episode: Mapping[str, Any],
    config: RunConfig,
    options: BuildOptions,
) -> Evidence:
    """The evidence of a trace; `episode` is the trace itself where it has no episode."""
    values = Values()
    recorded = trace.get("nodes")
    graph = graph_of(recorded if isinstance(recorded, list) else [])
    agent = _agent_of(trace, config)
    own = object_in(agent.get("config")) or agent
    chats = chats_of(graph, agent.get("trainable") is not False)
    entries = entries_by_node(trace.get("calls"), graph.nodes, values)
    calls = recorded_calls(graph, chats, entries, extra=options.extra)
    errors = errors_of(trace)
    failed = not trace["ok"] if isinstance(trace.get("ok"), bool) else bool(errors)
    identity = _identity(found, trace, episode, config, values)
    cap = own.get("max_turns", config.max_turns)
    turns = len(chats.of)
    main = [entries.get(i, {}) for i in chats.main]
    word = trace.get("stop_condition")
    signs = Signs(
        word=word if isinstance(word, str) else None,
        failed=failed,
        error=errors[-1] if errors else None,
        started=began(trace),
        cut=cut_at_cap(text_in(main[-1].get("finish_reason")) if main else None) is True,
        turns=turns,
        cap=cap if type(cap) is int else None,
        seconds=seconds(trace, "agent", "generation"),
        allowed=number_in(at(own, "timeout", "rollout")),
    )
    stop, said = stop_of(signs)
    other = {m for e in entries.values() if isinstance(m := e.get("model"), str)}
    issues = [*values.issues, *said, *chats.issues, *calls.issues]
    issues += [Issue.VALUE_DAMAGED] * sum(node.damaged for node in graph.nodes)
    issues += [Issue.MODELS_DIFFER] * bool(other - {identity.model_name})
    issues += [Issue.EARLIER_ATTEMPTS_FAILED] * (not failed and bool(errors))
    return Evidence(
        identity=identity,
        calls=calls.calls,
        call_source=SpanSource.CAPTURE,
        call_issues=(Issue.CALL_UNPLACED,) * calls.unplaced,
        unreadable_calls=calls.unplaced,
        lineages=chats.lineages,
        counters=CallCounters(answers_marked=True),
        sampling=_sampling(own, episode, calls.in_calls, graph.nodes),
        ending=_ending(stop, signs, errors if failed else [], calls.compactions),
        grade=grade_of(trace, errors, failed=failed),
        times=times_of(trace, entries),
        issues=tuple(issues),
    )


def _agent_of(trace: Mapping[str, Any], config: RunConfig) -> Mapping[str, Any]:
    """The agent as the trace names it, else as the run does, which has one agent then."""
    if trace.get("agent") is not None or not trace:
        return object_in(trace.get("agent"))
    harness = {"id": config.harness}
    return {"model": config.model, "sampling": config.sampling, "harness": harness}


def episode_evidence(found: FoundTrial, episode: Mapping[str, Any], config: RunConfig) -> Evidence:
    """The evidence of an episode in which no agent left a trace."""
    values = Values()
    errors = errors_of(episode)
    signs = Signs(failed=True, error=errors[-1] if errors else None, started=False)
    stop = stop_of(signs)[0] if errors else StopReason.UNKNOWN
    return Evidence(
        identity=_identity(found, {}, episode, config, values),
        ending=_ending(stop, signs, errors),
        grade=grade_of({}, errors, failed=True),
        issues=tuple(values.issues),
    )


def unread_evidence(found: FoundTrial) -> Evidence:
    """What is left of a trial whose line is no longer there as it was found."""
    return Evidence(
        identity=Identity(
            trial_id=found.trial_id,
            trial_name=found.trial_name,
            artifact_dir=found.path,
            group_id=group_id([found.source, found.path]),
        ),
        ending=EndingEvidence(stated=StopReason.UNKNOWN, readable=False),
        grade=GradeEvidence(readable=False),
    )


def trial_name_of(label: str, trial_id: str | None) -> str:
    return f"{label}__{(trial_id or '').removeprefix('episode:').removeprefix('v0:')[:8]}"


def _identity(
    found: FoundTrial,
    trace: Mapping[str, Any],
    episode: Mapping[str, Any],
    config: RunConfig,
    values: Values,
) -> Identity:
    task = object_in(trace.get("task")) or object_in(episode.get("task"))
    # Before 0.2.0 the data is the task itself.
    data = object_in(task.get("data")) or ({} if "type" in task else task)
    label = _label(task, data)
    key, checksum = text_in(task.get("key")), text_in(task.get("hash"))
    task_id = key if key and key != checksum else label
    if checksum is None and data:
        checksum = _digest(data)
    agent = _agent_of(trace, config)
    own = object_in(agent.get("config")) or agent
    seat = values.text(agent.get("name")) or "agent"
    harness = values.text(at(own, "harness", "id"))
    source = values.text(at(episode, "env", "id") or config.source)
    model = values.text(own.get("model"))
    job = job_of(found.root)
    group = text_in(at(episode, "group", "id")) or job
    return Identity(
        trial_id=found.trial_id,
        trial_name=values.text(trial_name_of(label, found.trial_id)) or "",
        artifact_dir=found.path,
        task_id=values.text(task_id),
        task_checksum=values.text(checksum),
        source=source,
        job=values.text(job),
        group_id=group_id(["verifiers", group, source, checksum, seat, model]),
        group_expected=values.integer(config.rollouts),
        agent_name=harness if seat == "agent" else f"{seat}/{harness}" if harness else seat,
        model_name=model,
    )


def _label(task: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    for key in ("name", "id"):
        if isinstance(data.get(key), str | int) and data[key] != "":
            return str(data[key])
    return f"{text_in(task.get('type')) or 'task'}-{data.get('idx')}"


def _digest(data: Mapping[str, Any]) -> str | None:
    """As the package computes it in later versions."""
    try:
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    except (RecursionError, ValueError):
        return None


def _sampling(
    own: Mapping[str, Any],
    episode: Mapping[str, Any],
    in_calls: Mapping[str, Sequence[Any]],
    nodes: Sequence[Any],
) -> SamplingEvidence:
    asked = flat_sampling(own.get("sampling"))
    work = object_in(at(episode, "run", "work"))
    if work.get("step") is not None:
        asked["train_step"] = work["step"]
    policy = object_in(work.get("policy"))
    by_call = any(node.record.get("weight_versions") for node in nodes)
    if not by_call and policy.get("start") is not None and policy["start"] == policy.get("end"):
        asked["policy_version"] = policy["start"]
    return SamplingEvidence(in_calls=in_calls, asked=asked)


def _ending(
    stop: StopReason,
    signs: Signs,
    errors: Sequence[Mapping[str, Any]],
    compactions: Sequence[int] = (),
) -> EndingEvidence:
    return EndingEvidence(
        stated=stop,
        completion=Completion.NONE,
        exception=Exceptional(type=text_in(errors[-1].get("type"))) if errors else None,
        n_episodes=signs.turns,
        cap=signs.cap,
        trace=RunTrace(reference_word=signs.word),
        compactions=tuple(compactions),
    )
