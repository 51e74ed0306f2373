"""Entries of rollout_details: segments, extras, deltas, and lists that place nothing."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.trials.test_spans import True_, as_lists, chats, entry, read, recorded
from wmo_distill.issues import Issue
from wmo_distill.records import SegmentInfo, SegmentKind
from wmo_distill.sources.recorded import Turn, Witness
from wmo_distill.tokenjson.rows import MISSING_IDS, IdRow, id_row, logprob_row


def test_helpers_are_segments_of_their_own() -> None:
    clean = entry([[1], [1, 2, 3]], [[2], [4]], [[-1.0], [-1.0]])
    helper = entry([[1, 2]], [[9]], [[-1.0]])
    spans = read([clean, helper, entry([[5]], [[6]])])
    assert [(s.segment, s.call_index) for s in spans.spans] == [(0, 0), (0, 1), (1, 0), (2, 0)]
    assert spans.segments == (SegmentInfo(), *[SegmentInfo(SegmentKind.SUMMARIZER)] * 2)
    assert list(spans.issues) == [Issue.LOGPROBS_MISSING]


@pytest.mark.parametrize(("first_step", "moved"), [([7], True), ([5], False), (None, True)])
def test_a_summarizer_in_entry_0_is_moved(first_step: Any, moved: bool) -> None:
    turns = [] if first_step is None else [Turn(id_row(first_step))]
    spans = read([entry([[5]], [[6]], [[-1.0]])], Witness(turns, [id_row([5])]))
    assert [span.segment for span in spans.spans] == [int(moved)]
    assert len(spans.segments) == 1 + moved


def test_extras_follow_their_call() -> None:
    lists = entry([[1], [1, 2, 3]], [[2], [4]], [[-1.0], [-1.0]])
    extra = {"b": [None, {"x": "a b"}], "finish_reason": ["stop", 7]}
    spans = read([{**lists, "extra": extra}])
    assert [span.extra for span in spans.spans] == [
        '{"b":null,"finish_reason":"stop"}',
        '{"b":{"x":"a b"},"finish_reason":7}',
    ]
    assert [span.finish_reason for span in spans.spans] == ["stop", None]
    short = read([{**lists, "extra": {"b": [1]}}])
    assert [span.extra for span in short.spans] == [None, None]
    assert list(short.issues) == [Issue.EXTRA_UNPLACED]
    assert read([{**lists, "extra": {"b": [1]}}], extra=False).issues == ()


def test_no_salvage_takes_all_or_nothing() -> None:
    good = entry([[1], [1, 2, 3]], [[2], [4]], [[-1.0], [-1.0]])
    assert len(read([good], salvage=False).spans) == 2
    for bad in (
        entry([[1], [3]], [[2], [4]], [[-1.0], [-1.0, -2.0]]),
        entry([[1], [3]], [[2], [4]], [[-1.0], [None]]),
        entry([[1], [3]], [[2], [4]]),
        entry([[1], [True]], [[2], [4]], [[-1.0], [-1.0]]),
        entry([[1], [3]], [[2]], [[-1.0]]),
    ):
        spans = read([bad], salvage=False)
        assert not spans.spans
        assert list(spans.issues) == [Issue.CALL_NOT_SALVAGED] * 2


@pytest.mark.parametrize("salvage", [True, False])
def test_an_odd_value_is_said_under_either_rule(salvage: bool) -> None:
    odd = [[-9999.0, math.inf], [0.5, -1.0], [0.0, 0.0], [-1.0, -2.0]]
    details = entry([[1]] * 4, [[2, 3]] * 4, odd)
    spans = read([details], salvage=salvage)
    assert Counter(spans.issues) == {
        Issue.LOGPROB_IMPLAUSIBLE: 1,
        Issue.LOGPROB_NOT_FINITE: 1,
        Issue.LOGPROB_POSITIVE: 1,
        Issue.LOGPROBS_ALL_ZERO: 1,
    }
    kept = [None if s.sampled_logprobs is None else s.sampled_logprobs for s in spans.spans]
    wanted = np.array([[-9999.0, math.nan], *odd[1:]])
    assert np.array_equal(np.array(kept), wanted, equal_nan=True)


def test_an_implausible_value_of_a_trajectory_alone() -> None:
    witness = Witness((Turn(id_row([1]), id_row([2]), logprob_row([-1e16])),))
    spans = read(None, witness)
    assert spans.issues.count(Issue.LOGPROB_IMPLAUSIBLE) == 1
    assert as_lists(spans) == [(0, [1], [2], [-1e16])]


def test_prompts_are_delta_coded_against_prompt_and_sample() -> None:
    details = entry([[1], [1, 2, 3], [1, 2, 4], [9]], [[2], [4], [5], [6]], [[-1.0]] * 4)
    spans = read([details])
    assert [(s.prefix_len, s.prompt_suffix.tolist()) for s in spans.spans] == [
        (0, [1]), (2, [3]), (2, [4]), (0, [9]),
    ]  # fmt: skip
    assert all(isinstance(row, IdRow) for row in [id_row([1])])


@given(chats())
def test_chains_give_whole_prompts_back(calls: list[True_]) -> None:
    lost = [""] * 6
    spans = read([recorded(calls, lost)])
    assert [p for _, p, _, _ in as_lists(spans)] == [call.prompt for call in calls]
    before = None
    for span in spans.spans:
        # prefix_len is the longest prefix that there is
        if before is not None:
            sequence = before.prompt_token_ids.tolist() + before.sampled.tolist()
            prompt = span.prompt_token_ids.tolist()
            shared = 0
            while shared < min(len(sequence), len(prompt)) and sequence[shared] == prompt[shared]:
                shared += 1
            assert span.prefix_len == shared
        before = span


def test_completions_without_a_place_are_evidence() -> None:
    """What is there but cannot be placed is not said to be missing."""
    no_prompts = read([entry(None, [[3, 4], [6]], [[-0.1, -0.2], [-0.3]])])
    assert Counter(no_prompts.issues) == {Issue.LISTS_MISALIGNED: 1, Issue.PROMPT_MISSING: 2}
    unplaced = read([entry([[1], [5, 6], [7, 8]], [[3, 4], [6]], [[-1.0, -2.0], [-3.0]])])
    assert Counter(unplaced.issues) == {Issue.LISTS_MISALIGNED: 1, Issue.CALL_UNPLACED: 3}


@pytest.mark.parametrize(
    ("lost", "kept"), [(("completion", "logprobs"), [0]), (("prompt", "completion"), None)]
)
def test_extras_where_prompts_are_lost(lost: tuple[str, ...], kept: list[int] | None) -> None:
    """The place of a call among all is known only while every prompt is there."""
    prompts, completions = [[1], [1, 2, 3], [1, 2, 3, 4, 5]], [[2], [4], [6]]
    logprobs = [[-1.0], [-1.0], [-1.0]]
    for name, rows in (("prompt", prompts), ("completion", completions), ("logprobs", logprobs)):
        if name in lost:
            del rows[1]
    spans = read([entry(prompts, completions, logprobs, extra={"n": [0, 1, 2]})])
    extras = [span.extra for span in spans.spans]
    if kept is None:
        assert set(extras) == {None}
        assert Issue.EXTRA_UNPLACED in spans.issues
    else:
        assert extras == [f'{{"n":{n}}}' for n in kept]


@pytest.mark.parametrize("completion", [MISSING_IDS, id_row([True])], ids=["missing", "damaged"])
def test_no_call_of_the_trajectory_vanishes(completion: IdRow) -> None:
    turns = [Turn(id_row([1]), completion), Turn(id_row([1, 2]), completion)]
    spans = read(None, Witness(turns))
    assert spans.calls_found == spans.main_calls == 2
    if completion.missing:
        wanted = {Issue.DETAILS_NULL: 1, Issue.NO_COMPLETION_IDS: 1, Issue.CALL_WITHOUT_EVIDENCE: 2}
        assert Counter(spans.issues) == wanted
    else:
        assert [span.sampled_token_ids for span in spans.spans] == [None, None]


def test_no_completion_is_placed_where_the_others_find_no_room() -> None:
    """[1] is of the first call, after which the history was rewritten; it only fits later on."""
    prompts = [[1], [1, 4], [1, 8], [1, 8, 3, 2, 3], [1, 8, 3, 2, 3, 1]]
    spans = read([entry(prompts, [[1], [3, 0], [3, 2]])])
    assert spans.spans == ()
    assert Counter(spans.issues) == {Issue.LISTS_MISALIGNED: 1, Issue.CALL_UNPLACED: 5}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [[math.inf, -math.inf], [1e308, 1e308], [None, math.nan]])
def test_odd_numbers_do_not_warn(odd: list[Any]) -> None:
    """A sum of them would, and a caller may have made warnings errors."""
    spans = read([entry([[1]], [[2, 3]], [odd])])
    finite = [x for x in odd if x is not None and math.isfinite(x)]
    assert spans.issues.count(Issue.LOGPROB_NOT_FINITE) == 2 - len(finite)
