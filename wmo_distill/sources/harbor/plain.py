"""The ordinary way to read token lists: parse the document, then check every element.

It is the definition of what the fast reader must answer.
"""

from typing import Any

from wmo_distill.tokenjson.rows import IdRow, LogprobRow, id_row, logprob_row, shared_rows

LIST_KEYS = ("prompt_token_ids", "completion_token_ids", "logprobs")


def read_result_lists(value: Any) -> None:
    """Put rows in the place of the token lists of every `rollout_details` entry."""
    for entry in rollout_entries(value):
        for key in LIST_KEYS:
            rows = entry.get(key)
            if isinstance(rows, list):
                entry[key] = _rows(key, rows)


def read_step_lists(value: Any) -> None:
    """Put a row in the place of each token list of every step's `metrics`."""
    for metrics in step_metrics(value):
        for key in LIST_KEYS:
            if key in metrics:
                metrics[key] = one_row(key, metrics[key])


def one_row(key: str, value: Any) -> IdRow | LogprobRow:
    """The row of a list on its own."""
    return logprob_row(value) if key == "logprobs" else id_row(value)


def rollout_entries(value: Any) -> list[dict[str, Any]]:
    """The objects in the `rollout_details` of a result: the trial's own, then each step's."""
    if not isinstance(value, dict):
        return []
    steps = value.get("step_results")
    holders = [value, *(steps if isinstance(steps, list) else [])]
    entries: list[dict[str, Any]] = []
    for holder in holders:
        agent = holder.get("agent_result") if isinstance(holder, dict) else None
        details = agent.get("rollout_details") if isinstance(agent, dict) else None
        if isinstance(details, list):
            entries += [entry for entry in details if isinstance(entry, dict)]
    return entries


def step_metrics(value: Any) -> list[dict[str, Any]]:
    """The `metrics` objects of an ATIF document's steps."""
    steps = value.get("steps") if isinstance(value, dict) else None
    if not isinstance(steps, list):
        return []
    found = [step.get("metrics") for step in steps if isinstance(step, dict)]
    return [metrics for metrics in found if isinstance(metrics, dict)]


def _rows(key: str, rows: list[Any]) -> list[IdRow] | list[LogprobRow]:
    if key == "logprobs":
        return [logprob_row(row) for row in rows]
    read = [id_row(row) for row in rows]
    return shared_rows(read) if key == "prompt_token_ids" else read
