"""What a bank of `verifiers` runs is expected to hold, and records held against it."""

import hashlib
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from wmo_distill import TrialRecord, build, build_datum_shards, iter_datums, iter_records
from wmo_distill.tokens import TokenSpan

BANK = Path(__file__).parents[2] / "fixtures/recorders/verifiers"
RUNS = sorted(path.name for path in BANK.iterdir())
ANY_REWARD = (-math.inf, math.inf)
_LONGEST = 400
"""Longer lists of ids are said by length and digest."""

Said = tuple[Any, tuple[int, ...], tuple[float | None, ...] | None]


def expected_of(run: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((BANK / run / "expected.json").read_text())
    return loaded


def expected_traces(run: str) -> dict[str, dict[str, Any]]:
    """The expected traces of a run by id; a trace of several files once."""
    traces: dict[str, dict[str, Any]] = {}
    for lines in expected_of(run).get("files", {}).values():
        for line in lines:
            for trace in line.get("traces", ()):
                traces.setdefault(trace["id"], trace)
    return traces


def built(run: Path, out: Path, **options: Any) -> dict[str | None, TrialRecord]:
    """The records of a run by trial id."""
    build([run], out, **{"workers": 1, "reward_range": ANY_REWARD, **options})
    return {record.trial_id: record for record in iter_records(out)}


def said_ids(ids: Any) -> Any:
    """Ids, or of many their number and digest."""
    if isinstance(ids, dict):
        return ids["len"], ids["sha256"]
    if len(ids) <= _LONGEST:
        return tuple(ids)
    return len(ids), hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


def said_call(call: dict[str, Any]) -> Said:
    logprobs = call["logprobs"]
    return (
        said_ids(call["prompt_ids"]),
        tuple(call["sampled_ids"]),
        None if logprobs is None else tuple(logprobs),
    )


def said_span(span: TokenSpan) -> Said:
    logprobs = span.sampled_logprobs
    return (
        said_ids(span.prompt_token_ids.tolist()),
        tuple(span.sampled.tolist()),
        None if logprobs is None else tuple(logprobs.tolist()),
    )


def sampled_calls(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of which any token is recorded."""
    return [call for call in trace["calls"] if call.get("prompt_ids")]


def total_of(rewards: dict[str, Any] | None) -> float | None:
    """The package's total; None where a reward is not there."""
    if not rewards or None in rewards.values():
        return None
    return sum(r["score"] * r["weight"] if isinstance(r, dict) else r for r in rewards.values())


def trained_as_by_prime_rl(dataset: Path, out: Path) -> dict[str, Counter[Any]]:
    """The sequences of each episode, with every chat, in the form of `sequences_of`."""
    build_datum_shards(dataset, out, subagents=True, reopen=True)
    found: dict[str, Counter[Any]] = {}
    for row in iter_datums(out):
        datum, mask = row.datum, row.datum.loss_mask
        ids = said_ids(datum.token_ids.tolist())
        logprobs = np.float32(datum.sampled_logprobs[mask]).tolist()
        sequence = ids, tuple(np.flatnonzero(mask).tolist()), tuple(logprobs)
        found.setdefault(datum.episode_id, Counter())[sequence] += 1
    return found


def sequences_of(trace: dict[str, Any]) -> Counter[Any]:
    """What prime-rl trains of a trace: ids, positions, log-probabilities in single precision."""
    return Counter(
        (
            said_ids(one["token_ids"]),
            tuple(k for start, stop in one["mask_runs"] for k in range(start, stop)),
            tuple(np.float32(one["logprobs_at_mask"]).tolist()),
        )
        for one in trace["sequences"]
        if trace["prime_rl"]["trains"]
    )
