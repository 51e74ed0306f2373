"""How the tokens were sampled: recorded first, declared otherwise, else null."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.declare import COLUMNS, parse_declare
from wmo_distill.errors import UsageError
from wmo_distill.issues import Issue
from wmo_distill.records import LogprobMode, Sampling
from wmo_distill.trials.sampling import PARAMETERS, sampling_of

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


def config(**kwargs: Any) -> dict[str, Any]:
    return {"agent": {"kwargs": kwargs}}


def read(kwargs: dict[str, Any], declare: Any = None, sink: Any = None) -> Sampling:
    sampling, issues = sampling_of(config(**kwargs), declare or {}, sink or {})
    assert issues == []
    return sampling


@given(ANY, ANY)
def test_no_config_raises(value: Any, sink: Any) -> None:
    recorded = {k: v for k, v in sink.items() if k in COLUMNS} if isinstance(sink, dict) else {}
    for whole in (value, config(extra_body=value), {"agent": {"kwargs": value}}):
        sampling, issues = sampling_of(whole, {"temperature": 0.5}, recorded)
        assert sampling.temperature is not None
        assert set(issues) <= {Issue.SAMPLING_DAMAGED, Issue.DECLARED_CONFLICT}
        sent = json.loads(sampling.sampling or "{}", parse_constant=pytest.fail)
        assert set(sent) <= PARAMETERS


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


def test_declared_values_have_their_types() -> None:
    declared = parse_declare(
        ["temperature=1", "top_p=1", "top_k=-1", "policy_version=17", "tokenizer=a=b"]
    )
    assert declared == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "policy_version": "17",
        "tokenizer": "a=b",
    }
    assert {name: type(value) for name, value in declared.items()} == {
        "temperature": float,
        "top_p": float,
        "top_k": int,
        "policy_version": str,
        "tokenizer": str,
    }


@pytest.mark.parametrize(
    "item",
    [
        "temperature", "tempo=1", "=1", "", "temperature=", "temperature=hot", "temperature=nan",
        "temperature=inf", "temperature=-1", "top_p=0", "top_p=1.1", "top_k=1.5",
        "top_k=9999999999", "train_step=x", "logprob_mode=cooked", "tokenizer=",
    ],
)  # fmt: skip
def test_a_wrong_declaration(item: str) -> None:
    with pytest.raises(UsageError, match="--declare") as raised:
        parse_declare([item])
    assert "expected" in str(raised.value)
    assert "found" in str(raised.value)


def test_an_unknown_name_is_told_the_names() -> None:
    with pytest.raises(UsageError) as raised:
        parse_declare(["tempo=1"])
    assert all(name in str(raised.value) for name in COLUMNS)


def test_a_name_declared_twice() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_declare(["top_k=1", "top_k=2"])
