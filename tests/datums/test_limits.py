"""Limits of sequences hold for what is trained."""

import pytest

from wmo_distill.datums.build import build_datums
from wmo_distill.datums.datum import Drop
from wmo_distill.records import TrialRecord
from wmo_distill.tokens import TokenSpan


@pytest.mark.parametrize("drop", ["fragment", "record"])
def test_a_sequence_without_a_token_to_train_is_over_no_limit(drop: str) -> None:
    """It is discarded before its length is looked at, and costs its record nothing."""
    record = TrialRecord(
        spans=(
            TokenSpan(0, list(range(6)), [6, 7, 8], [-0.5, -0.5, -0.5]),
            TokenSpan(1, list(range(100, 164)), [164, 165], None),
        ),
    )
    datums, stats = build_datums([record], max_datum_tokens=50, drop=drop)
    assert [datum.loss_tokens for datum in datums] == [3]
    assert stats.dropped_tokens == {Drop.NO_LOGPROBS: 2}
    assert stats.overlong_drops == 0
    datums, stats = build_datums([record], max_datum_tokens=50, drop=drop, purpose="sft")
    assert [datum.loss_tokens for datum in datums] == ([3] if drop == "fragment" else [])
