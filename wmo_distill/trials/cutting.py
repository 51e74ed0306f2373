"""What a record does not take over from a trial's files: credentials, wherever they are."""

import json
import re
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from wmo_distill.arguments import CHECKS, OF_A_CALL, sampling_arguments
from wmo_distill.credentials import is_masked, json_without_credentials, without_credentials
from wmo_distill.issues import Issue
from wmo_distill.records import SegmentInfo, TrialRecord
from wmo_distill.sources.recorded import Call
from wmo_distill.tokenjson.extras import json_text

_KEPT = frozenset({"spans", "issues", "episode_id", "artifact_dir"})
"""Cut call by call; codes; made of other columns; a path by which files are found again.

`sampled_with` is not here either: its values are cut as they are read.
"""
_TEXTS = tuple(
    field.name
    for field in fields(TrialRecord)
    if field.name not in _KEPT and re.search(r"\bstr\b|SegmentInfo", str(field.type))
)
_texts_of = attrgetter(*_TEXTS)
_CALL_CHECKS = {**CHECKS, **OF_A_CALL}


def cut_record(record: TrialRecord) -> TrialRecord:
    """The record without credentials in its own columns, an issue for each that held one."""
    cut = {}
    for name, value in zip(_TEXTS, _texts_of(record), strict=True):
        if value and (without := _cut(value)) != value:
            cut[name] = without
    if not cut:
        return record
    issues = sorted((*record.issues, *[Issue.CREDENTIAL_CUT] * len(cut)))
    return replace(record, **cut, issues=tuple(issues))


def cut_call(call: Call) -> tuple[Call, list[Issue]]:
    """(the call without credentials in what is recorded next to its tokens, issues)."""
    if not (call.extra or call.sampling or call.finish_reason or call.versions):
        return call, []
    sampling: str | None = call.sampling
    changed: list[str] = []
    if sampling is not None:
        arguments, changed = sampling_arguments(json.loads(sampling), _CALL_CHECKS)
        sampling = json_text(dict(sorted(arguments.items()))) if arguments else None
    cut = call._replace(
        sampling=sampling,
        extra=None if call.extra is None else json_without_credentials(call.extra),
        finish_reason=_cut(call.finish_reason),
        versions=_cut(call.versions),
    )
    n = sum(
        getattr(cut, name) != getattr(call, name) for name in ("extra", "finish_reason", "versions")
    )
    masked = call.extra is not None and is_masked(call.extra)
    return cut, [
        *[Issue.CREDENTIAL_CUT] * n,
        *[Issue.SAMPLING_LEFT_OUT] * len(changed),
        *[Issue.TEXT_MASKED] * masked,
    ]


def _cut(value: Any) -> Any:
    if type(value) is str:
        return without_credentials(value)
    if isinstance(value, tuple):
        return tuple(map(_cut, value))
    if isinstance(value, dict):
        return {_cut(name): one for name, one in value.items()}
    if isinstance(value, SegmentInfo):
        return replace(value, agent=_cut(value.agent), model=_cut(value.model))
    return value
