"""Every fault of a dataset is found, and a dataset without faults has none."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wmo_distill.errors import UsageError
from wmo_distill.issues import Issue
from wmo_distill.records import GradedTests, SegmentKind, TrialRecord
from wmo_distill.shards import verify as verify_module
from wmo_distill.shards.faults import Fault
from wmo_distill.shards.schema import LEDGER_SCHEMA, SCHEMA
from wmo_distill.shards.verify import verify
from wmo_distill.shards.writer import parquet_writer
from wmo_distill.tokens import TokenSpan, as_ids

from .generated import lawful, long_chat, write_dataset

PART = "parts/part-00000.parquet"
MAIN = (SegmentKind.MAIN,)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_dataset(tmp_path, [[lawful("a"), lawful("b", spans=())], [lawful("c")]])
    return tmp_path


def told(out: Path) -> str:
    return "\n".join(map(str, verify(out)))


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
            segment_kinds=(SegmentKind.MAIN, SegmentKind.SUBAGENT, SegmentKind.SUBAGENT),
        ),
        lawful("step", episode_id="step/s", step_name="s", step_index=0),
        lawful("x", trial_id=None, episode_id="path:job/x"),
        lawful("issues", issues=(Issue.CALL_UNPLACED, Issue.CALL_UNPLACED, Issue.LISTS_MISALIGNED)),
    ]  # fmt: skip
    write_dataset(tmp_path, [rows, [], [lawful("last")]])
    assert verify(tmp_path) == []


def test_an_empty_dataset_has_no_faults(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[]])
    assert verify(tmp_path) == []


def spans(*listed: TokenSpan) -> dict[str, Any]:
    return {"spans": listed}


def after(
    before: TokenSpan | None, call: int, prefix_len: int, suffix: list[int], *sampled: list[int]
) -> TokenSpan:
    return TokenSpan.after(before, call, prefix_len, as_ids(suffix), *map(as_ids, sampled))


FIRST = TokenSpan(0, [1, 2], [3])
ROWS: list[tuple[dict[str, Any], str]] = [
    ({"stop_reason": "gave_up"}, "found 'gave_up'"),
    ({"issues": (Issue.TURNS_MISSING, Issue.DETAILS_NULL)}, "issues sorted"),
    ({"issues": ("no_such_issue",)}, "found 'no_such_issue'"),
    ({"completion": "half"}, "found 'half'"),
    ({"segment_kinds": ()}, "a segment of segment_kinds"),
    ({"segment_kinds": (SegmentKind.SUBAGENT,)}, "segment_kinds main, then subagent"),
    ({"segment_kinds": MAIN * 2}, "segment_kinds main, then subagent"),
    ({"span_source": "none"}, "no spans with span_source none"),
    ({"episode_id": "z"}, "episode_id a"),
    ({"step_name": "s"}, "episode_id a…/s"),
    ({"trial_id": None}, "episode_id path:"),
    ({"artifact_dir": "/root/a"}, "artifact_dir relative"),
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
    (spans(after(None, 0, 1, [1], [2])), "a prefix_len in [0, 0]"),
    (spans(FIRST, after(FIRST, 1, 4, [1])), "a prefix_len in [0, 3]"),
    (spans(FIRST, after(FIRST, 1, -1, [1])), "a prefix_len in [0, 3]"),
    (spans(FIRST, after(FIRST, 1, 1, [2, 3])), "longest common prefix"),
    (spans(FIRST, after(FIRST, 1, 2, [3])), "longest common prefix"),
    (spans(TokenSpan(0, [], [4])), "a prompt, found no ids"),
    (spans(TokenSpan(0, [1], [2], segment=1)), "a segment of segment_kinds"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), ROWS)
def test_each_law_of_a_row(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """One unlawful row between two lawful ones: the file and the row are named."""
    row = lawful("a", **changes)
    file = tmp_path / PART
    rewritten(tmp_path, [lawful("0"), row, lawful("z0")])
    faults = [fault for fault in verify(tmp_path) if fault.row is not None]
    assert faults, file
    assert {(fault.file, fault.row) for fault in faults} == {(PART, 1)}
    assert any(message in str(fault) for fault in faults), faults


def rewritten(out: Path, rows: list[TrialRecord]) -> None:
    """Write rows that break laws: totals are taken only of rows that let themselves be counted."""
    from wmo_distill.shards.encode import encode

    write_dataset(out, [[lawful("0")]])
    with parquet_writer(out / PART) as writer:
        writer.write_table(encode(rows))


def edit_table(out: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    with pq.ParquetFile(out / PART) as file:
        table = file.read()
    with parquet_writer(out / PART) as writer:
        writer.write_table(change(table))


def set_column(name: str, values: list[Any]) -> Callable[[pa.Table], pa.Table]:
    i = SCHEMA.get_field_index(name)
    return lambda table: table.set_column(
        i, SCHEMA.field(i), pa.array(values, SCHEMA.field(i).type)
    )


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


def change_span(field: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """The table with a field of the first row's second span changed."""

    def change(table: pa.Table) -> pa.Table:
        rows = table["spans"].to_pylist()
        rows[0][1][field] = value
        return set_column("spans", rows)(table)

    return change


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
        ("segment", -1, "a segment of segment_kinds"),
        ("prefix_len", 2**31 - 1, "a prefix_len in [0, 8]"),
    ],
)
def test_lists_on_disk(out: Path, field: str, value: Any, message: str) -> None:
    """Faults that no record in memory can have."""
    edit_table(out, change_span(field, value))
    assert message in told(out)
    assert f"{PART}, row 0: " in told(out)


def test_a_flipped_byte(out: Path) -> None:
    data = bytearray((out / PART).read_bytes())
    data[len(data) // 2] ^= 1
    (out / PART).write_bytes(data)
    assert f"{PART}: expected SHA-256 " in told(out)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all"], ids=["none", "cut", "text"])
def test_a_part_that_is_no_part(out: Path, data: bytes) -> None:
    (out / PART).write_bytes(data)
    faults = verify(out)
    assert any(f.file == PART and f.expected == "a readable Parquet file" for f in faults)


def test_a_part_that_is_gone(out: Path) -> None:
    (out / PART).unlink()
    assert f"{PART}: expected a readable Parquet file" in told(out)
    assert "ledger.parquet, row 0: expected 1 rows of job/a" in told(out)


@pytest.mark.parametrize("passed", [None, -1])
def test_half_a_report_of_tests(out: Path, passed: int | None) -> None:
    report = {"passed": passed, "resolved": 1, "unresolved": 0}
    edit_table(out, set_column("tests", [report, None]))
    assert f"{PART}, row 0: expected tests null or three counts" in told(out)


@pytest.mark.parametrize("moment", [-(2**63), 2**63 - 1])
def test_a_time_beyond_the_calendar(out: Path, moment: int) -> None:
    edit_table(out, set_column("started_at", [moment, None]))
    assert f"{PART}, row 0: expected started_at in the years 1 to 9999" in told(out)


def test_a_part_with_bytes_flipped_anywhere(out: Path) -> None:
    """However a part is damaged, verify tells it and does not raise."""
    data = (out / PART).read_bytes()
    for at in range(7, len(data), 997):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        (out / PART).write_bytes(damaged)
        assert f"{PART}: expected SHA-256 " in told(out)


def test_every_row_twice(out: Path) -> None:
    edit_table(out, lambda table: pa.concat_tables([table, table]))
    text = told(out)
    assert f"{PART}, row 2: expected each episode_id once, found a" in text
    assert f"{PART}: expected rows as in the manifest, 2, found 4" in text
    assert "manifest.json: expected dataset_hash" in text


def test_a_row_changed_within_the_law(out: Path) -> None:
    """No law of rows is broken, yet the part is not the one that was written."""
    edit_table(out, set_column("note", ["changed", ""]))
    files = {fault.file for fault in verify(out)}
    assert files == {PART, "manifest.json"}
    assert f"{PART}: expected row_sum as in the manifest" in told(out)


def test_another_schema(out: Path) -> None:
    with pq.ParquetFile(out / PART) as file:
        table = file.read()
    pq.write_table(table.drop_columns(["note"]), out / PART)
    assert "expected the columns of schema version 1, found no column note" in told(out)
    pq.write_table(table.replace_schema_metadata(None), out / PART)
    assert "another schema version in its metadata" in told(out)


def test_a_row_group_without_rows(out: Path) -> None:
    with pq.ParquetFile(out / PART) as file:
        table = file.read()
    with parquet_writer(out / PART) as writer:
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
    assert "no row group without rows" in told(out)


def test_a_file_that_no_manifest_names(out: Path) -> None:
    (out / "parts/part-00009.parquet").write_bytes((out / PART).read_bytes())
    assert "parts/part-00009.parquet: expected only parts that the manifest names" in told(out)


def edit_ledger(out: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    rows = pq.read_table(out / "ledger.parquet").to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), out / "ledger.parquet")


SKIPPED = {"outcome": "skipped", "records": 0, "part": None, "reasons": ["no_cell"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(), "a row for job/c, which has records"),
        (lambda rows: rows[0].update(records=2), "row 0: expected 2 rows of job/a"),
        (lambda rows: rows[0].update(part="parts/part-00001.parquet"), "row 0: expected 1 rows"),
        (lambda rows: rows[0].update(part=None), "row 0: expected 1 rows of job/a in None"),
        (lambda rows: rows[0].update(SKIPPED), "no rows of job/a, which was skipped"),
        (lambda rows: rows[0].update(outcome="lost"), "outcome written or skipped, found 'lost'"),
        (lambda rows: rows.append(rows[0] | SKIPPED), "each path once, found job/a"),
        (lambda rows: rows.append(rows[0] | SKIPPED | {"path": "d"}), "found, from the ledger, 4"),
        (
            lambda rows: rows.append(rows[0] | SKIPPED | {"path": "d", "reasons": []}),
            "a reason for a skipped trial",
        ),
    ],
)
def test_the_ledger_accounts_for_every_row(out: Path, change: Any, message: str) -> None:
    edit_ledger(out, change)
    assert message in told(out)


def test_a_ledger_that_is_none(out: Path) -> None:
    (out / "ledger.parquet").write_bytes(b"x")
    assert "ledger.parquet: expected a readable Parquet file" in told(out)
    pq.write_table(pa.table({"path": ["a"]}), out / "ledger.parquet")
    assert "the ledger's columns of schema version 1" in told(out)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("found", 9), ("written", 2), ("records", 4), ("calls", 1), ("calls_found", 7),
        ("skipped", {"no_cell": 1}), ("issues", {"details_null": 1}), ("stop_reasons", {}),
        ("tokens", {"input": 1}), ("calls_dropped", {"prompt_empty": 1}),
    ],
)  # fmt: skip
def test_the_manifests_totals_add_up(out: Path, key: str, value: Any) -> None:
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["totals"][key] = value
    (out / "manifest.json").write_text(json.dumps(manifest))
    faults = verify(out)
    assert {fault.file for fault in faults} == {"manifest.json"}
    assert any(fault.expected.startswith(key) for fault in faults)


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
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["options"] = options
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert verify(tmp_path) == []


def test_options_that_are_none(out: Path) -> None:
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["options"] = {"reward_range": [0]}
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=r"manifest\.json: options\.reward_range: "):
        verify(out)


def test_a_file_that_is_wrong_throughout_is_told_in_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "FAULTS_A_FILE", 3)
    rewritten(tmp_path, [lawful(f"a{i}", passed=False) for i in range(50)])
    faults = [fault for fault in verify(tmp_path) if fault.file == PART]
    assert len(faults) == 4
    assert faults[-1].found.endswith(" more")


def test_a_fault_says_where_expected_found() -> None:
    assert str(Fault("parts/p", 3, "a", "b")) == "parts/p, row 3: expected a, found b"
    assert str(Fault("parts/p", None, "a", "b")) == "parts/p: expected a, found b"


def test_no_dataset_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected the manifest of a dataset"):
        verify(tmp_path)


def test_a_long_chat_is_checked_whole(tmp_path: Path) -> None:
    chat = list(long_chat(30, 20))
    write_dataset(tmp_path, [[lawful("a", spans=tuple(chat))]])
    assert verify(tmp_path) == []
    last = chat[-1]
    chat[-1] = TokenSpan.after(
        chat[-2], last.call_index, last.prompt_len - 21, last.prompt_token_ids[-21:], as_ids([1])
    )
    rewritten(tmp_path, [replace(lawful("a"), spans=tuple(chat))])
    assert "span 29 (segment 0, call 29): the longest common prefix" in told(tmp_path)
