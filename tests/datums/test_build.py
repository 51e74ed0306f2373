"""Datums: agreement with the reference's builder, and the invariants of ours."""

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.datums.build import build_datums
from wmo_distill.datums.datum import BreakCause, DatumStats, TrainDatum
from wmo_distill.records import ScoreCell, TrialRecord
from wmo_distill.reference import entry_points as reference
from wmo_distill.tokens import TokenSpan

CASES = Path(__file__).parents[2] / "fixtures/cases"


DIFFERENT = {
    "ids_over_int32": "ids that a TokenSpan cannot hold",
    "ids_over_int64": "ids that a TokenSpan cannot hold",
    "sink_lax_ids": "a sink's ids obey the rule of every source",
    "sink_line_separator": "lines end at \\n alone",
    "sink_next_line_char": "lines end at \\n alone",
    "logprobs_int_overflow": "reads as infinite",
    "sink_stop_latin1": "content never raises",
}


def modes() -> Iterator[Any]:
    for case in sorted(CASES.iterdir()):
        told = json.loads((case / "reference.json").read_text())
        for mode in ("with_cells", "derived", "sink"):
            if mode in told and case.name not in DIFFERENT:
                yield pytest.param(case, mode, told, id=f"{case.name}-{mode}")


def assembled(case: Path, mode: str, told: dict[str, Any]) -> list[TrialRecord]:
    """The records that the reference has built datums from."""
    events = told[mode]
    kept = [event for event in events if event["kind"] == "record"]
    records: list[TrialRecord] = []
    for event in kept:
        cell = ScoreCell(
            task_id=event["task_id"],
            attempt=event["attempt"],
            reward=event["reward"],
            passed=event["passed"],
            artifact_dir=str(case / "trials" / event["trial_name"]),
        )
        if mode == "sink":
            records += reference.assemble_trial_records([cell], case / "sink")
        else:
            turns = told["args"]["max_turns"]
            records += reference.assemble_harbor_trial_records([cell], max_turns=turns)
    return records


@pytest.mark.parametrize(("case", "mode", "told"), list(modes()))
def test_reference_rules(case: Path, mode: str, told: dict[str, Any]) -> None:
    args = told["args"]
    datums, stats = build_datums(
        assembled(case, mode, told),
        context_budget=args["context_budget"],
        max_datum_tokens=args["max_datum_tokens"],
        rules="reference",
    )
    wanted = [event for event in told[mode] if event["kind"] == "datum"]
    assert len(datums) == len(wanted)
    for datum, event in zip(datums, wanted, strict=True):
        assert datum.trial_name == event["trial_name"]
        assert datum.fragment_index == event["fragment_index"]
        assert datum.token_ids.tolist() == event["model_input_tokens"]
        assert datum.loss_mask.astype(float).tolist() == event["loss_mask"]
        logprobs = [float(x) for x in event["sampled_logprobs"]]
        assert list(map(repr, datum.sampled_logprobs.tolist())) == list(map(repr, logprobs))
        assert datum.loss_tokens == event["loss_token_count"]
    (numbers,) = [event for event in told[mode] if event["kind"] == "datum_stats"]
    assert {name: getattr(stats, name) for name in numbers if name != "kind"} == {
        name: value for name, value in numbers.items() if name != "kind"
    }


@st.composite
def records(draw: st.DrawFn) -> TrialRecord:
    """A chat with breaks, rollbacks, empty turns and lost log-probabilities; ids never repeat."""
    fresh = count(1)

    def ids(least: int = 1) -> list[int]:
        return list(islice(fresh, draw(st.integers(least, 3))))

    spans: list[TokenSpan] = []
    history = ids()
    for index in range(draw(st.integers(0, 6))):
        sampled = ids(0)
        kind = draw(st.sampled_from(["all", "all", "none", "hole", "lost"]))
        logprobs: Any = [-1.0 - x for x in range(len(sampled))]
        if kind == "none":
            logprobs = None
        elif kind == "hole" and sampled:
            logprobs[0] = None
        spans.append(
            TokenSpan(
                index,
                history,
                None if kind == "lost" else sampled,
                None if kind == "lost" else logprobs,
            )
        )
        edit = draw(st.sampled_from(["extend", "extend", "extend", "drop", "new", "same", "back"]))
        if edit == "extend":
            history = history + ([] if kind == "lost" else sampled) + ids(0)
        elif edit == "drop":
            history = history + ids()
        elif edit == "new":
            history = ids()
        elif edit == "back":
            history = history[: draw(st.integers(0, len(history)))] or ids()
    return TrialRecord(episode_id="e", trial_name="t", spans=tuple(spans))


def check(record: TrialRecord, datums: list[TrainDatum], stats: DatumStats) -> None:
    """What holds of every build."""
    assert stats.records == 1
    assert bool(datums) + sum(stats.dropped_records.values()) == 1
    assert stats.datums == len(datums)
    trained = sum(datum.loss_tokens for datum in datums)
    assert stats.loss_tokens == trained
    sampled = sum(span.sampled.size for span in record.spans)
    assert trained + sum(stats.dropped_tokens.values()) == sampled
    for datum in datums:
        n = datum.token_ids.size
        assert datum.loss_mask.size == datum.sampled_logprobs.size == n
        assert not datum.sampled_logprobs[~datum.loss_mask].any()
        for start, length in zip(datum.call_starts, datum.call_lengths, strict=True):
            assert 0 <= start < start + length <= n
    assert [datum.fragment_index for datum in datums] == list(range(len(datums)))


@given(records(), st.booleans())
def test_invariants(record: TrialRecord, reopen: bool) -> None:
    datums, stats = build_datums([record], reopen=reopen)
    check(record, datums, stats)
    for datum in datums:
        assert np.isfinite(datum.sampled_logprobs).all()
    trained = np.concatenate([d.token_ids[d.loss_mask] for d in datums] or [np.zeros(0)])
    assert np.unique(trained).size == trained.size  # the ids of a record never repeat
    supervised, told = build_datums([record], purpose="sft", reopen=reopen)
    check(record, supervised, told)
    assert sum(told.dropped_tokens.values()) == 0
    if not reopen:
        ids = [x for d in supervised for x in d.token_ids[d.loss_mask].tolist()]
        assert ids == [x for span in record.spans for x in span.sampled.tolist()]


@given(records(), st.integers(1, 12), st.integers(2, 12), st.sampled_from(["fragment", "record"]))
def test_limits(record: TrialRecord, budget: int, longest: int, drop: Any) -> None:
    datums, stats = build_datums(
        [record], context_budget=budget, max_datum_tokens=longest, drop=drop
    )
    check(record, datums, stats)
    assert all(datum.token_ids.size <= longest for datum in datums)
    whole, _ = build_datums([record])
    kept = {datum.token_ids.tobytes() for datum in datums}
    assert kept <= {datum.token_ids.tobytes() for datum in whole}
    if drop == "record" and datums:
        assert len(datums) == len(whole)


def test_a_clean_chat_is_one_datum() -> None:
    spans = (
        TokenSpan(0, [1, 2], [3], [-0.5]),
        TokenSpan(1, [1, 2, 3, 4], [5, 6], [-0.1, -0.2]),
        TokenSpan(2, [1, 2, 3, 4, 5, 6, 7], [8], [-0.3]),
    )
    (datum,), stats = build_datums([TrialRecord(spans=spans)])
    assert datum.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert datum.loss_mask.astype(int).tolist() == [0, 0, 1, 0, 1, 1, 0, 1]
    assert datum.sampled_logprobs.tolist() == [0, 0, -0.5, 0, -0.1, -0.2, 0, -0.3]
    assert (datum.call_starts, datum.call_lengths) == ((2, 4, 7), (1, 2, 1))
    assert (stats.fragmentation_rate, stats.breaks) == (0.0, {})


def test_a_rollback_extends_the_state_that_it_goes_back_to() -> None:
    spans = (
        TokenSpan(0, [1], [2], [-1.0]),
        TokenSpan(1, [9], [8], [-1.0]),
        TokenSpan(2, [1, 2, 3], [4], [-1.0]),
    )
    record = TrialRecord(spans=spans)
    assert [d.token_ids.tolist() for d in build_datums([record])[0]] == [
        [1, 2],
        [9, 8],
        [1, 2, 3, 4],
    ]
    datums, _ = build_datums([record], reopen=True)
    assert [d.token_ids.tolist() for d in datums] == [[1, 2, 3, 4], [9, 8]]


def test_subagents_only_on_request() -> None:
    spans = (
        TokenSpan(0, [1], [2], [-1.0]),
        TokenSpan(0, [1, 2], [3], [-1.0], segment=1),
    )
    record = TrialRecord(spans=spans)
    assert [d.segment for d in build_datums([record])[0]] == [0]
    datums, _ = build_datums([record], subagents=True)
    assert [(d.segment, d.fragment_index) for d in datums] == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("before", "after", "more", "cause", "position"),
    [
        ([1, 2, 3], [1, 9, 3], {}, BreakCause.REWRITTEN_HISTORY, 1),
        ([1, 2, 3], [1, 2], {}, BreakCause.REWRITTEN_HISTORY, 2),
        ([1, 2, 3], [1, 2, 3, 7], {}, BreakCause.DROPPED_COMPLETION, 3),
        # thinking gone: the end of the completion follows at once
        ([1], [1, 12, 13, 14, 15, 16, 17, 18, 19, 50], {}, BreakCause.DROPPED_COMPLETION, 1),
        # the first ids are kept, then the prompt goes its own way
        ([1], [1, 10, 11, 12, 77], {}, BreakCause.PAST_STOP, 4),
        # two ids instead of one, then the same again
        ([1], [1, 10, 30, 31, 12, 13, 14, 15, 16, 17, 18, 19], {}, BreakCause.RETOKENIZED, 2),
        ([1, 2, 3], [1, 2, 3, 7], {"compactions": (1,)}, BreakCause.SUMMARIZED, 3),
        ([1, 2, 3], [1, 2, 3, 7], {"finish_reason": "length"}, BreakCause.TRUNCATED_TURN, 3),
    ],
)
def test_why_it_broke(
    before: list[int], after: list[int], more: dict[str, Any], cause: BreakCause, position: int
) -> None:
    sampled = list(range(10, 20))
    first = TokenSpan(0, before, sampled, [-1.0] * 10, finish_reason=more.get("finish_reason"))
    record = TrialRecord(
        spans=(first, TokenSpan(1, after, [5], [-1.0])), compactions=more.get("compactions", ())
    )
    datums, stats = build_datums([record])
    assert [datum.break_cause for datum in datums] == [None, cause]
    assert datums[1].break_position == position
    assert stats.breaks == {cause: 1}


def test_the_same_text_in_other_ids_is_recognised_by_its_text() -> None:
    texts = {10: "ab", 11: "c", 20: "a", 21: "bc", 1: "", 5: "x", 6: "!"}
    record = TrialRecord(
        spans=(
            TokenSpan(0, [1], [10, 11], [-1.0, -1.0]),
            TokenSpan(1, [1, 20, 21, 6], [5], [-1.0]),
        )
    )
    datums, _ = build_datums([record], decode=lambda ids: "".join(texts[x] for x in ids))
    assert datums[1].break_cause is BreakCause.RETOKENIZED


def test_two_fragments_that_a_prompt_extends_alike_are_a_tie() -> None:
    spans = (
        TokenSpan(0, [1], [2], [-1.0]),
        TokenSpan(1, [1], [2], [-1.0]),
        TokenSpan(2, [9], [8], [-1.0]),
        TokenSpan(3, [1, 2, 3], [4], [-1.0]),
    )
    datums, stats = build_datums([TrialRecord(spans=spans)], reopen=True)
    assert stats.ties == 1
    assert [d.token_ids.tolist() for d in datums] == [[1, 2], [1, 2, 3, 4], [9, 8]]
    assert build_datums([TrialRecord(spans=spans)])[1].ties == 0
