"""Two datasets side by side: intervals against statsmodels and scipy, and tasks paired."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shards.generated import lawful, write_dataset
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import UsageError
from wmo_distill.records import TrialRecord
from wmo_distill.report.datum_stats import render_comparison
from wmo_distill.stats.compare import _t975, compare, stats_of
from wmo_distill.stats.rates import newcombe, rate, wilson


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.27753279986288926),
        (28, 38, 0.5799115381253364, 0.8502837874520186),
        (1, 4, 0.0455872608097006, 0.6993581574175982),
        (999, 1000, 0.9943574414020421, 0.9998234536293739),
    ],
)
def test_wilson_is_that_of_statsmodels(k: int, n: int, low: float, high: float) -> None:
    """statsmodels 0.15.0, proportion_confint(k, n, method="wilson")."""
    assert wilson(k, n) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [
        ((56, 70), (48, 80), -0.33387265403690614, -0.05243147240236498),
        ((9, 10), (3, 10), -0.809017973535488, -0.1705227239345029),
        ((6, 7), (2, 7), -0.8062496375242278, -0.05822792748231209),
        ((5, 56), (0, 29), -0.19256001385511165, 0.038137147903536936),
        ((0, 10), (0, 20), -0.27753279986288926, 0.1611251580528194),
        ((10, 10), (0, 20), -1.0, -0.6790860371419145),
        ((28, 38), (30, 40), -0.1764592501193581, 0.20373345254711375),
    ],
)
def test_newcombe_is_that_of_statsmodels(
    a: tuple[int, int], b: tuple[int, int], low: float, high: float
) -> None:
    """statsmodels 0.15.0, confint_proportions_2indep(*b, *a, method="newcomb").

    The first five are examples of Newcombe 1998 (Statistics in Medicine 17, 873-890), b before a.
    """
    assert newcombe(rate(*a), rate(*b)) == pytest.approx((low, high), abs=1e-12)


@given(a=st.integers(0, 30), b=st.integers(0, 30), n=st.integers(30, 60))
def test_the_interval_holds_the_difference_and_turns_with_it(a: int, b: int, n: int) -> None:
    one, other = rate(a, n), rate(b, n)
    low, high = newcombe(one, other) or (2, -2)
    assert -1 <= low <= b / n - a / n <= high <= 1
    assert newcombe(other, one) == pytest.approx((-high, -low))
    assert newcombe(rate(0, 0), one) is newcombe(one, rate(0, 0)) is None


@pytest.mark.parametrize(
    ("degrees", "t"),
    [
        (1, 12.706204736174694), (2, 4.302652729749462), (9, 2.262157162798205),
        (11, 2.200985160091639), (12, 2.1788128296672284), (20, 2.085963447265864),
        (50, 2.008559112100761), (1000, 1.9623390808264083),
    ],
)  # fmt: skip
def test_students_quantile_is_that_of_scipy(degrees: int, t: float) -> None:
    """scipy.stats.t.ppf(0.975, degrees)."""
    assert _t975(degrees) == pytest.approx(t, abs=2e-4)


def written(out: Path, passed: dict[str, list[bool]]) -> Path:
    rows = [
        lawful(f"{task}{i}", task_id=task, group_id=task * 16, passed=yes, reward=float(yes))
        for task, every in passed.items()
        for i, yes in enumerate(every)
    ]
    write_dataset(out, [rows])
    return out


def test_tasks_are_paired(tmp_path: Path) -> None:
    a = written(tmp_path / "a", {"p": [False] * 4, "q": [True, False], "r": [True], "x": [True]})
    b = written(
        tmp_path / "b", {"p": [True] * 2, "q": [True, False], "r": [False], "y\x1b": [True]}
    )
    both = compare(stats_of(a), stats_of(b))
    assert [(t.task_id, t.difference) for t in both.tasks] == [("p", 1.0), ("q", 0.0), ("r", -1.0)]
    assert (both.paired.tasks, both.paired.better, both.paired.worse) == (3, 1, 1)
    assert (both.only_a, both.only_b) == (1, 1)
    # mean 0, standard deviation 1, three tasks: 4.302653 / sqrt(3)
    assert both.paired.mean_difference == 0.0
    assert both.paired.high == pytest.approx(2.484138, abs=1e-5)
    solved = both.differences[0]
    assert (solved.key, solved.a, solved.b) == ("solve_rate.value", 3 / 8, 4 / 6)
    assert solved.difference == pytest.approx(4 / 6 - 3 / 8)
    keys = {one.key for one in both.differences}
    assert {"distributions.logprob.p50", "pass_at_k.1.rate.value"} <= keys
    text = render_comparison(both, ("old\x1b", "new"))
    assert text.startswith("A is old\\x1b, 8 episodes; B is new, 6 episodes; ")
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line.startswith("  pass@2 ")]
    assert_words(text)


def test_tasks_of_one_name_from_two_formats_are_two(tmp_path: Path) -> None:
    def rows(format_: str, passed: list[bool], source: str | None = None) -> list[TrialRecord]:
        return [
            lawful(f"{format_}{source}{i}", task_id="p", format=format_, source=source,
                   group_id=f"{format_}{source}".ljust(16, "0")[:16].lower(),
                   passed=yes, reward=float(yes))
            for i, yes in enumerate(passed)
        ]  # fmt: skip

    write_dataset(tmp_path / "a", [rows("sink", [True]), rows("harbor", [False] * 3, "hub")])
    write_dataset(tmp_path / "b", [rows("harbor", [True, False], "hub")])
    write_dataset(tmp_path / "c", [rows("openenv", [True, True])])
    a, b, c = (stats_of(tmp_path / name) for name in "abc")
    assert [(t.task_id, t.origin, t.solve_rate.value) for t in a.tasks] == [
        ("p", "harbor, hub", 0.0), ("p", "sink", 1.0),
    ]  # fmt: skip
    assert [task.origin for task in b.tasks] == [None]
    both = compare(a, b)
    assert [(t.origin, t.difference) for t in both.tasks] == [("harbor, hub", 0.5)]
    assert (both.only_a, both.only_b, both.paired.other_origins) == (1, 0, 0)
    assert "p (harbor, hub)  0.000  0/3" in render_comparison(both, ("a", "b"))
    # Where each has the name once, they are one task, and the text says so.
    both = compare(b, c)
    assert (both.paired.tasks, both.paired.other_origins) == (1, 1)
    said = render_comparison(both, ("b", "c"))
    assert re.search(r"of these, format or source differs +1\n", said)


def assert_words(text: str) -> None:
    """The numbers have names for people, not their paths in the JSON."""
    names = text.split("\n\n")[1]
    assert "solve rate (of measured" in names
    assert "log-probability" in names
    assert not re.search(r"[a-z][._][a-z]|\.value|\.p50", names), names


def test_only_two_of_a_kind_are_compared(tmp_path: Path) -> None:
    a = written(tmp_path / "a", {"p": [True, False]})
    build_datum_shards(a, tmp_path / "d")
    with pytest.raises(UsageError, match=r"expected two datasets, .*found one of each"):
        compare(stats_of(a), stats_of(tmp_path / "d"))
    both = compare(stats_of(tmp_path / "d"), stats_of(tmp_path / "d"))
    assert both.kind == "datums"
    assert {one.difference for one in both.differences} <= {0.0, None}
    assert_words(render_comparison(both, ("a", "b")))
    with pytest.raises(UsageError, match="--by: expected a dataset that `build` wrote"):
        stats_of(tmp_path / "d", by=("task_id",))
