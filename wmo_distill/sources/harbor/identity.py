"""Who sampled what, for which task, in which group, and when."""

from dataclasses import replace
from typing import Any

from wmo_distill.sources.evidence import Identity, Times
from wmo_distill.sources.values import INT64, Values, at, group_id


def identity_of(
    result: Any, config: Any, *, directory: str, job: str | None, values: Values
) -> Identity:
    """What all episodes of a trial share.

    `result` is None where none can be read; `config` is the trial's own, `directory` its name.
    """
    source = at(result, "source")
    model = at(result, "agent_info", "model_info")
    provider, model_name = at(model, "provider"), at(model, "name")
    agent_name = at(result, "agent_info", "name")
    if result is None:
        source = at(config, "task", "source")
        agent_name = at(config, "agent", "name")
        provider, model_name = _model(at(config, "agent", "model_name"))
    task_id = at(result, "task_name")
    if task_id is None:
        task_id = _task_of_config(config)
    names = [values.text(at(document, "trial_name")) for document in (result, config)]
    source, task_id = values.text(source), values.text(task_id)
    checksum = values.text(at(result, "task_checksum"))
    agent_name, model_name = values.text(agent_name), values.text(model_name)
    kwargs = at(config, "agent", "kwargs")
    group_of = _or_none(at(config, "job_id")) or job
    return Identity(
        trial_id=values.text(at(result, "id")) or None,
        trial_name=names[0] or names[1] or directory,
        task_id=task_id,
        task_checksum=checksum,
        source=source,
        job=job,
        regrade_of=values.text(at(config, "source_trial", "trial_id")),
        agent_name=agent_name,
        agent_version=values.text(at(result, "agent_info", "version")),
        model_name=model_name,
        model_provider=values.text(provider),
        group_id=group_id([group_of, source, task_id, checksum, agent_name, model_name, kwargs]),
    )


def trial_times(result: Any, values: Values) -> Times:
    """When the trial ran and how long its setup took; the same for each of its steps."""
    setups = [values.seconds(at(result, key)) for key in ("environment_setup", "agent_setup")]
    known = [seconds for seconds in setups if seconds is not None]
    return Times(
        started_at=values.time(at(result, "started_at")),
        finished_at=values.time(at(result, "finished_at")),
        setup_seconds=sum(known) if known else None,
    )


def episode_times(episode: Any, trial: Times, values: Values) -> Times:
    """With time and cost of one episode: of the result, or of an element of step_results."""
    agent_result = at(episode, "agent_result")
    return replace(
        trial,
        agent_seconds=values.seconds(at(episode, "agent_execution")),
        verifier_seconds=values.seconds(at(episode, "verifier")),
        cost_usd=values.number(at(agent_result, "cost_usd")),
        cached_tokens=values.integer(at(agent_result, "n_cache_tokens"), INT64),
    )


def _task_of_config(config: Any) -> Any:
    name = at(config, "task", "name")
    if isinstance(name, str):
        return name
    path = at(config, "task", "path")
    parts = [p for p in path.replace("\\", "/").split("/") if p] if isinstance(path, str) else []
    return parts[-1] if parts else None


def _model(name: Any) -> tuple[str | None, str | None]:
    """(provider, name) of a model name such as `hosted_vllm/qwen3`."""
    if not isinstance(name, str):
        return None, None
    provider, slash, rest = name.partition("/")
    return (provider, rest) if slash else (None, name)


def _or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
