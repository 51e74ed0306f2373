"""Quantiles and histograms against numpy's own, and what one absurd value may not move."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.stats.distribution import Distribution, Sketch, distribution

QUANTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


def quantiles(found: Distribution) -> list[float]:
    return [getattr(found, f"p{q}") for q in QUANTILES]


@given(values=st.lists(FLOATS | st.integers(-20, 20), min_size=1, max_size=60))
def test_the_numbers_are_those_of_numpy(values: list[float]) -> None:
    found = distribution("turns", values, missing=3)
    numbers = np.array(values, np.float64)
    scale = float(np.abs(numbers).max())
    assert (found.count, found.missing, found.implausible) == (len(values), 3, 0)
    assert quantiles(found) == pytest.approx(
        np.percentile(numbers, QUANTILES).tolist(), abs=1e-12 * scale
    )
    assert (found.low, found.high) == (numbers.min(), numbers.max())
    edges, counts = found.histogram.edges, found.histogram.counts
    assert sum(counts) == len(values)
    assert len(edges) == len(counts) + 1 <= 26
    assert list(edges) == sorted(edges)
    assert list(counts) == np.histogram(numbers, edges)[0].tolist()
    assert edges[0] <= found.low <= found.high <= edges[-1]


@given(values=st.lists(st.floats(-30, 0) | st.just(0.0) | st.just(-1e-30), min_size=1))
def test_the_sketch_is_within_a_part_in_five_hundred(values: list[float]) -> None:
    sketch = Sketch("logprob")
    for start in range(0, len(values), 7):
        sketch.add(np.array(values[start : start + 7]))
    found, exact = sketch.distribution(), distribution("logprob", values)
    assert (found.count, found.low, found.high) == (exact.count, exact.low, exact.high)
    assert found.mean == pytest.approx(exact.mean)
    assert quantiles(found) == pytest.approx(quantiles(exact), rel=2e-3, abs=1e-37)
    assert sum(found.histogram.counts) == len(values)


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("logprob", [-5e16, -1000.0, math.inf, -math.inf, 5e16, 1e300]),
        ("reward", [-5e16, 5e16, math.inf, 1e300, -1e300]),
        ("advantages", [-5e16, 5e16, math.inf]),
        ("agent_seconds", [-0.1, -5e16, 5e16, math.inf]),
        ("ratio", [-1.0, 5e16, math.inf]),
    ],
)
def test_absurd_values_are_counted_apart_and_move_nothing(name: str, odd: list[float]) -> None:
    usual = (np.random.default_rng(0).exponential(1.0, 500) % 1).round(3)
    values = -usual if name == "logprob" else usual
    clean = distribution(name, values)
    found = distribution(name, [*values, *odd, math.nan])
    assert (found.implausible, found.missing, clean.implausible) == (len(odd), 1, 0)
    apart = {"implausible", "missing"}
    assert found.model_dump(exclude=apart) == clean.model_dump(exclude=apart)
    one, other = Sketch(name), Sketch(name)
    one.add(np.array([*values, *odd, math.nan]))
    other.add(values)
    assert one.distribution().model_dump(exclude=apart) == other.distribution().model_dump(
        exclude=apart
    )
    assert one.distribution().implausible == len(odd)


def test_one_far_value_has_a_bin_of_its_own() -> None:
    found = distribution("turns", [*list(range(8)) * 25, 900]).histogram
    assert found.edges == (0, 1, 2, 3, 4, 5, 6, 7, 8, 900)
    assert found.counts == (25,) * 8 + (1,)


def test_over_nothing_there_is_no_number() -> None:
    for found in (distribution("turns", []), Sketch("logprob").distribution()):
        assert (found.count, found.mean, found.p50, found.low) == (0, None, None, None)
        assert found.histogram.counts == ()


@pytest.mark.parametrize("values", [[1e-320, 2e-320], [5e-324], [1e308, -1e308], [-7.5, -7.5]])
def test_extreme_values_have_a_histogram(values: list[float]) -> None:
    found = distribution("turns", values)
    assert sum(found.histogram.counts) == len(values)
