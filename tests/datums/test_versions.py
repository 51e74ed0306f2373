"""Which weights sampled what: through a sink, shards and datums to the trainers' rows."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmo_distill import (
    BuildOptions,
    UsageError,
    build,
    build_datum_shards,
    build_datums,
    iter_datums,
    iter_records,
    verify,
    verify_datums,
)
from wmo_distill.exporters import areal, slime, verl
from wmo_distill.exporters.target import Place
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, Sampling, SegmentInfo, SegmentKind, TrialRecord
from wmo_distill.tokens import TokenSpan

FIXTURE = Path(__file__).parents[2] / "fixtures/faults/more-calls-than-turns/jobs/j/t__late"
PLACE = Place(index=0, episode=0, group=0, step=0, last=True)


def span(call: int, prompt: list[int], sampled: list[int], **more: Any) -> TokenSpan:
    return TokenSpan(call, prompt, sampled, [-0.5] * len(sampled), **more)


def record(*spans: TokenSpan, **more: Any) -> TrialRecord:
    segments = tuple(
        SegmentInfo() if k == 0 else SegmentInfo(SegmentKind.SUBAGENT)
        for k in range(max(one.segment for one in spans) + 1)
    )
    return TrialRecord(**{"episode_id": "e", "spans": spans, "segments": segments, **more})


def two_calls(first: Any, second: Any, **more: Any) -> TrialRecord:
    """A chat of [1, 2 | 10, 11, 3 | 12, 13, 14]; | is where ids were sampled from."""
    return record(
        span(0, [1, 2], [10, 11], versions=first),
        span(1, [1, 2, 10, 11, 3], [12, 13, 14], versions=second),
        **more,
    )


@pytest.mark.parametrize(
    ("first", "second", "row", "runs"),
    [
        (None, None, "a", None),
        ((("a", 0),), (("a", 0),), "a", (("a", 2),)),
        ((("a", 0),), (("b", 0),), None, (("a", 2), ("b", 5))),
        ((("a", 0), ("b", 1)), (("b", 0), ("c", 2)), None, (("a", 2), ("b", 3), ("c", 7))),
        ((("a", 0),), None, "b", (("a", 2), ("b", 5))),
        ((("a", 0),), None, None, None),
    ],
)
def test_runs_of_a_sequence(first: Any, second: Any, row: str | None, runs: Any) -> None:
    made, _ = build_datums([two_calls(first, second, sampled_with=Sampling(policy_version=row))])
    assert [datum.versions for datum in made] == [runs]


@pytest.mark.parametrize(
    ("most", "kept", "dropped"),
    [
        (0, [], {"stale": 2}),
        (1, ["new"], {"stale": 1}),
        (2, ["new", "mixed"], {}),
        (9, ["new", "mixed"], {}),
    ],
)
def test_staleness_counts_from_the_newest_step(most: int, kept: Any, dropped: Any) -> None:
    records = [
        two_calls((("7", 0),), (("8", 0),), episode_id="new"),
        two_calls((("6", 0), ("8", 1)), None, sampled_with=Sampling(policy_version="8"),
                  episode_id="mixed"),
    ]  # fmt: skip
    made, stats = build_datums(records, max_staleness=most)
    assert [datum.episode_id for datum in made] == kept
    assert {reason.value: n for reason, n in stats.dropped_records.items()} == dropped
    assert stats.loss_tokens + sum(stats.dropped_tokens.values()) == 10


def test_an_unknown_step_is_a_reason_of_its_own() -> None:
    records = [
        record(span(0, [1], [2]), sampled_with=Sampling(train_step=4)),
        record(span(0, [1], [2]), sampled_with=Sampling(policy_version="main")),
        record(span(0, [1], [2], sampling='{"train_step":3}')),
    ]
    made, stats = build_datums(records, max_staleness=0)
    assert len(made) == 1
    reasons = {reason.value: n for reason, n in stats.dropped_records.items()}
    assert reasons == {"step_unknown": 1, "stale": 1}


def test_answers_that_were_passed_over_are_never_trained() -> None:
    one = record(span(0, [1], [2]), span(1, [1], [3, 4], segment=1, used=False))
    for subagents in (False, True):
        made, stats = build_datums([one], subagents=subagents)
        assert [datum.token_ids.tolist() for datum in made] == [[1, 2]]
        assert {reason.value: n for reason, n in stats.dropped_tokens.items()} == {"superseded": 2}


def test_what_the_source_does_not_let_be_trained() -> None:
    kinds = (SegmentInfo(trainable=False), SegmentInfo(SegmentKind.SUBAGENT))
    one = record(span(0, [1], [2]), span(0, [5], [6], segment=1), segments=kinds)
    made, stats = build_datums([one], subagents=True)
    assert [datum.segment for datum in made] == [1]
    assert {reason.value: n for reason, n in stats.dropped_tokens.items()} == {"not_trainable": 1}


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A trial whose sink has two calls, sampled by the versions 7 and 8."""
    trial = shutil.copytree(FIXTURE, tmp_path / "j" / "t__late")
    sinks = tmp_path / "sinks"
    sinks.mkdir()
    lines = [
        {"call_index": 0, "prompt_token_ids": [1, 2], "sampled_token_ids": [10, 11],
         "sampled_logprobs": [-0.5, -0.25], "policy_version": 7, "temperature": 0.5},
        {"call_index": 1, "prompt_token_ids": [1, 2, 10, 11, 3], "sampled_token_ids": [12],
         "sampled_logprobs": [-0.125], "policy_version": "8", "temperature": 1.0},
    ]  # fmt: skip
    (sinks / "t__late.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "shards"
    build([trial.parent], out, BuildOptions(sinks=sinks, declare={"logprob_mode": "raw"}))
    return out


def test_a_sink_whose_lines_differ(shards: Path) -> None:
    assert verify(shards) == []
    (found,) = iter_records(shards)
    assert [one.versions for one in found.spans] == [(("7", 0),), (("8", 0),)]
    assert [one.sampling for one in found.spans] == ['{"temperature":0.5}', '{"temperature":1.0}']
    assert found.sampled_with.policy_version is None
    assert found.sampled_with.policy_versions == ("7", "8")
    assert found.issues.count(Issue.SAMPLING_VARIES) == 2
    assert found.completeness is not Completeness.COMPLETE


def test_versions_reach_the_trainers_that_take_them(shards: Path, tmp_path: Path) -> None:
    datums = tmp_path / "datums"
    build_datum_shards(shards, datums, allow_incomplete=True)
    assert verify_datums(datums) == []
    (row,) = iter_datums(datums)
    assert row.datum.versions == (("7", 2), ("8", 5))
    tensors = areal.tensor_row(row, PLACE)["versions"]
    assert tensors.dtype == np.int32
    assert tensors.tolist() == [-1, -1, 7, 7, -1, 8]
    assert slime.sample(row, PLACE)["weight_versions"] == ["7", "8"]
    extra = verl.agent_loop_row(row, PLACE)["extra_fields"]
    assert (extra["min_global_steps"], extra["max_global_steps"]) == (7, 8)


@pytest.mark.parametrize(("most", "datums"), [(0, 0), (1, 1)])
def test_staleness_of_datum_shards(shards: Path, tmp_path: Path, most: int, datums: int) -> None:
    summary = build_datum_shards(shards, tmp_path / "d", allow_incomplete=True, max_staleness=most)
    assert summary.stats.datums == datums
    assert verify_datums(tmp_path / "d") == []


def test_staleness_needs_steps(tmp_path: Path) -> None:
    trial = shutil.copytree(FIXTURE, tmp_path / "j" / "t__late")
    build([trial.parent], tmp_path / "shards")
    with pytest.raises(UsageError, match=r"--max-staleness: expected a train_step"):
        build_datum_shards(tmp_path / "shards", tmp_path / "d", max_staleness=1)


def test_a_recorded_step_wins_over_a_version(tmp_path: Path) -> None:
    """A version that is a date is not the newest step."""
    trial = shutil.copytree(FIXTURE, tmp_path / "j" / "t__late")
    declared = {"logprob_mode": "raw", "train_step": 5, "policy_version": "20261120"}
    build([trial.parent], tmp_path / "shards", BuildOptions(declare=declared))
    kept = build_datum_shards(
        tmp_path / "shards", tmp_path / "d", allow_incomplete=True, max_staleness=0
    )
    assert kept.stats.datums == 1
