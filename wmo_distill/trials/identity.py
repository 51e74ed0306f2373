"""Who sampled what, for which task, in which group, and when."""

import hashlib
import json
from typing import Any

from wmo_distill.trials.values import INT64, Values, at


def identity_columns(
    result: Any, config: Any, *, directory: str, job: str | None, values: Values
) -> dict[str, Any]:
    """The identity columns that all episodes of a trial share.

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
    task_checksum = at(result, "task_checksum")
    columns: dict[str, Any] = {
        "trial_id": values.text(at(result, "id")) or None,
        "trial_name": names[0] or names[1] or directory,
        "task_id": values.text(task_id),
        "task_checksum": values.text(task_checksum),
        "source": values.text(source),
        "regrade_of": values.text(at(config, "source_trial", "trial_id")),
        "agent_name": values.text(agent_name),
        "agent_version": values.text(at(result, "agent_info", "version")),
        "model_name": values.text(model_name),
        "model_provider": values.text(provider),
    }
    columns["group_id"] = group_id(
        [
            _or_none(at(config, "job_id")) or job,
            columns["source"],
            columns["task_id"],
            columns["task_checksum"],
            columns["agent_name"],
            columns["model_name"],
            at(config, "agent", "kwargs"),
        ]
    )
    return columns


def trial_times(result: Any, values: Values) -> dict[str, Any]:
    """When the trial ran and how long its setup took; the same for each of its steps."""
    setups = [values.seconds(at(result, key)) for key in ("environment_setup", "agent_setup")]
    known = [seconds for seconds in setups if seconds is not None]
    return {
        "started_at": values.time(at(result, "started_at")),
        "finished_at": values.time(at(result, "finished_at")),
        "setup_seconds": sum(known) if known else None,
    }


def episode_trace(episode: Any, values: Values) -> dict[str, Any]:
    """Time and cost of one episode: of the result itself, or of an element of step_results."""
    agent_result = at(episode, "agent_result")
    return {
        "agent_seconds": values.seconds(at(episode, "agent_execution")),
        "verifier_seconds": values.seconds(at(episode, "verifier")),
        "cost_usd": values.number(at(agent_result, "cost_usd")),
        "cached_tokens": values.integer(at(agent_result, "n_cache_tokens"), INT64),
    }


def group_id(parts: list[Any]) -> str:
    """The first 16 hex digits of SHA-256 over the JSON text of what names a group."""
    try:
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    except RecursionError:  # arguments nested too deeply to be written name no group
        text = json.dumps(parts[:-1], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
