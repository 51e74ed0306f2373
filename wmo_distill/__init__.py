"""Directories of agent trials to Parquet shards of trial records, token for token.

The names below are imported on first use, so that `import wmo_distill` stays light.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmo_distill.datums.advantages import attach_advantages as attach_advantages
    from wmo_distill.datums.build import build_datums as build_datums
    from wmo_distill.datums.dataset import DatumRow as DatumRow
    from wmo_distill.datums.dataset import iter_datums as iter_datums
    from wmo_distill.datums.datum import TrainDatum as TrainDatum
    from wmo_distill.datums.options import DatumOptions as DatumOptions
    from wmo_distill.datums.shards import build_datum_shards as build_datum_shards
    from wmo_distill.datums.topk import build_topk_ce_datums as build_topk_ce_datums
    from wmo_distill.datums.verify import verify_datums as verify_datums
    from wmo_distill.errors import DistillError as DistillError
    from wmo_distill.errors import UsageError as UsageError
    from wmo_distill.exporters.messages import export_messages as export_messages
    from wmo_distill.exporters.run import export_datums as export_datums
    from wmo_distill.issues import Issue as Issue
    from wmo_distill.options import BuildOptions as BuildOptions
    from wmo_distill.options import RegradeOptions as RegradeOptions
    from wmo_distill.pipeline.build import build as build
    from wmo_distill.pipeline.regrade import regrade as regrade
    from wmo_distill.pipeline.summary import Regraded as Regraded
    from wmo_distill.pipeline.summary import Summary as Summary
    from wmo_distill.progress import Progress as Progress
    from wmo_distill.records import Completion as Completion
    from wmo_distill.records import GradedTests as GradedTests
    from wmo_distill.records import ScoreCell as ScoreCell
    from wmo_distill.records import StopReason as StopReason
    from wmo_distill.records import TrialRecord as TrialRecord
    from wmo_distill.reference.entry_points import (
        assemble_harbor_trial_records as assemble_harbor_trial_records,
    )
    from wmo_distill.reference.entry_points import assemble_trial_records as assemble_trial_records
    from wmo_distill.reference.entry_points import (
        load_trial_rollout_spans as load_trial_rollout_spans,
    )
    from wmo_distill.reference.entry_points import load_trial_spans as load_trial_spans
    from wmo_distill.reference.entry_points import (
        read_terminus_stop_reason as read_terminus_stop_reason,
    )
    from wmo_distill.reference.entry_points import read_trial_stop_reason as read_trial_stop_reason
    from wmo_distill.scorers.cache import ScoreCache as ScoreCache
    from wmo_distill.scorers.check import check_logprobs as check_logprobs
    from wmo_distill.scorers.run import score_datums as score_datums
    from wmo_distill.shards.scan import iter_records as iter_records
    from wmo_distill.shards.scan import scan as scan
    from wmo_distill.shards.verify import verify as verify
    from wmo_distill.tokens import TokenSpan as TokenSpan
    from wmo_distill.trial import read_trial as read_trial

__version__ = "0.1.0"

_HOMES = {
    "datums.advantages": ("attach_advantages",),
    "datums.build": ("build_datums",),
    "datums.dataset": ("DatumRow", "iter_datums"),
    "datums.datum": ("TrainDatum",),
    "datums.options": ("DatumOptions",),
    "datums.shards": ("build_datum_shards",),
    "datums.topk": ("build_topk_ce_datums",),
    "datums.verify": ("verify_datums",),
    "errors": ("DistillError", "UsageError"),
    "exporters.messages": ("export_messages",),
    "exporters.run": ("export_datums",),
    "issues": ("Issue",),
    "options": ("BuildOptions", "RegradeOptions"),
    "pipeline.build": ("build",),
    "progress": ("Progress",),
    "records": ("Completion", "GradedTests", "ScoreCell", "StopReason", "TrialRecord"),
    "reference.entry_points": (
        "assemble_harbor_trial_records",
        "assemble_trial_records",
        "load_trial_rollout_spans",
        "load_trial_spans",
        "read_terminus_stop_reason",
        "read_trial_stop_reason",
    ),
    "scorers.cache": ("ScoreCache",),
    "scorers.check": ("check_logprobs",),
    "scorers.run": ("score_datums",),
    "shards.scan": ("iter_records", "scan"),
    "shards.verify": ("verify",),
    "pipeline.regrade": ("regrade",),
    "pipeline.summary": ("Regraded", "Summary"),
    "tokens": ("TokenSpan",),
    "trial": ("read_trial",),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
