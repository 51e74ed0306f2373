"""Rows of every kind that statistics count."""

import math
from typing import Any

import polars as pl
from hypothesis import strategies as st

from wmo_distill.records import Completion, StopReason
from wmo_distill.stats.tally import SPANLESS_REASONS

SPAN = pl.Struct(
    {
        "segment": pl.Int32,
        "call_index": pl.Int32,
        "prefix_len": pl.Int32,
        "prompt_suffix": pl.List(pl.Int32),
        "sampled_token_ids": pl.List(pl.Int32),
        "sampled_logprobs": pl.List(pl.Float64),
        "finish_reason": pl.String,
        "extra": pl.String,
    }
)


TESTS = pl.Struct({"passed": pl.Int32, "resolved": pl.Int32, "unresolved": pl.Int32})


TEXT = (
    "trial_name", "artifact_dir", "step_name", "task_id", "group_id", "agent_name", "model_name",
    "stop_reason", "reference_stop_reason", "completion",
)  # fmt: skip


COUNTS = (
    "n_calls", "fragments", "input_tokens", "output_tokens", "total_tokens", "prompt_tokens",
    "subagent_tokens",
)  # fmt: skip


SCHEMA: dict[str, Any] = {
    **dict.fromkeys(TEXT, pl.String),
    "reward": pl.Float64,
    **dict.fromkeys(("reward_valid", "passed", "infra_failed"), pl.Boolean),
    "tests": TESTS,
    "issues": pl.List(pl.String),
    "spans": pl.List(SPAN),
    **dict.fromkeys(COUNTS, pl.Int64),
    "expansion": pl.Float64,
}


def call(n: int, logprobs: list[float | None] | None, segment: int = 0) -> dict[str, Any]:
    return {
        "segment": segment,
        "call_index": 0,
        "prefix_len": 0,
        "prompt_suffix": [1, 2],
        "sampled_token_ids": [7] * n,
        "sampled_logprobs": logprobs,
        "finish_reason": None,
        "extra": None,
    }


def row(**changes: Any) -> dict[str, Any]:
    """A solved trial without tokens."""
    solved = {
        "trial_name": "a__t1",
        "artifact_dir": "jobs/a__t1",
        "task_id": "a",
        "group_id": "g",
        "stop_reason": "submitted",
        "reference_stop_reason": "submitted",
        "completion": "confirmed",
        "reward": 1.0,
        "reward_valid": True,
        "passed": True,
        "infra_failed": False,
        "issues": [],
        "spans": [],
        **dict.fromkeys(COUNTS, 0),
    }
    made = {**dict.fromkeys(SCHEMA), **solved, **changes}
    main = [s for s in made["spans"] if s["segment"] == 0]
    made["n_calls"] = len(main)
    made["output_tokens"] = sum(len(s["sampled_token_ids"] or ()) for s in main)
    return made


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SCHEMA)


UNSOLVED = {"reward": 0.0, "passed": False}


UNGRADED = {"reward": None, "passed": None, "infra_failed": True, "reward_valid": False}


CALLS = st.lists(
    st.integers(0, 3).flatmap(
        lambda n: st.builds(
            call,
            st.just(n),
            st.none()
            | st.lists(st.none() | st.floats(-5, 0) | st.just(math.nan), min_size=n, max_size=n),
            st.integers(0, 1),
        )
    ),
    max_size=4,
)


ROWS = st.lists(
    st.builds(
        row,
        spans=CALLS,
        reward=st.sampled_from([None, 0.0, 1.0]),
        passed=st.sampled_from([None, False, True]),
        reward_valid=st.sampled_from([None, False, True]),
        infra_failed=st.booleans(),
        stop_reason=st.sampled_from(list(StopReason)).map(str),
        reference_stop_reason=st.none() | st.sampled_from(["submitted", "error", "budget"]),
        completion=st.sampled_from(list(Completion)).map(str),
        issues=st.lists(st.sampled_from([i.value for i in SPANLESS_REASONS] + ["turns_disagree"])),
        task_id=st.sampled_from([None, "a", "b"]),
        group_id=st.sampled_from(["g", "h"]),
        step_name=st.sampled_from([None, "s"]),
    ),
    max_size=6,
)
