"""A row of the time before traces (v0): tokens only where the run saved its `trajectory`."""

from collections.abc import Mapping
from typing import Any

from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import Completion, SpanSource
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.evidence import (
    EndingEvidence,
    Evidence,
    Exceptional,
    GradeEvidence,
    Identity,
    RunTrace,
    SamplingEvidence,
    Times,
)
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import Values, at, group_id, moment, object_in
from wmo_distill.sources.verifiers.calls import flat_sampling, is_rounded
from wmo_distill.sources.verifiers.ending import old_stop_of
from wmo_distill.sources.verifiers.fields import number_in, text_in
from wmo_distill.sources.verifiers.run import RunConfig, job_of
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.rows import (
    DAMAGED_IDS,
    MISSING_IDS,
    id_row,
    logprob_row,
    shared_rows,
)


def row_evidence(
    found: FoundTrial, row: Mapping[str, Any], config: RunConfig, options: BuildOptions
) -> Evidence:
    """The evidence of one row; which calls belong together its tokens decide."""
    values = Values()
    calls, issues = _calls(row.get("trajectory"), extra=options.extra)
    error = row.get("error")
    word = text_in(row.get("stop_condition"))
    stop, said = old_stop_of(word, error, row.get("is_truncated") is True)
    reward = row.get("reward")
    kind = text_in(error.get("error") if isinstance(error, dict) else error)
    return Evidence(
        identity=_identity(found, row, config, values),
        calls=calls,
        call_source=SpanSource.CAPTURE,
        sampling=SamplingEvidence(asked=flat_sampling(config.sampling)),
        ending=EndingEvidence(
            stated=stop,
            completion=Completion.NONE,
            exception=None if error is None else Exceptional(type=kind),
            n_episodes=len(calls),
            trace=RunTrace(reference_word=word),
        ),
        grade=GradeEvidence(
            rewards={} if reward is None else {"reward": reward},
            recorded_valid=error is None,
            note=kind or "",
        ),
        times=_times(row),
        issues=(*values.issues, *issues, *said),
    )


def _calls(trajectory: Any, *, extra: bool) -> tuple[list[Call], list[Issue]]:
    steps = trajectory if isinstance(trajectory, list) else []
    tokens = [object_in(object_in(step).get("tokens")) for step in steps]
    prompts = shared_rows([id_row(one.get("prompt_ids")) for one in tokens])
    calls = []
    for k, (step, one, prompt) in enumerate(zip(steps, tokens, prompts, strict=True)):
        sampled = id_row(one.get("completion_ids")) if one else MISSING_IDS
        sound = _is_all(one.get("prompt_mask"), 0, prompt.size)
        sound = sound and _is_all(one.get("completion_mask"), 1, sampled.size)
        reason = at(step, "response", "message", "finish_reason")
        around = {name: step[name] for name in ("advantage", "reward") if one and name in step}
        calls.append(
            Call(
                k,
                prompt if sound else DAMAGED_IDS,
                sampled,
                logprob_row(one.get("completion_logprobs")),
                extra=json_text(around) if extra and around else None,
                finish_reason=plain_text(reason) if isinstance(reason, str) else None,
            )
        )
    issues = [Issue.LOGPROBS_ROUNDED] if is_rounded(calls) else []
    tensors = any(one.get("routed_experts") is not None for one in tokens)
    return calls, issues + [Issue.TENSOR_NOT_READABLE] * tensors


def _is_all(mask: Any, bit: int, size: int) -> bool:
    """Whether a mask, where there is one, says the same of all ids."""
    if mask is None:
        return True
    return isinstance(mask, list) and len(mask) == size and all(one == bit for one in mask)


def _identity(
    found: FoundTrial, row: Mapping[str, Any], config: RunConfig, values: Values
) -> Identity:
    label = f"example-{row.get('example_id')}"
    source, model = values.text(config.source), values.text(config.model)
    job = job_of(found.root)
    return Identity(
        trial_id=found.trial_id,
        trial_name=plain_text(f"{label}__{(found.trial_id or '').removeprefix('v0:')[:8]}"),
        artifact_dir=found.path,
        task_id=plain_text(label),
        source=source or None,
        job=values.text(job),
        group_id=group_id(["verifiers", job, source, label, "agent", model]),
        group_expected=values.integer(config.rollouts),
        model_name=model,
    )


def _times(row: Mapping[str, Any]) -> Times:
    timing = object_in(row.get("timing"))
    return Times(
        started_at=moment(timing.get("start_time")),
        finished_at=moment(at(timing, "scoring", "end") or at(timing, "generation", "end")),
        agent_seconds=number_in(at(timing, "generation", "duration")),
        verifier_seconds=number_in(at(timing, "scoring", "duration")),
        setup_seconds=number_in(at(timing, "setup", "duration")),
    )
