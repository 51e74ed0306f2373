"""Token sinks: JSONL files in which a recorder in front of the model wrote one call a line."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from wmo_distill.files import Absent, TrialFiles, parse_json, plain_text
from wmo_distill.issues import Issue
from wmo_distill.limits import TEXT_BYTES, refuse_beyond
from wmo_distill.predicates import finish_reason_of
from wmo_distill.sources.captured import columns_of, distinct, own_sampling
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import moment
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.rows import (
    MISSING_IDS,
    MISSING_LOGPROBS,
    IdRow,
    SharedRows,
    id_row,
    logprob_row,
    shared_rows,
    whole_row,
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
    """Read one sink file, with the text of extras if `extra`; a torn last line is forgiven.

    A line is in memory at a time; what is kept of it is its call and its sampling.
    """
    opened = Absent.MISSING if relative is None else sinks.open(relative)
    if isinstance(opened, Absent):
        state = SinkState.MISSING if opened is Absent.MISSING else SinkState.CORRUPT
        issue = Issue.SINK_MISSING if opened is Absent.MISSING else Issue.SINK_CORRUPT
        return Sink(state, issues=(issue,))
    read = _Lines(extra)
    with io.BufferedReader(opened, 1 << 20) as file:
        try:
            while line := file.readline(TEXT_BYTES):
                refuse_beyond(len(line), TEXT_BYTES - 1, f"{relative}: bytes of one line")
                read.add(line)
        except MemoryError:
            return Sink(SinkState.CORRUPT, issues=(Issue.SINK_CORRUPT,))
    return read.sink()


@dataclass(slots=True)
class _Lines:
    """The lines of a sink as they are read; once one is no call of ours, they are only counted."""

    extra: bool
    count: int = 0
    is_first: bool = True
    torn: bool = False
    corrupt: bool = False
    calls: list[Call] = field(default_factory=list)
    sampling: list[Mapping[str, Any]] = field(default_factory=list)
    """What each line records of it."""
    _prompts: SharedRows = field(default_factory=SharedRows)

    def add(self, line: bytes) -> None:
        """One line with its break; the last one has none."""
        text = line.removesuffix(b"\n")
        if self.is_first:
            text, self.is_first = text.removeprefix(_BOM), False
        if not text.strip():
            return
        if not line.endswith(b"\n") and _is_torn(text):
            self.torn = True
            return
        self.count += 1
        if self.corrupt:
            return
        value = parse_json(text)
        if not isinstance(value, dict) or type(value.get("call_index")) is not int:
            self.corrupt = True
            return
        self.calls.append(_call(value, self._prompts, self.extra))
        self.sampling.append(columns_of(value))

    def sink(self) -> Sink:
        """The sink; corrupt as a whole where the calls are not 0..n-1, each once."""
        issues = [Issue.SINK_TORN_LINE] if self.torn else []
        order = sorted(range(len(self.calls)), key=lambda i: self.calls[i].call_index)
        indices = [self.calls[i].call_index for i in order]
        if self.corrupt or indices != list(range(self.count)):
            issues += [Issue.SINK_CORRUPT] + [Issue.CALL_IN_CORRUPT_SINK] * self.count
            return Sink(SinkState.CORRUPT, lines=self.count, issues=tuple(issues))
        calls, asked = self.calls, self.sampling
        if order != indices:
            issues.append(Issue.SINK_OUT_OF_ORDER)
            calls, asked = _sorted(calls, order), [asked[i] for i in order]
        sampling = distinct(asked)
        varies = len(sampling.get("policy_version", ())) > 1
        settled = [
            call._replace(
                versions=_version(own) if varies else None, sampling=own_sampling(own, sampling)
            )
            for call, own in zip(calls, asked, strict=True)
        ]
        return Sink(SinkState.READ, tuple(settled), self.count, tuple(issues), sampling)


def _sorted(calls: Sequence[Call], order: Sequence[int]) -> list[Call]:
    """In this order, each prompt coded against the one before."""
    placed = [calls[i] for i in order]
    whole = [c.prompt if (ids := whole_row(c.prompt)) is None else IdRow(0, ids) for c in placed]
    prompts = shared_rows(whole)
    return [call._replace(prompt=row) for call, row in zip(placed, prompts, strict=True)]


def _is_torn(line: bytes) -> bool:
    """Whether a line broke off: no JSON value is whole in it, neither an object nor another."""
    text = line.decode("utf-8", "replace").lstrip(" \t\r")
    try:
        _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return parse_json(line) is Absent.UNREADABLE
    return False


def _call(value: dict[str, Any], prompts: SharedRows, wanted: bool) -> Call:
    """The call of a line, without what only all lines together tell."""
    sampled = value.get("sampled_token_ids")
    logprobs = value.get("sampled_logprobs")
    extra = recorded_extra(value)
    reason = finish_reason_of(value.get("finish_reason"), value.get("stop_reason"))
    return Call(
        value["call_index"],
        prompts.add(id_row(value.get("prompt_token_ids"))),
        MISSING_IDS if sampled is None else id_row(sampled),
        MISSING_LOGPROBS if logprobs is None else logprob_row(logprobs),
        json_text(extra) if wanted and extra else None,
        None if reason is None else plain_text(reason),
        at=_time_of(extra),
    )


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
