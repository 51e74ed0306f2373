"""How the tokens were sampled: recorded first, declared otherwise, else null."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.arguments import CHECKS
from wmo_distill.declare import COLUMNS, parse_declare
from wmo_distill.issues import Issue
from wmo_distill.records import LogprobMode, Sampling
from wmo_distill.sources.harbor.arguments import sampling_evidence
from wmo_distill.trials import sampling as decided

PLACES = [
    ("extra_body",),
    ("llm_kwargs",),
    ("llm_kwargs", "extra_body"),
    ("llm_call_kwargs",),
    ("llm_call_kwargs", "extra_body"),
]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["agent", "kwargs", "llm_kwargs", "extra_body", *COLUMNS, "stop"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


GOOD: dict[str, Any] = {
    "temperature": 0.0,
    "top_p": 0.9,
    "top_k": 0,
    "logprob_mode": "raw",
    "policy_version": "7",
    "train_step": 0,
    "tokenizer": "qwen",
}


OTHER: dict[str, Any] = {
    "temperature": 0.6,
    "top_p": 1.0,
    "top_k": -1,
    "logprob_mode": "processed",
    "policy_version": 8,
    "train_step": 1,
    "tokenizer": "glm",
}


def sampling_of(
    config: Any, declared: Mapping[str, Any], in_sink: Any, agent: Any = None
) -> tuple[Sampling, list[Issue]]:
    return decided.sampling_of(sampling_evidence(config, in_sink, agent), declared)


def config(**kwargs: Any) -> dict[str, Any]:
    return {"agent": {"kwargs": kwargs}}


def read(kwargs: dict[str, Any], declare: Any = None, sink: Any = None) -> Sampling:
    lines = {name: (value,) for name, value in (sink or {}).items()}
    sampling, issues = sampling_of(config(**kwargs), declare or {}, lines)
    assert issues == []
    return sampling


@given(ANY, st.dictionaries(st.sampled_from(COLUMNS), st.lists(ANY, max_size=3)), ANY)
def test_no_config_raises(value: Any, sink: Any, agent: Any) -> None:
    for whole, ran in (
        (value, agent),
        (config(extra_body=value), {"extra": agent}),
        ({"agent": {"kwargs": value}}, {"name": "terminus-2", "extra": agent}),
    ):
        sampling, issues = sampling_of(whole, {"temperature": 0.5}, sink, ran)
        varies = Issue.SAMPLING_VARIES in issues
        assert sampling.temperature is not None or varies
        assert set(issues) <= {
            Issue.SAMPLING_DAMAGED,
            Issue.SAMPLING_LEFT_OUT,
            Issue.CREDENTIAL_CUT,
            Issue.SAMPLING_VARIES,
            Issue.SAMPLING_CONFLICT,
            Issue.DECLARED_CONFLICT,
        }
        sent = json.loads(sampling.sampling or "{}", parse_constant=pytest.fail)
        assert set(sent) <= CHECKS.keys()


@given(st.lists(st.none() | st.floats(0, 2), min_size=6, max_size=6))
def test_the_last_place_that_records_a_value_wins(values: list[float | None]) -> None:
    kwargs: dict[str, Any] = {"temperature": values[0]}
    for place, value in zip(PLACES, values[1:], strict=True):
        holder = kwargs
        for key in place:
            holder = holder.setdefault(key, {})
        holder["temperature"] = value
    expected = next((value for value in reversed(values) if value is not None), None)
    assert read(kwargs).temperature == expected
    assert read(kwargs, sink={"temperature": 9.0}).temperature == 9.0


def test_nothing_recorded_is_null() -> None:
    assert read({}) == Sampling()
    assert sampling_of(None, {}, {}) == (Sampling(), [])


def test_only_sampling_arguments_are_kept() -> None:
    sampling = read(
        {
            "api_base": "http://10.0.0.1/v1",
            "api_key": "secret",
            "max_turns": 5,
            "model_info": {"max_input_tokens": 9},
            "temperature": 1,
            "llm_call_kwargs": {
                "headers": {"Authorization": "secret"},
                "top_p": 0.9,
                "extra_body": {"top_k": 20, "return_token_ids": True, "min_p": 0.1},
            },
        }
    )
    assert sampling.sampling == '{"min_p":0.1,"temperature":1,"top_k":20,"top_p":0.9}'
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 0.9, 20)


@pytest.mark.parametrize(
    ("kwargs", "mode"),
    [
        ({}, LogprobMode.UNKNOWN),
        ({"logprob_mode": "raw"}, LogprobMode.RAW),
        ({"llm_kwargs": {"logprobs_mode": "raw_logprobs"}}, LogprobMode.RAW),
        ({"llm_kwargs": {"logprobs_mode": "processed_logprobs"}}, LogprobMode.PROCESSED),
        ({"llm_kwargs": {"logprobs_mode": "raw_logits"}}, LogprobMode.UNKNOWN),
    ],
)
def test_the_mode_of_the_log_probabilities(kwargs: dict[str, Any], mode: LogprobMode) -> None:
    assert read(kwargs).logprob_mode is mode


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "0.7"),
        ("temperature", True),
        ("temperature", float("nan")),
        ("temperature", [1]),
        ("top_k", 2.0),
        ("top_k", 2**31),
        ("train_step", "3"),
        ("tokenizer", 5),
        ("policy_version", 1.5),
        ("logprob_mode", "cooked"),
    ],
)
def test_a_damaged_value_is_null_and_may_be_declared(name: str, value: Any) -> None:
    sampling, issues = sampling_of(config(**{name: value}), {}, {})
    assert set(issues) == {Issue.SAMPLING_DAMAGED}
    assert getattr(sampling, name) in (None, LogprobMode.UNKNOWN)
    declared = parse_declare([f"{name}={GOOD[name]}"])
    for where in ((config(**{name: value}), {}), ({}, {name: (value,)})):
        sampling, issues = sampling_of(where[0], declared, where[1])
        assert set(issues) == {Issue.SAMPLING_DAMAGED}, "the damage stays said"
        assert getattr(sampling, name) == declared[name]
        assert sampling.declared == (name,)


def test_what_json_cannot_hold_is_left_out() -> None:
    sampling, issues = sampling_of(config(min_p=float("nan"), top_p=0.9), {}, {})
    assert sampling.sampling == '{"top_p":0.9}'
    assert issues == [Issue.SAMPLING_DAMAGED]


def test_a_policy_version_may_be_counted() -> None:
    assert read({"policy_version": 17}).policy_version == "17"


def test_recorded_wins_over_declared() -> None:
    declared = parse_declare(["temperature=0.5", "top_p=0.9", "logprob_mode=raw", "train_step=7"])
    sampling, issues = sampling_of(config(temperature=1.0, top_p=0.9), declared, {})
    assert issues == [Issue.DECLARED_CONFLICT]
    assert (sampling.temperature, sampling.top_p, sampling.train_step) == (1.0, 0.9, 7)
    assert sampling.logprob_mode is LogprobMode.RAW
    assert sampling.declared == ("logprob_mode", "train_step")


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("declared", [GOOD, OTHER])
def test_a_value_that_varies_is_not_declared_over(name: str, declared: dict[str, Any]) -> None:
    """Whatever the config says, and though one of the two values is the declared one."""
    for kwargs in ({}, {name: GOOD[name]}):
        lines = {name: (GOOD[name], OTHER[name])}
        wanted = parse_declare([f"{name}={declared[name]}"])
        sampling, issues = sampling_of(config(**kwargs), wanted, lines)
        assert sorted(issues) == [Issue.DECLARED_CONFLICT, Issue.SAMPLING_VARIES]
        assert getattr(sampling, name) in (None, LogprobMode.UNKNOWN)
        assert (sampling.declared, sampling.sampling) == ((), None)


@pytest.mark.parametrize(
    ("name", "lines", "value", "damaged"),
    [
        ("temperature", (1, 1.0), 1.0, 0),
        ("temperature", (True, 0.6), 0.6, 1),
        ("temperature", ("hot", 0.6, [1]), 0.6, 2),
        ("policy_version", (7, "7"), "7", 0),
        ("policy_version", ("", "7"), "7", 0),
        ("tokenizer", ("",), None, 0),
        ("logprob_mode", ("unknown", "raw"), LogprobMode.RAW, 0),
        ("logprob_mode", ("unknown",), LogprobMode.UNKNOWN, 0),
        ("logprob_mode", ("cooked",), LogprobMode.UNKNOWN, 1),
        ("train_step", (0,), 0, 0),
        ("top_k", (0, -1), None, 0),
    ],
)
def test_what_the_lines_of_a_sink_agree_on(
    name: str, lines: tuple[Any, ...], value: Any, damaged: int
) -> None:
    sampling, issues = sampling_of({}, {}, {name: lines})
    assert getattr(sampling, name) == value
    assert issues.count(Issue.SAMPLING_DAMAGED) == damaged
    assert (Issue.SAMPLING_VARIES in issues) == (name == "top_k")


def test_a_damaged_sink_leaves_it_to_the_config() -> None:
    sampling, issues = sampling_of(config(temperature=0.7), {}, {"temperature": ("hot",)})
    assert (sampling.temperature, issues) == (0.7, [Issue.SAMPLING_DAMAGED])
    assert sampling.sampling == '{"temperature":0.7}'


def test_logits_are_recorded_and_are_no_mode_to_declare() -> None:
    declared = parse_declare(["logprob_mode=raw"])
    logits = config(llm_kwargs={"logprobs_mode": "raw_logits"})
    sampling, issues = sampling_of(logits, declared, {})
    assert sampling.logprob_mode is LogprobMode.UNKNOWN
    assert (sampling.declared, issues) == ((), [Issue.DECLARED_CONFLICT])
    sampling, issues = sampling_of(config(logprobs_mode="cooked"), declared, {})
    assert (sampling.logprob_mode, issues) == (LogprobMode.RAW, [Issue.SAMPLING_DAMAGED])


def terminus(**extra: Any) -> dict[str, Any]:
    return {"name": "terminus-2", "version": "2.0.0", "extra": {"parser": "json", **extra}}
