"""What a bank of `verifiers` runs is expected to hold, and a dataset held against it."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wmo_distill import TrialRecord
from wmo_distill.tokens import TokenSpan


def expected_traces(run: Path) -> dict[str, dict[str, Any]]:
    """The expected traces of a run by id; a trace of several files once."""
    expected = json.loads((run / "expected.json").read_text())
    traces: dict[str, dict[str, Any]] = {}
    for lines in expected.get("files", {}).values():
        for line in lines:
            for trace in line.get("traces", ()):
                traces.setdefault(trace["id"], trace)
    return traces


def said_of(ids: np.ndarray) -> Any:  # type: ignore[type-arg]
    """Ids as `expected.json` says them: themselves, or length and digest above 400."""
    listed = ids.tolist()
    if len(listed) <= 400:
        return listed
    return len(listed), hashlib.sha256(",".join(map(str, listed)).encode()).hexdigest()


def wanted(ids: Any) -> Any:
    if not isinstance(ids, dict):
        return ids
    return next(v for k, v in ids.items() if k in ("n", "length", "len")), ids["sha256"]


def differences(record: TrialRecord, trace: dict[str, Any]) -> Iterator[str]:
    """What of the expected calls is not in a record as it was sampled."""
    calls = [call for call in trace["calls"] if call.get("sampled_ids") is not None]
    found = [said(span) for span in record.spans]
    for call in calls:
        want = (wanted(call["prompt_ids"]), call["sampled_ids"], call["logprobs"])
        if want in found:
            found.remove(want)
        else:
            yield f"{record.trial_id}: call of node {call['node']} is not there"
    yield from (f"{record.trial_id}: nobody sampled {one[1][:9]}" for one in found)


def said(span: TokenSpan) -> tuple[Any, Any, Any]:
    logprobs = span.sampled_logprobs
    return (
        said_of(span.prompt_token_ids),
        span.sampled.tolist(),
        None if logprobs is None else logprobs.tolist(),
    )
