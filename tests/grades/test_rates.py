"""A rate shows what it is a rate of; nothing over nothing is no number."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.stats.rates import mean_rate, pass_at_k, rate, wilson


@given(st.data(), st.integers(1, 10_000))
def test_the_interval_holds_the_value(data: st.DataObject, n: int) -> None:
    got = rate(data.draw(st.integers(0, n)), n)
    assert got.value is not None
    assert got.low is not None
    assert got.high is not None
    assert 0.0 <= got.low <= got.value <= got.high <= 1.0
    assert got.low < got.high


@given(st.data(), st.integers(1, 1000))
def test_the_interval_mirrors(data: st.DataObject, n: int) -> None:
    k = data.draw(st.integers(0, n))
    low, high = wilson(k, n)
    assert wilson(n - k, n) == (pytest.approx(1 - high), pytest.approx(1 - low))


def test_wilson_known_values() -> None:
    assert wilson(0, 10) == (0.0, pytest.approx(0.27753, abs=1e-5))
    assert wilson(5, 10) == (pytest.approx(0.23659, abs=1e-5), pytest.approx(0.76341, abs=1e-5))
    assert wilson(10, 10) == (pytest.approx(0.72247, abs=1e-5), 1.0)


def test_an_empty_denominator_is_null() -> None:
    for empty in (rate(0, 0), mean_rate([])):
        assert (empty.value, empty.low, empty.high) == (None, None, None)
        assert (empty.numerator, empty.denominator) == (0, 0)


@given(st.data(), st.integers(1, 8))
def test_pass_at_k_is_the_share_of_draws_with_a_solved_attempt(data: st.DataObject, n: int) -> None:
    solved, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(combinations([i < solved for i in range(n)], k))
    assert pass_at_k(n, solved, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_needs_k_attempts() -> None:
    assert pass_at_k(3, 3, 4) is None
    assert pass_at_k(3, 3, 0) is None
