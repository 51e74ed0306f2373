"""The reference's entry points give its answers, save where the contract names a difference."""

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from wmo_distill.records import ScoreCell, TrialRecord
from wmo_distill.reference import entry_points as reference

CASES = Path(__file__).parents[2] / "fixtures/cases"

NO_SPANS = {"ids_over_int32", "ids_over_int64"}
"""Ids that a TokenSpan cannot hold give no spans."""

NO_RAISE = {
    "logprobs_int_overflow",  # a number beyond a double reads as infinite
    "result_deep_nesting",
    "result_huge_int",
    "result_latin1",
    "sink_line_separator",  # lines end at \n alone
    "sink_next_line_char",
    "sink_stop_latin1",
}
"""Content never raises out of the readers of Harbor's files and of stop reasons."""

RAISES = {"sink_lax_ids"}
"""A sink's ids obey the rule of every source."""


def records() -> Iterator[Any]:
    for case in sorted(CASES.iterdir()):
        told = json.loads((case / "reference.json").read_text())
        for mode in ("with_cells", "derived", "sink"):
            events = told.get(mode, [])
            cells = [e for e in events if e["kind"] == "cell"]
            for number, event in enumerate(events):
                if event["kind"] in ("record", "record_error"):
                    cell = next(
                        c
                        for c in cells
                        if Path(c["artifact_dir"]).name == event["trial_name"]
                        and c["attempt"] == event["attempt"]
                    )
                    args = (case, mode, told["args"]["max_turns"], cell, event)
                    yield pytest.param(*args, id=f"{case.name}-{mode}-{number}")


def assemble(case: Path, mode: str, max_turns: int, cell: dict[str, Any]) -> TrialRecord:
    fields = ("task_id", "attempt", "reward", "passed", "note", "infra_failed", "tests")
    place = cell["artifact_dir"]
    if Path(place).name:
        place = str(case / "trials" / Path(place).name)
    scored = ScoreCell(**{name: cell[name] for name in fields}, artifact_dir=place)
    if mode == "sink":
        return reference.assemble_trial_records([scored], case / "sink")[0]
    return reference.assemble_harbor_trial_records([scored], max_turns=max_turns)[0]


@pytest.mark.parametrize(("case", "mode", "max_turns", "cell", "event"), list(records()))
def test_records(
    case: Path, mode: str, max_turns: int, cell: dict[str, Any], event: dict[str, Any]
) -> None:
    raises = event["kind"] == "record_error" and case.name not in NO_RAISE
    if raises or case.name in RAISES:
        with pytest.raises(ValueError, match=r"artifact_dir|line|call_index"):
            assemble(case, mode, max_turns, cell)
        return
    record = assemble(case, mode, max_turns, cell)
    if event["kind"] == "record_error":
        return
    for name in ("task_id", "attempt", "trial_name", "reward", "passed", "infra_failed"):
        assert getattr(record, name) == event[name]
    assert record.stop_reason == event["stop_reason"]
    tests = None if record.tests is None else record.tests.model_dump()
    wanted = event["tests"]
    assert tests == (wanted and {k: v for k, v in wanted.items() if k != "score"})
    assert record.graded_score == (wanted and wanted["score"])
    if case.name in NO_SPANS:
        assert record.spans == ()
        return
    assert len(record.spans) == event["n_spans"]
    for span, told in zip(record.spans, event["spans"], strict=True):
        assert span.call_index == told["call_index"]
        assert span.prompt_token_ids.tolist() == told["prompt_token_ids"]
        assert span.sampled.tolist() == told["sampled_token_ids"]
        assert span.sampled_logprobs is not None
        logprobs = [float(x) for x in told["sampled_logprobs"]]
        assert list(map(repr, span.sampled_logprobs.tolist())) == list(map(repr, logprobs))


def test_infinity_is_kept_as_the_reference_keeps_it() -> None:
    spans = reference.load_trial_rollout_spans(CASES / "logprobs_1e999/trials/a__t1")
    values = [x for s in spans if s.sampled_logprobs is not None for x in s.sampled_logprobs]
    assert -math.inf in values


def test_a_reward_that_is_no_number_is_no_cell() -> None:
    with pytest.raises(ValidationError):
        ScoreCell(task_id="a", attempt=1, reward=True, passed=True, artifact_dir="a__t1")


@pytest.mark.parametrize("name", ["..", "../a__t1", "x/../../a__t1"])
def test_no_sink_outside_its_directory(name: str) -> None:
    case = CASES / "sink_ok"
    assert reference.load_trial_spans(case / "sink", "a__t1")
    assert reference.load_trial_spans(case / "trials", name) == []


def test_the_callers_own_stop_reason() -> None:
    case = CASES / "sink_ok"
    cell = ScoreCell(
        task_id="a", attempt=1, reward=1.0, passed=True, artifact_dir=str(case / "trials/a__t1")
    )
    (record,) = reference.assemble_trial_records(
        [cell], case / "sink", read_stop_reason=lambda directory: Path(directory).name
    )
    assert record.stop_reason == "a__t1"


def test_a_cell_without_tests_has_none() -> None:
    place = str(CASES / "ctrf_agree/trials/a__t1")
    cell = ScoreCell(task_id="a", attempt=1, reward=1.0, passed=True, artifact_dir=place)
    (record,) = reference.assemble_harbor_trial_records([cell], max_turns=5)
    assert record.tests is None


@pytest.mark.parametrize("name", ["result.json", "agent/trajectory.json"])
def test_a_byte_order_mark_is_unreadable(name: str, tmp_path: Path) -> None:
    root = tmp_path / "a__t1"
    shutil.copytree(CASES / "ok_submitted/trials/a__t1", root)
    (root / "wmo-run.json").write_bytes(b'\xef\xbb\xbf{"stop_reason": "submitted"}')
    (root / name).write_bytes(b"\xef\xbb\xbf" + (root / name).read_bytes())
    of_result = name == "result.json"
    assert bool(reference.load_trial_rollout_spans(root)) is not of_result
    word = reference.read_terminus_stop_reason(root, max_turns=10)
    assert word == (None if of_result else "error")
    assert reference.read_trial_stop_reason(root) is None


@pytest.mark.parametrize(
    ("key", "text"),
    [("call_index", t) for t in ("false", "0.0", '"0"')]
    + [("sampled_logprobs", t) for t in ('["-0.1", true]', '["nan", 1]', '["1e400", -Infinity]')],
)
def test_sink_numbers_are_read_laxly(key: str, text: str, tmp_path: Path) -> None:
    line: dict[str, Any] = {
        "call_index": 0, "prompt_token_ids": [1], "sampled_token_ids": [2, 3],
        "sampled_logprobs": [-0.1, -0.2], "tools": [],
    }  # fmt: skip
    content = json.dumps({**line, key: "@"}).replace('"@"', text)
    (tmp_path / "a.jsonl").write_text(content)
    (span,) = reference.load_trial_spans(tmp_path, "a")
    assert span.call_index == 0
    assert span.extra == '{"tools":[]}'
    if key == "sampled_logprobs":
        wanted = [float(x) for x in json.loads(text)]
        assert span.sampled_logprobs is not None
        assert list(map(repr, span.sampled_logprobs.tolist())) == list(map(repr, wanted))


@pytest.mark.parametrize("text", ["true", "0.5", "null", "[0]", '"x"'])
def test_no_call_index(text: str, tmp_path: Path) -> None:
    lists = '"prompt_token_ids": [1], "sampled_token_ids": [], "sampled_logprobs": []'
    (tmp_path / "a.jsonl").write_text(f'{{"call_index": {text}, {lists}}}')
    with pytest.raises(ValueError, match="call_index"):
        reference.load_trial_spans(tmp_path, "a")
