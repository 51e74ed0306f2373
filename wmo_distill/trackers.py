"""Experiment trackers, through their own clients: the numbers of one run, sent once."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import Any

from wmo_distill.errors import UsageError


class TrackerName(StrEnum):
    """Trackers, by the names of their clients."""

    WANDB = "wandb"
    TRACKIO = "trackio"
    MLFLOW = "mlflow"


Send = Callable[[Mapping[str, Any]], None]
"""Sends a run's line of metrics.jsonl; raises whatever the client raises."""


def sender(tracker: TrackerName, project: str) -> Send:
    """UsageError where its client is not installed."""
    from importlib.util import find_spec

    found = find_spec(tracker.value)
    # A directory of that name, such as wandb makes for its runs, is found as a package too.
    if found is None or not found.has_location:
        raise UsageError(
            f"--tracker: expected the client of {tracker}, found none; `pip install {tracker}`, or "
            "leave the option out"
        )
    return partial(_send, tracker, project)


def _send(tracker: TrackerName, project: str, record: Mapping[str, Any]) -> None:
    """Its numbers as metrics, the rest as the description of the run."""
    about = {k: v for k, v in record.items() if isinstance(v, str)}
    with redirect_stdout(sys.stderr):  # what a client prints is no result of ours
        _SENDERS[tracker](project, record["run_id"], about, dict(flat(record)))


def flat(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    """Numbers under names such as `result/skipped/no_cell`, which every tracker takes."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{above}{name}", value


def _wandb(project: str, run_id: str, about: dict[str, str], values: dict[str, float]) -> None:
    wandb = import_module("wandb")
    run = wandb.init(project=project, name=run_id, job_type=about["command"], config=about)
    run.log(values)
    run.finish()


def _trackio(project: str, run_id: str, about: dict[str, str], values: dict[str, float]) -> None:
    trackio = import_module("trackio")
    trackio.init(project=project, name=run_id, config=about)
    trackio.log(values)
    trackio.finish()


def _mlflow(project: str, run_id: str, about: dict[str, str], values: dict[str, float]) -> None:
    mlflow = import_module("mlflow")
    mlflow.set_experiment(project)
    with mlflow.start_run(run_name=run_id):
        mlflow.log_params(about)
        mlflow.log_metrics(values)


_SENDERS = {
    TrackerName.WANDB: _wandb,
    TrackerName.TRACKIO: _trackio,
    TrackerName.MLFLOW: _mlflow,
}
