"""What stays out of RL datums, and is counted: missing calls, implausible log-probabilities."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.proof.chats import dataset
from wmo_distill.cli.app import app
from wmo_distill.datums.build import build_datums
from wmo_distill.datums.datum import BreakCause, Drop
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.records import Completeness, TrialRecord
from wmo_distill.tokens import TokenSpan


def test_stop_reasons_are_dropped_on_request() -> None:
    record = TrialRecord(stop_reason="budget", spans=(TokenSpan(0, [1], [2], [-1.0]),))
    datums, stats = build_datums([record], drop_stop_reasons=("budget",))
    assert datums == []
    assert stats.dropped_records == {Drop.STOP_REASON: 1}
    assert stats.dropped_tokens == {Drop.STOP_REASON: 1}


def broken(completeness: Completeness, **more: Any) -> TrialRecord:
    spans = (TokenSpan(0, [1], [2, 3], [-0.5, -0.5]), TokenSpan(1, [9], [8], [-0.5]))
    return TrialRecord(episode_id="e", completeness=completeness, spans=spans, **more)


@pytest.mark.parametrize("completeness", Completeness)
@pytest.mark.parametrize("purpose", ["rl", "sft"])
@pytest.mark.parametrize("allow", [False, True])
def test_episodes_with_a_missing_call_are_no_rl_data_unless_allowed(
    completeness: Completeness, purpose: Any, allow: bool
) -> None:
    left_out = completeness is Completeness.INCOMPLETE and purpose == "rl" and not allow
    datums, stats = build_datums([broken(completeness)], purpose=purpose, allow_incomplete=allow)
    assert (datums == []) is left_out
    assert stats.dropped_records == ({Drop.INCOMPLETE: 1} if left_out else {})
    assert stats.dropped_tokens == ({Drop.INCOMPLETE: 3} if left_out else {})
    by_rule, told = build_datums([broken(completeness)], rules="reference")
    assert (len(by_rule), told.dropped_records) == (2, {})


def test_an_incomplete_episode_without_tokens_is_spanless() -> None:
    record = TrialRecord(completeness=Completeness.INCOMPLETE)
    assert build_datums([record])[1].dropped_records == {Drop.SPANLESS: 1}


def test_incomplete_episodes_in_shards(tmp_path: Path) -> None:
    """A clean chat goes another way through the code than a broken one; both are counted."""
    clean = TrialRecord(
        episode_id="c",
        completeness=Completeness.INCOMPLETE,
        spans=(TokenSpan(0, [1], [2, 3], [-0.5, -0.5]),),
    )
    kept = TrialRecord(episode_id="k", spans=(TokenSpan(0, [1], [2], [-0.5]),))
    shards = dataset(tmp_path / "s", [clean, broken(Completeness.INCOMPLETE), kept])
    summary = build_datum_shards(shards, tmp_path / "d")
    assert summary.stats.dropped_records == {Drop.INCOMPLETE: 2}
    assert summary.stats.dropped_tokens == {Drop.INCOMPLETE: 5}
    assert summary.stats.datums == 1
    every = build_datum_shards(
        shards, tmp_path / "d", DatumOptions(allow_incomplete=True), fresh=True
    )
    assert (every.stats.datums, every.stats.dropped_records) == (4, {})
    done = CliRunner().invoke(app, ["datums", str(shards), "-o", str(tmp_path / "x")])
    assert re.search(r"dropped, incomplete +2\n", done.stdout)
    again = [*["datums", str(shards), "-o", str(tmp_path / "x")], "--fresh", "--allow-incomplete"]
    assert "dropped, incomplete" not in CliRunner().invoke(app, again).stdout


@pytest.mark.parametrize("value", [-1e16, -1000.0, -9999.0])
def test_an_implausible_log_probability_is_context(value: float) -> None:
    record = TrialRecord(spans=(TokenSpan(0, [1], [2, 3, 4], [-0.5, value, -999.0]),))
    (datum,), stats = build_datums([record])
    assert datum.loss_mask.tolist() == [False, True, False, True]
    assert datum.sampled_logprobs.tolist() == [0.0, -0.5, 0.0, -999.0]
    assert stats.dropped_tokens == {Drop.LOGPROB_IMPLAUSIBLE: 1}
    for more in ({"purpose": "sft"}, {"rules": "reference"}):
        (datum,), stats = build_datums([record], **more)  # type: ignore[arg-type]
        assert datum.loss_mask.tolist() == [False, True, True, True]
        assert datum.sampled_logprobs[2] == value
        assert stats.dropped_tokens == {}


def test_both_kinds_of_unusable_values_are_counted_apart() -> None:
    values = [float("-inf"), -1e16, float("nan"), -0.5]
    record = TrialRecord(spans=(TokenSpan(0, [1], [2, 3, 4, 5], values),))
    _, stats = build_datums([record])
    assert stats.dropped_tokens == {Drop.LOGPROB_NOT_FINITE: 2, Drop.LOGPROB_IMPLAUSIBLE: 1}
    assert stats.loss_tokens == 1


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS"])
def test_a_turn_is_truncated_in_every_provider_s_words(word: str) -> None:
    spans = (
        TokenSpan(0, [1], [2, 3], [-0.5, -0.5], finish_reason=word),
        TokenSpan(1, [1, 7], [8], [-0.5]),
    )
    datums, _ = build_datums([TrialRecord(spans=spans)])
    assert datums[1].break_cause is BreakCause.TRUNCATED_TURN
    assert [datum.finish_reasons for datum in datums] == [(word,), (None,)]
    assert [datum.ends_chat for datum in datums] == [False, True]


def test_finish_reasons_are_those_of_calls_that_sampled() -> None:
    spans = (
        TokenSpan(0, [1], [2], [-0.5], finish_reason="stop"),
        TokenSpan(1, [1, 2, 3], [], [], finish_reason="abort"),
        TokenSpan(2, [1, 2, 3, 4], None, None, finish_reason="stop"),
        TokenSpan(3, [1, 2, 3, 4, 5], [6], [-0.5], finish_reason="length"),
    )
    (datum,), _ = build_datums([TrialRecord(spans=spans)])
    assert datum.call_starts == (1, 5)
    assert datum.finish_reasons == ("stop", "length")
