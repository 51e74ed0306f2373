"""Each invariant of a row: kept by sound rows, and reported where it is broken."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wmo_distill.arrays import as_ids
from wmo_distill.issues import Issue
from wmo_distill.records import GradedTests, Sampling, SegmentInfo, SegmentKind, TrialRecord
from wmo_distill.segment import Coded, Segment
from wmo_distill.shards.verify import verify
from wmo_distill.tokens import TokenSpan, chats_of, spans_of

from .damaged import PART, change_span, edit_table, forged, reported, rewritten, set_column
from .generated import lawful, long_chat, write_dataset

MAIN = (SegmentInfo(),)
SUBAGENT = SegmentInfo(SegmentKind.SUBAGENT)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_dataset(tmp_path, [[lawful("a"), lawful("b", spans=())], [lawful("c")]])
    return tmp_path


def test_a_lawful_dataset_has_no_faults(tmp_path: Path) -> None:
    odd = TokenSpan(4, [1, 2], [3, 4], [float("nan"), -1.0])
    tests = GradedTests(passed=1, resolved=2, unresolved=0)
    rows = [
        lawful("plain"),
        lawful("spanless", spans=()),
        lawful("failed", reward=0.0, passed=False, tests=tests),
        lawful("ungraded", reward=None, passed=None, rewards={}, infra_failed=True),
        lawful("cell", attempt=3, reward=0.5, passed=True, infra_failed=True),
        lawful("edited", spans=(TokenSpan(0, [1, 2, 3], [4]), odd, TokenSpan(9, [1, 2], None))),
        lawful(
            "helpers",
            spans=(TokenSpan(0, [7], [8], segment=1), TokenSpan(0, [7, 8], [9], segment=2)),
            segments=(*MAIN, SegmentInfo(SegmentKind.SUMMARIZER), SUBAGENT),
        ),
        lawful(
            "versions",
            sampled_with=Sampling(policy_versions=("v1", "v2")),
            spans=(
                TokenSpan(0, [1], [2, 3, 4], versions=(("v1", 0), ("v2", 2)), used=False),
                TokenSpan(1, [1], [2], versions=(("v2", 0),), sampling="{}", used=True),
            ),
        ),
        lawful("step", episode_id="step/s", step_name="s", step_index=0),
        lawful("x", trial_id=None, episode_id="path:job/x"),
        lawful("issues", issues=(Issue.CALL_UNPLACED, Issue.CALL_UNPLACED, Issue.LISTS_MISALIGNED)),
    ]  # fmt: skip
    rows.sort(key=lambda row: row.artifact_dir)
    options = {"cells": {"job/cell": "its digest"}}
    write_dataset(tmp_path, [rows, [], [lawful("last")]], options)
    assert verify(tmp_path) == []


def spans(*listed: TokenSpan) -> dict[str, Any]:
    return {"spans": listed}


FIRST = TokenSpan(0, [1, 2], [3])
FORGED = (0, [1, 2], [3])


ROWS: list[tuple[dict[str, Any], str]] = [
    # An attempt that the format records is no cell's: the grade is the built-in one.
    ({"attempt": 3, "reward": 0.5, "passed": True}, "passed False for reward 0.5"),
    ({"attempt": 3, "infra_failed": True}, "no rewards where infra_failed"),
    ({"stop_reason": "gave_up"}, "found 'gave_up'"),
    ({"issues": (Issue.TURNS_MISSING, Issue.DETAILS_NULL)}, "issues sorted"),
    ({"issues": ("no_such_issue",)}, "found 'no_such_issue'"),
    ({"completion": "half"}, "found 'half'"),
    ({"segments": ()}, "one of the segments, found 0 segments"),
    ({"segments": (SUBAGENT,)}, "segments main, then summarizer or subagent"),
    ({"segments": MAIN * 2}, "segments main, then summarizer or subagent"),
    ({"sampled_with": Sampling(policy_versions=("a", "a"))}, "each of policy_versions once"),
    ({"span_source": "none"}, "no spans with span_source none"),
    ({"episode_id": "z"}, "episode_id a"),
    ({"step_name": "s"}, "episode_id a…/s"),
    ({"trial_id": None}, "episode_id path:"),
    ({"artifact_dir": "/abs/a"}, "artifact_dir relative"),
    ({"group_id": ""}, "group_id of 16 hex digits"),
    ({"group_id": "0123456789ABCDEF"}, "group_id of 16 hex digits"),
    ({"artifact_dir": "../a"}, "artifact_dir relative"),
    ({"reward": float("nan")}, "reward finite"),
    ({"reward": 2.0, "passed": False}, "reward in [0.0, 1.0]"),
    ({"passed": False}, "passed True for reward 1.0"),
    ({"passed": None}, "passed True for reward 1.0"),
    ({"reward": 0.5}, "passed False for reward 0.5"),
    ({"reward": None}, "passed None for reward None"),
    ({"infra_failed": True}, "no rewards where infra_failed"),
    ({"tests": GradedTests(passed=3, resolved=2, unresolved=0)}, "at most as many tests passed"),
    ({"compactions": (4, 2)}, "compactions ascending"),
    (spans(FIRST, TokenSpan(0, [1, 2, 3], [4])), "a call_index above 0"),
    (spans(TokenSpan(-1, [1], [4])), "a call_index above -1"),
    ({"spans": forged((1, [1], [2]))}, "a prefix_len in [0, 0]"),
    ({"spans": forged(FORGED, (4, [1], []))}, "a prefix_len in [0, 3]"),
    ({"spans": forged(FORGED, (-1, [1], []))}, "a prefix_len in [0, 3]"),
    ({"spans": forged(FORGED, (1, [2, 3], []))}, "longest common prefix"),
    ({"spans": forged(FORGED, (2, [3], []))}, "longest common prefix"),
    (spans(TokenSpan(0, [], [4])), "a prompt, found no ids"),
    (spans(TokenSpan(0, [1], [2], segment=1)), "one of the segments, found 1 segments"),
    (spans(TokenSpan(0, [1], [2], versions=(("a", 1),))), "below 1, found 1"),
    (spans(TokenSpan(0, [1], [2, 3], versions=(("a", 0), ("b", 0)))), "below 2, found 0, 0"),
    (spans(TokenSpan(0, [1], [2], versions=(("a", 0), ("b", 1)))), "below 1, found 0, 1"),
    (spans(TokenSpan(0, [1], [], versions=(("a", 0),))), "below 0, found 0"),
    (spans(TokenSpan(0, [1], None, versions=(("a", 0),))), "below 0, found 0"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), ROWS)
def test_each_invariant_of_a_row(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """One unlawful row between two lawful ones: the file and the row are named."""
    row = lawful("a", **changes)
    file = tmp_path / PART
    rewritten(tmp_path, [lawful("0"), row, lawful("z0")])
    faults = [fault for fault in verify(tmp_path) if fault.row is not None]
    assert faults, file
    assert {(fault.file, fault.row) for fault in faults} == {(PART, 1)}
    assert any(message in str(fault) for fault in faults), faults


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_calls", 4), ("fragments", 2), ("input_tokens", 11), ("output_tokens", 11),
        ("total_tokens", 25), ("prompt_tokens", 37), ("subagent_tokens", 1), ("expansion", 1.5),
        ("expansion", None),
    ],
)  # fmt: skip
def test_counts_follow_from_the_spans(out: Path, name: str, value: Any) -> None:
    with pq.ParquetFile(out / PART) as file:
        old = file.read()[name].to_pylist()
    edit_table(out, set_column(name, [value, old[1]]))
    faults = [f for f in verify(out) if f.row is not None]
    assert [(f.row, f.found) for f in faults] == [(0, str(value))]
    assert faults[0].expected.startswith(f"{name} {old[0]}")


def test_rows_are_in_order_of_path_and_step(tmp_path: Path) -> None:
    """As UTF-8 bytes; where cells decide the order, and from part to part, there is none."""
    steps = [lawful("b", episode_id=f"b/s{i}", step_name=f"s{i}", step_index=i) for i in (0, 1, 2)]
    after_b = [lawful("é"), lawful("\ue000"), lawful("\U00010000")]
    cells = [lawful("d", attempt=1), lawful("c", attempt=0)]
    paths = {"cells": {"job/c": "", "job/d": ""}}
    write_dataset(tmp_path, [[*steps, *after_b], [lawful("a"), *cells]], paths)
    assert verify(tmp_path) == []
    write_dataset(tmp_path, [[steps[1], steps[0]], [lawful("d"), lawful("c")]])
    assert [(f.file, f.row, f.expected) for f in verify(tmp_path)] == [
        (PART, 1, "a row after step 1 of job/b"),
        ("parts/part-00001.parquet", 1, "a row after step -1 of job/d"),
    ]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("prompt_suffix", [1, -5], "ids in [0, 2^31), found -5"),
        ("sampled_token_ids", [-1, 2, 3, 4], "ids in [0, 2^31), found -1"),
        ("sampled_token_ids", [1, 2], "2 log-probabilities, found 4"),
        ("sampled_token_ids", None, "0 log-probabilities, found 4"),
        ("sampled_logprobs", [-1.0] * 5, "4 log-probabilities, found 5"),
        ("sampled_logprobs", [-1.0, float("nan"), None, -1.0], "finite log-probabilities or null"),
        ("sampled_logprobs", [-1.0, float("-inf"), -1.0, -1.0], "finite log-probabilities"),
        ("segment", -1, "one of the segments"),
        ("versions", [], "versions from 0"),
        ("prefix_len", 2**31 - 1, "a prefix_len in [0, 8]"),
    ],
)
def test_lists_on_disk(out: Path, field: str, value: Any, message: str) -> None:
    """Faults that no record in memory can have."""
    edit_table(out, change_span(field, value))
    assert message in reported(out)
    assert f"{PART}, row 0: " in reported(out)


@pytest.mark.parametrize("passed", [None, -1])
def test_half_a_report_of_tests(out: Path, passed: int | None) -> None:
    report = {"passed": passed, "resolved": 1, "unresolved": 0}
    edit_table(out, set_column("tests", [report, None]))
    assert f"{PART}, row 0: expected tests null or three counts" in reported(out)


def test_policy_versions_hold_the_policy_version(out: Path) -> None:
    edit_table(out, set_column("policy_version", ["a", None]))
    assert f"{PART}, row 0: expected policy_versions a, the policy_version, found" in reported(out)


@pytest.mark.parametrize("moment", [-(2**63), 2**63 - 1])
def test_a_time_beyond_the_calendar(out: Path, moment: int) -> None:
    edit_table(out, set_column("started_at", [moment, None]))
    assert f"{PART}, row 0: expected started_at in the years 1 to 9999" in reported(out)


@pytest.mark.parametrize(
    ("row", "options"),
    [
        (lawful("a", reward=1.5), {"pass_at": 1.2, "reward_range": [0.0, 2.0]}),
        (lawful("a", infra_failed=True), {"reward_files": True}),
        (lawful("a", spans=(TokenSpan(0, [], [1]),)), {"salvage": False}),
    ],
)
def test_the_options_decide_what_is_lawful(
    tmp_path: Path, row: TrialRecord, options: dict[str, Any]
) -> None:
    write_dataset(tmp_path, [[row]])
    assert len(verify(tmp_path)) > 0
    write_dataset(tmp_path, [[row]], options)
    assert verify(tmp_path) == []


def test_a_long_chat_is_checked_whole(tmp_path: Path) -> None:
    chat = list(long_chat(30, 20))
    write_dataset(tmp_path, [[lawful("a", spans=tuple(chat))]])
    assert verify(tmp_path) == []
    whole = chats_of(chat)[0]
    last = chat[-1]
    prompt = last.prompt_token_ids[-21:]
    *calls, _ = (Coded(*values) for values in zip(*whole.columns, strict=True))
    calls.append(Coded(last.call_index, last.prompt_len - 21, prompt, as_ids([1])))
    chat = spans_of(Segment.of(0, calls))
    rewritten(tmp_path, [replace(lawful("a"), spans=tuple(chat))])
    assert "span 29 (segment 0, call 29): the longest common prefix" in reported(tmp_path)
