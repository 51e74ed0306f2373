"""Agreement with the published statistics of world-model-optimizer 0.2.0, case by case."""

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wmo_distill.records import GradedTests, StopReason, TrialRecord
from wmo_distill.reference.stats import billing, policy_health, reference_rollout_stats
from wmo_distill.tokens import TokenSpan

CASES = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "stats" / "reference.json").read_text()
)


def number(value: Any) -> Any:
    """The fixture spells numbers that are not finite as strings."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def plain(record: dict[str, Any]) -> SimpleNamespace:
    """A record of nothing but lists."""
    spans = [
        SimpleNamespace(
            **{**span, "sampled_logprobs": [number(x) for x in span["sampled_logprobs"]]}
        )
        for span in record["spans"]
    ]
    tests = record["tests"] and SimpleNamespace(**record["tests"])
    return SimpleNamespace(**{**record, "spans": spans, "tests": tests})


def ours(record: dict[str, Any]) -> TrialRecord:
    """The same as a record of ours."""
    tests = record["tests"]
    return TrialRecord(
        reward=record["reward"],
        passed=record["passed"],
        infra_failed=record["infra_failed"],
        stop_reason=record["stop_reason"],
        tests=tests and GradedTests(**{k: v for k, v in tests.items() if k != "score"}),
        spans=tuple(
            TokenSpan(
                span["call_index"],
                span["prompt_token_ids"],
                span["sampled_token_ids"],
                [number(x) for x in span["sampled_logprobs"]],
            )
            for span in record["spans"]
        ),
    )


def check(case: dict[str, Any], records: list[Any]) -> None:
    for name, got in {
        "rollout_stats": reference_rollout_stats(records, case["max_tokens"]),
        "policy_health": policy_health(records),
        "billing": billing(records),
    }.items():
        expected = {key: number(x) for key, x in case[name].items() if key != "stop_reason_counts"}
        assert asdict(got) == {
            key: pytest.approx(x, nan_ok=True) if isinstance(x, float) else x
            for key, x in expected.items()
        } | {k: v for k, v in case[name].items() if k == "stop_reason_counts"}


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_on_plain_objects(case: dict[str, Any]) -> None:
    check(case, [plain(record) for record in case["records"]])


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if "over_int" not in case["case"]],  # no span of ours holds these
    ids=lambda case: case["case"],
)
def test_on_records(case: dict[str, Any]) -> None:
    check(case, [ours(record) for record in case["records"]])


def test_the_cases_are_there() -> None:
    assert len(CASES) > 30


def test_calls_without_ids_or_log_probabilities() -> None:
    spans = (TokenSpan(0, [1, 2], None), TokenSpan(1, [1, 2, 3], [4, 5], None))
    record = TrialRecord(spans=spans, stop_reason=StopReason.SUBMITTED)
    health = policy_health([record])
    assert (health.sampled_tokens, health.entropy_per_token) == (2, 0.0)
    assert billing([record]).unique_tokens == 5
    assert reference_rollout_stats([record]).scaffold_loss_rate == 0.0
    assert np.array_equal(spans[1].prompt_token_ids, [1, 2, 3])
