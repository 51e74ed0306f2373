"""Token sinks: JSONL files in which a recorder in front of the model wrote one call a line."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from wmo_distill.files import Absent, TrialFiles, parse_json, plain_text
from wmo_distill.issues import Issue
from wmo_distill.predicates import finish_reason_of
from wmo_distill.sources.captured import columns_of, distinct, own_sampling
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import moment
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.rows import (
    MISSING_IDS,
    MISSING_LOGPROBS,
    id_row,
    logprob_row,
    shared_rows,
)

CORE_FIELDS = (
    "call_index",
    "prompt_token_ids",
    "sampled_token_ids",
    "sampled_logprobs",
    "finish_reason",
)
_TIME_KEYS = (
    "time", "at", "timestamp", "created_at", "created", "ts",
    "finished_at", "completed_at", "end_time", "started_at", "start_time", "request_time",
)  # fmt: skip
_BOM = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder()


class SinkState(StrEnum):
    MISSING = "missing"
    CORRUPT = "corrupt"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink's calls in order of call_index; none if it is missing or corrupt."""

    state: SinkState
    calls: tuple[Call, ...] = ()
    lines: int = 0
    """Whole lines found, blank ones not counted."""
    issues: tuple[Issue, ...] = ()
    sampling: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The distinct values that its lines record, as recorded, by sampling column."""


def sink_path(trial_name: str, step_name: str | None = None) -> str | None:
    """The sink of a trial, or of a step, relative to the sink directory; None for no file name."""
    parts = [trial_name] if step_name is None else [trial_name, step_name]
    if any("/" in part or part in ("", ".", "..") or "\0" in part for part in parts):
        return None
    return "/".join(parts) + ".jsonl"


def read_sink(sinks: TrialFiles, relative: str | None, *, extra: bool = True) -> Sink:
    """Read one sink file, with the text of extras if `extra`; a torn last line is forgiven."""
    data = Absent.MISSING if relative is None else sinks.read(relative)
    if isinstance(data, Absent):
        state = SinkState.MISSING if data is Absent.MISSING else SinkState.CORRUPT
        issue = Issue.SINK_MISSING if data is Absent.MISSING else Issue.SINK_CORRUPT
        return Sink(state, issues=(issue,))
    lines, torn = split_lines(data)
    issues = [Issue.SINK_TORN_LINE] if torn else []
    values: list[Any] = [parse_json(line) for line in lines]
    order = _order(values)
    if order is None:
        issues += [Issue.SINK_CORRUPT] + [Issue.CALL_IN_CORRUPT_SINK] * len(lines)
        return Sink(SinkState.CORRUPT, lines=len(lines), issues=tuple(issues))
    if order != list(range(len(values))):
        issues.append(Issue.SINK_OUT_OF_ORDER)
    ordered: list[dict[str, Any]] = [values[i] for i in order]
    sampling = distinct(map(columns_of, ordered))
    calls = _calls(ordered, extra, sampling)
    return Sink(SinkState.READ, calls, len(lines), tuple(issues), sampling)


def split_lines(data: bytes) -> tuple[list[bytes], bool]:
    """(whole lines that are not blank, whether a torn last line was dropped)."""
    lines = data.removeprefix(_BOM).split(b"\n")
    last = lines[-1]
    torn = bool(last.strip()) and _is_torn(last)
    if torn:
        lines = lines[:-1]
    return [line for line in lines if line.strip()], torn


def _is_torn(line: bytes) -> bool:
    """Whether a line broke off: no JSON value is whole in it, neither an object nor another."""
    text = line.decode("utf-8", "replace").lstrip(" \t\r")
    try:
        _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return parse_json(line) is Absent.UNREADABLE
    return False


def _order(values: list[Any]) -> list[int] | None:
    """Positions sorted by call_index; None if a line is no object or indices are not 0..n-1."""
    indices = []
    for value in values:
        index = value.get("call_index") if isinstance(value, dict) else None
        if type(index) is not int:
            return None
        indices.append(index)
    order = sorted(range(len(values)), key=indices.__getitem__)
    return order if [indices[i] for i in order] == list(range(len(values))) else None


def _calls(
    values: list[dict[str, Any]], wanted: bool, sampling: Mapping[str, Sequence[Any]]
) -> tuple[Call, ...]:
    prompts = shared_rows([id_row(value.get("prompt_token_ids")) for value in values])
    calls = []
    for value, prompt in zip(values, prompts, strict=True):
        sampled = value.get("sampled_token_ids")
        logprobs = value.get("sampled_logprobs")
        extra = recorded_extra(value)
        reason = finish_reason_of(value.get("finish_reason"), value.get("stop_reason"))
        calls.append(
            Call(
                value["call_index"],
                prompt,
                MISSING_IDS if sampled is None else id_row(sampled),
                MISSING_LOGPROBS if logprobs is None else logprob_row(logprobs),
                json_text(extra) if wanted and extra else None,
                None if reason is None else plain_text(reason),
                at=_time_of(extra),
                versions=_version(value) if len(sampling.get("policy_version", ())) > 1 else None,
                sampling=own_sampling(value, sampling),
            )
        )
    return tuple(calls)


def _version(value: Mapping[str, Any]) -> tuple[tuple[str, int]] | None:
    """The line's own policy version."""
    version = value.get("policy_version")
    if isinstance(version, bool):
        return None
    return ((plain_text(str(version)), 0),) if isinstance(version, str | int) else None


def _time_of(extra: Mapping[str, Any]) -> datetime | None:
    """The first readable time of a line, in the order of `_TIME_KEYS`."""
    found = (moment(extra.get(key)) for key in _TIME_KEYS)
    return next((time for time in found if time is not None), None)


def recorded_extra(value: Mapping[str, Any]) -> dict[str, Any]:
    """What a line holds besides the call itself: provider extras and the conversation."""
    nested = value.get("extra")
    extra = {k: v for k, v in value.items() if k not in CORE_FIELDS and k != "extra"}
    if isinstance(nested, dict):
        return {**nested, **extra}
    return extra if nested is None else {**extra, "extra": nested}
