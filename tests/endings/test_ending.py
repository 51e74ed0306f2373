"""Why an episode ended: the rules of the two columns, then the cases that distinguish them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.issues import Issue
from wmo_distill.records import Completion, StopReason
from wmo_distill.sources.evidence import EndingEvidence, Exceptional, RunTrace
from wmo_distill.sources.harbor.trajectory import Trajectory
from wmo_distill.sources.recorded import Step
from wmo_distill.trials.ending import (
    Ending,
    completion_of,
    reference_stop_reason,
    stop_reason,
)
from wmo_distill.trials.exceptions import KNOWN_TYPES

WORK = Step(claims=False, parse_error=False)


CLAIM = Step(claims=True, parse_error=False)


FAILED = Step(claims=False, parse_error=True)


LETTERS = {"w": WORK, "c": CLAIM, "f": FAILED}


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def steps(letters: str) -> tuple[Step, ...]:
    return tuple(LETTERS[letter] for letter in letters)


def evidence(letters: str | None = "wcc", **more: Any) -> EndingEvidence:
    """An episode whose turns are w(ork), c(laim) and f(ailed to parse); None: no trajectory."""
    more.setdefault("n_episodes", 0 if letters is None else len(letters))
    if letters is None:
        return EndingEvidence(steps_complete=False, **more)
    return EndingEvidence(steps=steps(letters), reference_submitted=letters.endswith("c"), **more)


def raised(kind: str, **more: Any) -> Exceptional:
    return Exceptional(type=kind, **more)


@given(st.text("wcf", max_size=12))
def test_completion_is_two_claims_with_nothing_parsed_between(letters: str) -> None:
    parsed = letters.replace("f", "")
    expected = Completion.NONE
    if re.search("cc+$", parsed):
        expected = Completion.CONFIRMED
    elif parsed.endswith("c"):
        expected = Completion.CLAIMED
    assert completion_of(steps(letters)) is expected


EVIDENCE = st.builds(
    evidence,
    st.none() | st.text("wcf", max_size=5),
    readable=st.booleans(),
    exception=st.none()
    | st.builds(
        Exceptional,
        type=st.sampled_from(sorted(KNOWN_TYPES)) | st.text(max_size=5),
        occurred_at=st.none() | st.just(NOON),
        verifier_started_at=st.none() | st.sampled_from([NOON, NOON + timedelta(hours=1)]),
        agent_ran=st.booleans(),
        agent_result=st.booleans(),
    ),
    n_episodes=st.none() | st.integers(-1, 6),
    cap=st.none() | st.integers(0, 6),
    cap_known=st.booleans(),
    recorded_turns=st.integers(0, 6),
    trace=st.none() | st.builds(RunTrace, st.none() | st.text(max_size=5), st.none()),
)


@given(EVIDENCE)
def test_no_evidence_raises_and_unknown_says_why(found: EndingEvidence) -> None:
    ending = stop_reason(found)
    reference_stop_reason(found)
    assert ending.completion is completion_of(found.steps)
    explained = ending.issues or not (found.readable and found.steps_complete and found.cap_known)
    assert ending.stop_reason is not StopReason.UNKNOWN or explained


@given(EVIDENCE)
def test_a_confirmed_completion_is_never_relabelled_by_count_or_verifier(
    found: EndingEvidence,
) -> None:
    verifier = raised("VerifierTimeoutError")
    for exception in (None, verifier, raised("CancelledError")):
        ending = stop_reason(replace(found, steps=steps("wcc"), exception=exception, trace=None))
        assert ending.stop_reason is StopReason.SUBMITTED
        assert ending.completion is Completion.CONFIRMED


@given(EVIDENCE)
def test_an_exception_of_the_verifier_changes_nothing(found: EndingEvidence) -> None:
    without = stop_reason(replace(found, exception=None))
    for kind in ("VerifierTimeoutError", "RewardFileNotFoundError", "VerifierOutputParseError"):
        assert stop_reason(replace(found, exception=raised(kind))) == without


def test_every_word_can_be_reached() -> None:
    reached = {stop_reason(found).stop_reason for found in REACHING}
    assert reached == set(StopReason)


REACHING: Sequence[EndingEvidence] = [
    evidence("wcc"),
    evidence("www", cap=3),
    evidence("w", exception=raised("AgentTimeoutError")),
    evidence("w", exception=raised("litellm.exceptions.ContextWindowExceededError")),
    evidence("w", exception=raised("OutputLengthExceededError")),
    evidence("w", exception=raised("RateLimitError")),
    evidence("ww", n_episodes=3),
    evidence("w", exception=raised("CancelledError")),
    evidence(None, exception=raised("AgentSetupTimeoutError", agent_ran=False)),
    evidence("w", exception=raised("ValueError")),
    evidence(None, n_episodes=3),
    *(
        evidence("w", trace=RunTrace(word, word))
        for word in ("no_action", "no_tool_call", "unparsed_tool_call", "unknown_done_reason")
    ),
]


class TestStopReason:
    @pytest.mark.parametrize(
        ("letters", "more", "reason", "issues"),
        [
            # The count, without an exception.
            ("wcc", {}, "submitted", ()),
            ("wcc", {"cap": 3}, "submitted", ()),
            ("wcfc", {}, "submitted", ()),
            ("wwc", {"cap": 3}, "max_turns", ()),
            ("cww", {"cap": 3}, "max_turns", ()),
            ("www", {"cap": 2}, "max_turns", ()),
            ("ww", {"n_episodes": 3, "cap": 5}, "session_died", ()),
            ("wf", {"n_episodes": 3}, "session_died", ()),
            ("w", {"n_episodes": 3, "recorded_turns": 2}, "session_died", ()),
            ("ww", {"n_episodes": 3, "recorded_turns": 2}, "session_died", ()),
            ("ww", {"n_episodes": 3, "recorded_turns": 3}, "unknown", ("turns_disagree",)),
            ("ww", {"n_episodes": 3, "recorded_turns": 9}, "session_died", ()),
            ("www", {"cap": 5}, "unknown", ("turns_disagree",)),
            ("w", {"n_episodes": 3}, "unknown", ("turns_disagree",)),
            ("www", {"cap_known": False}, "unknown", ()),
            ("wcc", {"n_episodes": 9}, "submitted", ("turns_disagree",)),
            ("wcc", {"n_episodes": None}, "submitted", ("episodes_missing",)),
            ("www", {"n_episodes": None}, "unknown", ("episodes_missing",)),
            # What is missing is reported by the issue of the file that is missing.
            (None, {"n_episodes": 3}, "unknown", ()),
            (None, {"n_episodes": 3, "cap": 3}, "max_turns", ()),
            ("wcc", {"readable": False}, "submitted", ()),
            ("wwc", {"readable": False}, "unknown", ()),
            (None, {"readable": False}, "unknown", ()),
            # Exceptions.
            ("wc", {"exception": raised("AgentTimeoutError")}, "budget", ()),
            ("w", {"exception": raised("ContextLengthExceededError")}, "context_overflow", ()),
            ("w", {"exception": raised("OutputTokenExceededError")}, "output_truncated", ()),
            ("w", {"exception": raised("InternalServerError")}, "provider_error", ()),
            ("w", {"exception": raised("APIConnectionError")}, "provider_error", ()),
            ("wc", {"exception": raised("CancelledError")}, "cancelled", ()),
            ("cc", {"exception": raised("CancelledError")}, "submitted", ()),
            ("cc", {"exception": raised("AgentTimeoutError")}, "budget", ()),
            ("ww", {"exception": raised("VerifierTimeoutError"), "cap": 2}, "max_turns", ()),
            (
                "w",
                {"exception": raised("AgentTimeoutError"), "readable": False},
                "unknown",
                (),
            ),
        ],
    )  # fmt: skip
    def test_cases(
        self, letters: str | None, more: dict[str, Any], reason: str, issues: tuple[str, ...]
    ) -> None:
        ending = stop_reason(evidence(letters, **more))
        assert (ending.stop_reason, ending.issues) == (reason, issues)

    @pytest.mark.parametrize("issue", [Issue.CONTINUATION_MISSING, Issue.CONTINUATION_ESCAPES])
    def test_a_trajectory_that_was_not_read_to_its_end(self, issue: Issue) -> None:
        part = Trajectory(steps=steps("ww"), issues=(issue,))
        found = EndingEvidence(n_episodes=9, cap=9, steps=part.steps, steps_complete=part.complete)
        for n in (2, 3, 8):
            ending = stop_reason(replace(found, n_episodes=n))
            assert ending.stop_reason is StopReason.UNKNOWN
        # At the cap the count alone decides: only a confirmed completion overrules it.
        ending = stop_reason(found)
        assert ending.stop_reason is StopReason.MAX_TURNS

    @pytest.mark.parametrize("kind", ["RateLimitError", "CancelledError"])
    def test_before_the_agent_started(self, kind: str) -> None:
        early = raised(kind, agent_ran=False, agent_result=False)
        assert stop_reason(evidence(None, exception=early)).stop_reason is StopReason.NOT_RUN
        for late in (replace(early, agent_ran=True), replace(early, agent_result=True)):
            ran = stop_reason(evidence("w", exception=late)).stop_reason
            assert ran is not StopReason.NOT_RUN

    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            ({}, "error"),
            ({"agent_ran": False}, "not_run"),
            ({"occurred_at": NOON, "verifier_started_at": NOON}, "submitted"),
            (
                {"occurred_at": NOON, "verifier_started_at": NOON - timedelta(seconds=1)},
                "submitted",
            ),
            ({"occurred_at": NOON, "verifier_started_at": NOON + timedelta(seconds=1)}, "error"),
            ({"verifier_started_at": NOON}, "error"),
            ({"occurred_at": NOON}, "error"),
        ],
    )
    def test_a_type_that_no_table_knows(self, more: dict[str, Any], reason: str) -> None:
        found = evidence("wcc", exception=raised("RuntimeError", **more))
        assert stop_reason(found).stop_reason == reason

    def test_a_run_trace_wins(self) -> None:
        found = evidence("www", cap=3, exception=raised("AgentTimeoutError"))
        assert stop_reason(
            replace(found, trace=RunTrace("no_action", "no_action"))
        ).stop_reason is StopReason.NO_ACTION  # fmt: skip
        assert stop_reason(replace(found, trace=RunTrace("bored", "bored"))) == Ending(
            StopReason.UNKNOWN, Completion.NONE, (Issue.STOP_WORD_UNKNOWN,)
        )
        assert stop_reason(replace(found, trace=RunTrace())) == stop_reason(found)


class TestReferenceStopReason:
    @pytest.mark.parametrize(
        ("letters", "more", "word"),
        [
            ("wcc", {}, "submitted"),
            ("wwc", {}, "submitted"),
            ("wcf", {}, "error"),
            ("wcc", {"cap": 3}, "max_turns"),
            ("wcc", {"n_episodes": 4, "cap": 3}, "max_turns"),
            ("wcc", {"n_episodes": None}, None),
            ("www", {}, "error"),
            (None, {"n_episodes": 3}, "error"),
            ("wcc", {"readable": False}, None),
            ("wcc", {"exception": raised("AgentTimeoutError"), "n_episodes": None}, "budget"),
            ("wcc", {"exception": raised("ContextLengthExceededError")}, "provider_error"),
            ("wcc", {"exception": raised("VerifierTimeoutError")}, "error"),
            ("wcc", {"exception": raised("")}, "error"),
            ("wcc", {"trace": RunTrace("max_turns", "max_turns")}, "max_turns"),
            ("wcc", {"trace": RunTrace("max_turns", None)}, None),
            ("wcc", {"trace": RunTrace("bored", "bored"), "readable": False}, "bored"),
        ],
    )
    def test_cases(self, letters: str | None, more: dict[str, Any], word: str | None) -> None:
        assert reference_stop_reason(evidence(letters, **more)) == word
