"""What a result holds of its ending: the cap, the episodes, the exception and its phase."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.endings.test_ending import NOON, raised
from wmo_distill.sources.harbor.reading import episode_count, exception_of, turn_cap
from wmo_distill.sources.values import zoned_time

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "agent", "kwargs", "max_turns", "episodes", "metadata", "n_episodes",
                    "exception_type", "occurred_at", "verifier", "started_at", "agent_execution",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)  # fmt: skip


@given(ANY, ANY)
def test_recorded_values_may_have_any_type(value: Any, other: Any) -> None:
    turn_cap(value)
    turn_cap({"agent": {"kwargs": value}})
    episode_count(value)
    exception_of(value, other, agent_result=True, copied=False)
    assert zoned_time(value) is None or isinstance(value, str)


@pytest.mark.parametrize(
    ("config", "cap"),
    [
        ({"agent": {"kwargs": {"max_turns": 5}}}, (5, True)),
        ({"agent": {"kwargs": {"max_turns": 5, "max_episodes": 6, "episodes": 7}}}, (5, True)),
        ({"agent": {"kwargs": {"max_turns": None, "max_episodes": 6, "episodes": 7}}}, (6, True)),
        ({"agent": {"kwargs": {"episodes": 7}}}, (7, True)),
        ({"agent": {"kwargs": {}}}, (None, True)),
        ({"agent": {"kwargs": None}}, (None, True)),
        ({"agent": None}, (None, True)),
        ({}, (None, True)),
        ({"agent": {"kwargs": {"max_turns": True}}}, (None, False)),
        ({"agent": {"kwargs": {"max_turns": "5"}}}, (None, False)),
        ({"agent": {"kwargs": {"max_turns": 5.0}}}, (None, False)),
        ({"agent": {"kwargs": []}}, (None, False)),
        ({"agent": "terminus-2"}, (None, False)),
        (None, (None, False)),
        ([], (None, False)),
    ],
)
def test_the_cap_of_a_config(config: Any, cap: tuple[int | None, bool]) -> None:
    assert turn_cap(config) == cap


@pytest.mark.parametrize(
    ("recorded", "count"), [(3, 3), (0, 0), (True, None), (3.0, None), ("3", None), (None, None)]
)
def test_the_count_is_an_integer_or_nothing(recorded: Any, count: int | None) -> None:
    assert episode_count({"metadata": {"n_episodes": recorded}}) == count


@pytest.mark.parametrize("kind", [None, 7, True, [], {}])
def test_an_exception_without_a_type_is_none(kind: Any) -> None:
    info = {"exception_type": kind, "exception_message": "m"}
    assert exception_of(info, {}, agent_result=True, copied=False).type is None


def test_the_phase_of_an_exception() -> None:
    info = {"exception_type": "E", "occurred_at": "2026-01-01T12:00:00Z"}
    timings = {"agent_execution": {}, "verifier": {"started_at": "2026-01-01T13:00:00+01:00"}}
    assert exception_of(info, timings, agent_result=False, copied=False) == raised(
        "E", occurred_at=NOON, verifier_started_at=NOON, agent_ran=True, agent_result=False
    )
    naive = {**info, "occurred_at": "2026-01-01T12:00:00"}
    found = exception_of(naive, {}, agent_result=True, copied=True)
    assert found == raised("E", agent_ran=True)
    early = exception_of(info, {"agent_execution": None}, agent_result=True, copied=False)
    assert early is not None
    assert not early.agent_ran
