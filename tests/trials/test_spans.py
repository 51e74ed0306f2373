"""What is kept of a damaged trial is right, and every call is kept or counted."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.issues import Issue
from wmo_distill.records import SegmentInfo, SpanSource
from wmo_distill.sources.evidence import Evidence, Identity
from wmo_distill.sources.harbor.calls import ABSENT, listed_of
from wmo_distill.sources.harbor.plain import read_result_lists
from wmo_distill.sources.recorded import Turn, Witness
from wmo_distill.tokenjson.rows import id_row, logprob_row
from wmo_distill.trials.placing import Spans, placed_spans


@dataclass
class True_:  # noqa: N801
    """A call as it really was."""

    prompt: list[int]
    sampled: list[int]
    logprobs: list[float]


def entry(
    prompts: Any = None, completions: Any = None, logprobs: Any = None, **more: Any
) -> dict[str, Any]:
    lists = {
        "prompt_token_ids": prompts,
        "completion_token_ids": completions,
        "logprobs": logprobs,
    }
    return {**{key: value for key, value in lists.items() if value is not None}, **more}


def read(details: Any, witness: Witness | None = None, **options: Any) -> Spans:
    """The spans of `rollout_details` given as plain JSON; calls must balance."""
    value = {"agent_result": {"rollout_details": details}}
    read_result_lists(value)
    listed = listed_of(value["agent_result"]["rollout_details"], witness or Witness())
    spans = placed_spans(Evidence(identity=Identity(), listed=listed), **options)
    dropped = sum(issue.drops_call for issue in spans.issues)
    assert spans.calls_found == len(spans.spans) + dropped
    assert len(spans.segments) > max((span.segment for span in spans.spans), default=0)
    for span in spans.spans:
        assert span.sampled_logprobs is None or span.sampled_logprobs.size == span.sampled.size
    # These ids are of no chat template.
    return replace(spans, issues=tuple(i for i in spans.issues if i is not Issue.HOLE_UNPROVABLE))


def as_lists(spans: Spans) -> list[tuple[int, Any, Any, Any]]:
    return [
        (
            span.call_index,
            span.prompt_token_ids.tolist(),
            None if span.sampled_token_ids is None else span.sampled_token_ids.tolist(),
            None if span.sampled_logprobs is None else span.sampled_logprobs.tolist(),
        )
        for span in spans.spans
    ]


@st.composite
def chats(draw: st.DrawFn) -> list[True_]:
    """A chat whose prompts extend the calls before, with breaks now and then.

    No id occurs twice but by repeating the history, so nothing fits by accident.
    """
    fresh = count()

    def ids() -> list[int]:
        return list(islice(fresh, draw(st.integers(1, 3))))

    calls: list[True_] = []
    history = ids()
    for _ in range(draw(st.integers(1, 6))):
        sampled = ids()
        calls.append(True_(history, sampled, [-1.0 - x for x in range(len(sampled))]))
        broken = draw(st.integers(0, 4)) == 0
        history = history + ([] if broken else sampled) + ids()
    return calls


losses = st.lists(st.sampled_from(["", "", "", "logprobs", "completion"]), min_size=6, max_size=6)


def recorded(calls: list[True_], lost: list[str]) -> dict[str, Any]:
    """As Harbor records it: what a turn lacks is skipped in its list."""
    whole = list(zip(calls, lost, strict=False))
    return entry(
        [call.prompt for call, _ in whole],
        [call.sampled for call, loss in whole if loss != "completion"],
        [call.logprobs for call, loss in whole if not loss],
    )


@given(chats(), losses)
def test_what_is_kept_without_trajectory_is_true(calls: list[True_], lost: list[str]) -> None:
    if all(loss == "completion" for loss in lost[: len(calls)]):
        return
    details = recorded(calls, lost)
    suspect = len(details["completion_token_ids"]) != len(calls)
    spans = read([details])
    for index, prompt, sampled, logprobs in as_lists(spans):
        assert prompt == calls[index].prompt
        if sampled is not None and (suspect or len(calls) == len(details["logprobs"])):
            assert sampled == calls[index].sampled
        if logprobs is not None and suspect:
            assert logprobs == calls[index].logprobs


@given(chats(), losses, st.integers(0, 2))
def test_the_trajectory_places_every_turn(
    calls: list[True_], lost: list[str], unwritten: int
) -> None:
    """Turns after the trajectory's last step are kept where they stand."""
    steps = max(len(calls) - unwritten, 1)
    lost = lost[:steps] + [""] * (len(calls) - steps)
    if all(loss == "completion" for loss in lost):
        return
    turns = [
        Turn(
            id_row(call.prompt),
            id_row(None if loss == "completion" else call.sampled),
            logprob_row(None if loss else call.logprobs),
        )
        for call, loss in zip(calls[:steps], lost, strict=False)
    ]
    spans = read([recorded(calls, lost)], Witness(turns))
    assert as_lists(spans) == [
        (
            index,
            call.prompt,
            None if loss == "completion" else call.sampled,
            None if loss else call.logprobs,
        )
        for index, (call, loss) in enumerate(zip(calls, lost, strict=False))
    ]


def test_a_lost_prompt_is_rebuilt() -> None:
    prompts = [[1], [1, 2, 3], [1, 2, 3, 4, 5]]
    sampled, logprobs = [[2], [4], [6]], [[-1.0], [-2.0], [-3.0]]
    turns = [
        Turn(id_row(p), id_row(c), logprob_row(lp))
        for p, c, lp in zip([prompts[0], None, prompts[2]], sampled, logprobs, strict=True)
    ]
    spans = read([entry([prompts[0], prompts[2]], sampled, logprobs)], Witness(turns))
    assert [span.call_index for span in spans.spans] == [0, 2]
    assert Counter(spans.issues) == Counter(
        [Issue.LISTS_MISALIGNED, Issue.REBUILT_FROM_TRAJECTORY, Issue.PROMPT_MISSING]
    )
    assert spans.calls_found == 3


def test_a_turn_that_every_list_lost_is_rebuilt() -> None:
    turns = [
        Turn(id_row([1]), id_row([2])),
        Turn(id_row([1, 2, 3])),
        Turn(id_row([9]), id_row([8])),
    ]
    lists = entry([[1], [9]], [[2], [8]])
    spans = read([lists], Witness([turns[0], Turn(id_row(None), id_row([7])), turns[2]]))
    # The trajectory does not agree: its completions are not the recorded ones.
    assert Issue.REBUILT_FROM_TRAJECTORY not in spans.issues
    assert Issue.TURNS_MISSING in spans.issues


@pytest.mark.parametrize(
    ("details", "issue"),
    [
        (ABSENT, Issue.DETAILS_MISSING),
        (None, Issue.DETAILS_NULL),
        ([], Issue.DETAILS_EMPTY),
        ({}, Issue.DETAILS_DAMAGED),
        ("[]", Issue.DETAILS_DAMAGED),
        ([{}], Issue.ENTRY_EMPTY),
        ([None], Issue.ENTRY_DAMAGED),
        ([entry(5, [[1]])], Issue.ENTRY_DAMAGED),
        ([entry([[1, 2]])], Issue.NO_COMPLETION_IDS),
        ([entry([[1, 2], [3]], [[], []], [[], []])], Issue.NO_COMPLETION_IDS),
    ],
)
def test_no_tokens_has_a_reason(details: Any, issue: Issue) -> None:
    spans = read(details)
    assert not spans.spans
    assert issue in spans.issues
    assert spans.segments == (SegmentInfo(),)
    assert spans.source is SpanSource.NONE


@pytest.mark.parametrize(
    ("sampled", "logprobs", "kept", "issues"),
    [
        ([40, 41], [-0.2], None, [Issue.LOGPROBS_LENGTH]),
        ([40], [-0.2, -0.1], None, [Issue.LOGPROBS_LENGTH]),
        ([40], [], None, [Issue.LOGPROBS_MISSING]),
        ([40], None, None, [Issue.LOGPROBS_MISSING]),
        ([], [], [], []),
        ([40], ["-0.1"], None, [Issue.LOGPROBS_DAMAGED]),
        ([40], [True], None, [Issue.LOGPROBS_DAMAGED]),
        ([40], {"a": 1}, None, [Issue.LOGPROBS_DAMAGED]),
        ([40, 41, 42], [-0.1, None, float("-inf")], [-0.1, None, None],
         [Issue.LOGPROB_NOT_FINITE] * 2),
        ([40, 41], [-0.5, 10**400], [-0.5, None], [Issue.LOGPROB_NOT_FINITE]),
        ([40], [-9999.0], [-9999.0], [Issue.LOGPROB_IMPLAUSIBLE]),
        ([40, 41, 42, 43], [-1e16, -1000, -999.9, -9999], [-1e16, -1000, -999.9, -9999],
         [Issue.LOGPROB_IMPLAUSIBLE] * 3),
        ([40, 41, 42], [-9999.0, float("-inf"), 0.7], [-9999.0, None, 0.7],
         [Issue.LOGPROB_NOT_FINITE, Issue.LOGPROB_POSITIVE, Issue.LOGPROB_IMPLAUSIBLE]),
        ([40, 41], [0, 0.0], [0, 0], [Issue.LOGPROBS_ALL_ZERO]),
        ([40, 41], [-1, 0.7], [-1, 0.7], [Issue.LOGPROB_POSITIVE]),
        ([True], [-1], None, [Issue.COMPLETION_DAMAGED]),
        (None, [-1], None, [Issue.COMPLETION_MISSING]),
    ],
)  # fmt: skip
def test_a_fault_costs_one_call(
    sampled: Any, logprobs: Any, kept: Any, issues: list[Issue]
) -> None:
    """Between two good calls, which stay as they are."""
    details = entry([[1], [1, 2, 3], [1, 2, 3, 4]], [[2], sampled, [5]], [[-1.0], logprobs, [-2.0]])
    spans = read([details])
    assert list(spans.issues) == issues
    assert [span.call_index for span in spans.spans] == [0, 1, 2]
    assert as_lists(spans)[0] == (0, [1], [2], [-1.0])
    assert as_lists(spans)[2] == (2, [1, 2, 3, 4], [5], [-2.0])
    values = spans.spans[1].sampled_logprobs
    if kept is None:
        assert values is None
    else:
        expected = np.array([np.nan if x is None else x for x in kept])
        assert values is not None
        assert np.array_equal(values, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("prompt", "issue"),
    [
        ([], Issue.PROMPT_EMPTY),
        (None, Issue.PROMPT_MISSING),
        *[
            ([1, bad], Issue.PROMPT_DAMAGED)
            for bad in (True, 5.0, "6", -1, 2**31, 2**64, None, [1])
        ],
    ],
)
def test_a_bad_prompt_drops_its_call_alone(prompt: Any, issue: Issue) -> None:
    details = entry([[1], prompt, [1, 2, 3]], [[2], [5], [6]], [[-1.0], [-1.0], [-1.0]])
    spans = read([details])
    assert list(spans.issues) == [issue]
    assert [(i, p) for i, p, _, _ in as_lists(spans)] == [(0, [1]), (2, [1, 2, 3])]
    # The prefix is taken against the span before, not against the dropped call.
    assert spans.spans[1].prefix_len == 2
