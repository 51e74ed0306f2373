"""Who sampled what, for which task, in which group, and when."""

import hashlib
import json
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.issues import Issue
from wmo_distill.records import TrialRecord
from wmo_distill.sources.evidence import Times
from wmo_distill.sources.harbor.identity import episode_times, identity_of, trial_times
from wmo_distill.sources.values import Values, group_id

CONFIG: dict[str, Any] = {
    "task": {"path": "tasks/csv-totals", "name": None, "source": "tb"},
    "trial_name": "csv__aaaaaaa",
    "agent": {
        "name": "terminus-2",
        "model_name": "hosted_vllm/qwen/q3",
        "kwargs": {"b": 1, "a": [2.5, None]},
    },
    "job_id": "job-1",
    "source_trial": None,
}
RESULT: dict[str, Any] = {
    "id": "id-1",
    "task_name": "org/csv-totals",
    "trial_name": "csv__aaaaaaa",
    "source": "tb-mini",
    "task_checksum": "c0ffee",
    "agent_info": {
        "name": "terminus-2",
        "version": "2.0.0",
        "model_info": {"name": "q3", "provider": "hosted_vllm"},
    },
    "started_at": "2026-01-01T00:00:00.5Z",
    "finished_at": "2026-01-01T02:00:00+01:00",
    "environment_setup": {
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:10Z",
    },
    "agent_setup": {
        "started_at": "2026-01-01T00:00:10Z",
        "finished_at": "2026-01-01T00:00:12.5Z",
    },
    "agent_execution": {
        "started_at": "2026-01-01T00:01:00Z",
        "finished_at": "2026-01-01T00:02:00Z",
    },
    "verifier": {"started_at": "2026-01-01T00:02:00Z", "finished_at": None},
    "agent_result": {"cost_usd": 1, "n_cache_tokens": 2**40},
}


def columns(result: Any, config: Any = CONFIG, job: str | None = "job-dir") -> dict[str, Any]:
    values = Values()
    identity = identity_of(result, config, directory="dir__1", job=job, values=values)
    times = episode_times(result, trial_times(result, values), values)
    of_trial = ("artifact_dir", "step_name", "step_index", "attempt", "group_expected", "job")
    found = {k: v for k, v in asdict(identity).items() if k not in of_trial}
    return {**found, **asdict(times), "damaged": len(values.issues)}


def test_all_columns_of_a_sound_trial() -> None:
    found = columns(RESULT)
    kwargs = CONFIG["agent"]["kwargs"]
    text = json.dumps(
        ["job-1", "tb-mini", "org/csv-totals", "c0ffee", "terminus-2", "q3", kwargs],
        sort_keys=True,
        separators=(",", ":"),
    )
    assert found == {
        "trial_id": "id-1",
        "trial_name": "csv__aaaaaaa",
        "task_id": "org/csv-totals",
        "task_checksum": "c0ffee",
        "source": "tb-mini",
        "regrade_of": None,
        "agent_name": "terminus-2",
        "agent_version": "2.0.0",
        "model_name": "q3",
        "model_provider": "hosted_vllm",
        "group_id": hashlib.sha256(text.encode()).hexdigest()[:16],
        "started_at": datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC),
        "finished_at": datetime(2026, 1, 1, 1, tzinfo=UTC),
        "setup_seconds": 12.5,
        "agent_seconds": 60.0,
        "verifier_seconds": None,
        "cost_usd": 1.0,
        "cached_tokens": 2**40,
        "damaged": 0,
    }
    assert found.keys() - {"damaged"} <= {f.name for f in fields(TrialRecord)}


@pytest.mark.parametrize(
    ("task", "task_id"),
    [
        ({"path": "tasks/csv-totals"}, "csv-totals"),
        ({"path": "tasks/csv-totals/"}, "csv-totals"),
        ({"path": "tasks/csv-totals", "name": "org/csv"}, "org/csv"),
        ({"path": "/"}, None),
        ({"path": 5}, None),
        ({}, None),
        (None, None),
        ("csv", None),
    ],
)
def test_without_a_readable_result(task: Any, task_id: str | None) -> None:
    found = columns(None, {**CONFIG, "task": task})
    assert found["task_id"] == task_id
    assert found["trial_name"] == "csv__aaaaaaa"
    assert (found["trial_id"], found["task_checksum"], found["started_at"]) == (None, None, None)
    assert (found["model_provider"], found["model_name"]) == ("hosted_vllm", "qwen/q3")
    assert found["damaged"] == 0


def test_without_result_and_config() -> None:
    found = columns(None, None, job=None)
    assert found["trial_name"] == "dir__1"
    assert found["source"] is None
    assert found["group_id"] == group_id([None] * 7)


def test_the_source_of_an_unreadable_result_is_the_configs() -> None:
    assert columns(None)["source"] == "tb"
    assert columns({**RESULT, "source": None})["source"] is None


def test_a_regrade_names_its_trial() -> None:
    config = {**CONFIG, "source_trial": {"action": "regrade", "trial_id": "old"}}
    assert columns(RESULT, config)["regrade_of"] == "old"


class TestGroup:
    def test_the_job_of_a_trial_without_its_own(self) -> None:
        config = {**CONFIG, "job_id": None}
        assert columns(RESULT, config, "a")["group_id"] != columns(RESULT, config, "b")["group_id"]
        assert columns(RESULT, CONFIG, "a")["group_id"] == columns(RESULT, CONFIG, "b")["group_id"]

    @pytest.mark.parametrize(
        "change", [{"task_name": "x"}, {"source": "x"}, {"task_checksum": "x"}, {"agent_info": {}}]
    )
    def test_what_tells_groups_apart(self, change: dict[str, Any]) -> None:
        assert columns({**RESULT, **change})["group_id"] != columns(RESULT)["group_id"]

    def test_what_does_not(self) -> None:
        change = {"id": "x", "trial_name": "y", "started_at": None, "agent_result": None}
        assert columns({**RESULT, **change})["group_id"] == columns(RESULT)["group_id"]
        agent = {**CONFIG["agent"], "kwargs": {"a": [2.5, None], "b": 1}}
        assert (
            columns(RESULT, {**CONFIG, "agent": agent})["group_id"] == columns(RESULT)["group_id"]
        )

    def test_arguments_nested_too_deep(self) -> None:
        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        assert len(group_id([None] * 6 + [deep])) == 16


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"id": 5}, "trial_id"),
        ({"task_name": ["x"]}, "task_id"),
        ({"source": {}}, "source"),
        ({"started_at": "yesterday"}, "started_at"),
        ({"started_at": 5}, "started_at"),
        ({"started_at": "2026-01-01"}, "started_at"),
        ({"started_at": "20260101"}, "started_at"),
        ({"finished_at": "0001-01-01T00:00:00+14:00"}, "finished_at"),
        ({"agent_execution": "x"}, "agent_seconds"),
        (
            {
                "agent_execution": {
                    "started_at": "2026-01-01T00:02:00Z",
                    "finished_at": "2026-01-01T00:01:00Z",
                }
            },
            "agent_seconds",
        ),
        ({"agent_result": {"cost_usd": "1"}}, "cost_usd"),
        ({"agent_result": {"cost_usd": True}}, "cost_usd"),
        ({"agent_result": {"cost_usd": 10**400}}, "cost_usd"),
        ({"agent_result": {"cost_usd": float("inf")}}, "cost_usd"),
        ({"agent_result": {"n_cache_tokens": 1.5}}, "cached_tokens"),
        ({"agent_result": {"n_cache_tokens": 2**63}}, "cached_tokens"),
    ],
)
def test_a_value_that_no_column_can_hold(change: dict[str, Any], column: str) -> None:
    found = columns({**RESULT, **change})
    assert found[column] is None
    assert found["damaged"] == 1


def phase(start: str, end: str) -> dict[str, Any]:
    return {"agent_execution": {"started_at": start, "finished_at": end}}


@pytest.mark.parametrize(
    ("text", "moment", "naive"),
    [
        ("2025-11-22T10:00:00.682474", datetime(2025, 11, 22, 10, 0, 0, 682474, UTC), True),
        ("2025-11-22 10:00:00.5", datetime(2025, 11, 22, 10, 0, 0, 500_000, UTC), True),
        ("2025-11-22T10:00:00.6824741234", datetime(2025, 11, 22, 10, 0, 0, 682474, UTC), True),
        ("2025-11-22T10:00", datetime(2025, 11, 22, 10, tzinfo=UTC), True),
        ("2025-11-22T10:00:00+05:30", datetime(2025, 11, 22, 4, 30, tzinfo=UTC), False),
        ("2025-11-22 10:00:00-08:00", datetime(2025, 11, 22, 18, tzinfo=UTC), False),
        ("0001-01-01T00:00:00", datetime(1, 1, 1, tzinfo=UTC), True),
    ],
)
def test_a_time_without_a_zone_is_taken_as_utc(text: str, moment: datetime, naive: bool) -> None:
    values = Values()
    assert values.time(text) == moment
    assert (values.naive, values.issues) == (naive, [])


@pytest.mark.parametrize(
    ("start", "end", "seconds", "damaged", "naive"),
    [
        ("2025-11-22T10:00:00.25", "2025-11-22 10:30:00", 1799.75, 0, True),
        ("2025-11-22T10:00:00+05:30", "2025-11-22T04:31:00Z", 60.0, 0, False),
        # Two clocks: no difference of theirs is a length, whatever its sign.
        ("2025-11-22T10:00:00", "2025-11-22T10:30:00Z", None, 0, True),
        ("2025-11-22T10:00:00Z", "2025-11-22T09:30:00", None, 0, True),
        ("2025-11-22T10:00:00", "2025-11-22T09:30:00", None, 1, True),
        ("2025-11-22", "2025-11-22T10:00:00", None, 1, True),
    ],
)
def test_lengths_of_phases(
    start: str, end: str, seconds: float | None, damaged: int, naive: bool
) -> None:
    values = Values()
    assert episode_times(phase(start, end), Times(), values).agent_seconds == seconds
    assert (len(values.issues), values.naive) == (damaged, naive)


def test_a_trial_name_of_another_type() -> None:
    found = columns({**RESULT, "trial_name": 5})
    assert (found["trial_name"], found["damaged"]) == ("csv__aaaaaaa", 1)


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    found = columns({**RESULT, "task_name": "a\ud800"})
    assert found["task_id"] == "a\ufffd"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from([*RESULT, *CONFIG, "kwargs", "name"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(ANY, ANY)
def test_no_content_raises(result: Any, config: Any) -> None:
    found = columns(result, config)
    assert isinstance(found["trial_name"], str)
    assert len(found["group_id"]) == 16


def test_damage_is_an_issue_each_time() -> None:
    values = Values()
    values.text(5)
    values.integer("5")
    values.number(None)
    assert values.issues == [Issue.VALUE_DAMAGED] * 2


@pytest.mark.parametrize("name", [5, "", None])
def test_a_result_without_a_name_leaves_it_to_the_config(name: Any) -> None:
    assert columns({**RESULT, "trial_name": name})["trial_name"] == "csv__aaaaaaa"
    assert columns({**RESULT, "trial_name": name}, {})["trial_name"] == "dir__1"


def test_an_empty_id_is_none() -> None:
    assert columns({**RESULT, "id": ""})["trial_id"] is None
