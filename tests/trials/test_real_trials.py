"""Real trials of several Harbor versions: every token, every ending, every reward."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmo_distill.options import BuildOptions
from wmo_distill.records import ReadTrial, SpanSource, TrialRecord
from wmo_distill.sources.base import FoundTrial
from wmo_distill.trial import read_found

FIXTURES = Path(__file__).parents[2] / "fixtures"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())


def read(root: Path, **options: Any) -> ReadTrial:
    found = FoundTrial("harbor", root, root.name)
    trial = read_found(found, BuildOptions(**options))
    kept = sum(len(record.spans) for record in trial.records)
    assert trial.calls_found == kept + sum(trial.calls_dropped.values())
    return trial


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda e: e["path"].rsplit("/", 1)[-1])
def test_a_real_trial(expected: dict[str, Any]) -> None:
    trial = read(FIXTURES / "trials" / expected["path"])
    assert [
        (record.step_name, record.stop_reason, record.completion, record.reward)
        for record in trial.records
    ] == [
        (e["step_name"], e["stop_reason"], e["completion"], e["reward"])
        for e in expected["episodes"]
    ]
    if expected["result"] != "ok":
        return
    if expected["reward_valid"] is not None and len(trial.records) == 1:
        assert trial.records[0].reward_valid == expected["reward_valid"]
    assert trial.records[0].task_id == expected["task_name"]
    if len(trial.records) == 1:
        assert dict(trial.records[0].rewards) == (expected["rewards"] or {})
        assert trial.records[0].exception_type == expected["exception"]


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda e: e["path"].rsplit("/", 1)[-1])
def test_tokens_are_those_of_the_files(expected: dict[str, Any]) -> None:
    """Every sampled id and log-probability of the result is kept, bit for bit, in its order."""
    if expected["result"] != "ok":
        return
    root = FIXTURES / "trials" / expected["path"]
    result = json.loads((root / "result.json").read_text())
    trial = read(root)
    steps = result.get("step_results")
    agents = [result["agent_result"]] if not steps else [s["agent_result"] for s in steps]
    for record, agent in zip(trial.records, agents, strict=True):
        for segment, entry in enumerate((agent or {}).get("rollout_details") or []):
            check_segment(record, segment, entry)


def check_segment(record: TrialRecord, segment: int, entry: dict[str, Any]) -> None:
    spans = [span for span in record.spans if span.segment == segment]
    prompts = [span.prompt_token_ids.tolist() for span in spans]
    assert prompts == entry["prompt_token_ids"]
    sampled = [
        span.sampled_token_ids.tolist() for span in spans if span.sampled_token_ids is not None
    ]
    assert [row for row in sampled if row] == [row for row in entry["completion_token_ids"] if row]
    recorded = [
        row
        for row, ids in zip(entry.get("logprobs", []), sampled, strict=False)
        if len(entry["logprobs"]) != len(sampled) or len(row) == len(ids)
    ]
    kept = [span.sampled_logprobs for span in spans if span.sampled_logprobs is not None]
    kept = [row for row in kept if row.size]
    assert len(kept) == len(recorded)
    for values, row in zip(kept, recorded, strict=True):
        wanted = np.array(row, np.float64)  # null becomes NaN
        assert values.tobytes() == wanted.tobytes() or np.array_equal(
            values, wanted, equal_nan=True
        )


def test_a_killed_trial_gives_its_finished_turns() -> None:
    path = next(e["path"] for e in EXPECTED if e["result"] == "missing")
    root = FIXTURES / "trials" / path
    (record,) = read(root).records
    steps = json.loads((root / "agent/trajectory.json").read_text())["steps"]
    metrics = [step["metrics"] for step in steps if step["source"] == "agent"]
    assert record.span_source is SpanSource.TRAJECTORY
    assert [span.prompt_token_ids.tolist() for span in record.spans] == [
        m["prompt_token_ids"] for m in metrics
    ]
    assert read(root, salvage=False).records[0].spans == ()


def test_a_compaction_is_placed() -> None:
    """The call after each compaction breaks the prefix."""
    path = next(e["path"] for e in EXPECTED if "06b-" in e["path"])
    (record,) = read(FIXTURES / "trials" / path).records
    main = [span for span in record.spans if span.segment == 0]
    broken = [
        after.call_index
        for before, after in pairwise(main)
        if after.prefix_len < before.sequence_len
    ]
    assert list(record.compactions) == broken != []
    assert record.counts.fragments == 2
    assert len(record.segments) == 4
