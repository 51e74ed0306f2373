"""Declared values, and the temperature that an agent sent or left to the server."""

from typing import Any

import pytest

from tests.endings.test_sampling import config, sampling_of, terminus
from wmo_distill.declare import COLUMNS, parse_declare
from wmo_distill.errors import UsageError
from wmo_distill.issues import Issue


@pytest.mark.parametrize(
    ("kwargs", "agent", "temperature", "sent", "issues"),
    [
        # Harbor 0.1.45 sends and records 0.7 where the config sets none.
        ({}, terminus(temperature=0.7), 0.7, '{"temperature":0.7}', []),
        ({"temperature": None}, terminus(temperature=0.7), 0.7, '{"temperature":0.7}', []),
        ({"temperature": 1}, terminus(temperature=1.0), 1.0, '{"temperature":1}', []),
        ({"temperature": "0.7"}, terminus(temperature=0.7), 0.7, '{"temperature":0.7}',
         [Issue.SAMPLING_DAMAGED]),
        ({"temperature": 1.0}, terminus(temperature=0.7), 1.0, '{"temperature":1.0}',
         [Issue.SAMPLING_CONFLICT]),
        # The arguments of a call are not the constructor's, and win.
        ({"llm_call_kwargs": {"temperature": 0.3}}, terminus(temperature=0.7), 0.3,
         '{"temperature":0.3}', []),
        ({}, terminus(llm_kwargs={"extra_body": {"top_k": 5}}, temperature=0), 0.0,
         '{"temperature":0,"top_k":5}', []),
        ({}, terminus(temperature="warm"), None, None,
         [Issue.SAMPLING_DAMAGED]),
        # Harbor 0.14 and 0.26 write none where they send none.
        ({}, terminus(), None, '{"temperature":null}', []),
        ({"top_p": 0.9}, terminus(), None, '{"temperature":null,"top_p":0.9}', []),
        # Unknown: no evidence of what ran, another agent, a backend with a default of its own.
        ({}, None, None, None, []),
        ({}, {"name": "terminus-2"}, None, None, []),
        ({}, {**terminus(), "name": "openhands"}, None, None, []),
        ({"llm_backend": "tinker"}, terminus(), None, None, []),
        ({"llm_backend": "litellm"}, terminus(), None, '{"temperature":null}', []),
    ],
)  # fmt: skip
def test_what_a_trajectory_says_of_the_temperature(
    kwargs: dict[str, Any],
    agent: Any,
    temperature: float | None,
    sent: str | None,
    issues: list[Issue],
) -> None:
    sampling, found = sampling_of(config(**kwargs), {}, {}, agent)
    assert (sampling.temperature, sampling.sampling, found) == (temperature, sent, issues)
    assert sampling.temperature_not_sent == ("null" in (sent or ""))


def test_an_unreadable_config_leaves_the_temperature_unknown() -> None:
    for whole in (None, {}, {"agent": 5}, {"agent": {"kwargs": "x"}}):
        assert not sampling_of(whole, {}, {}, terminus())[0].temperature_not_sent


def test_a_temperature_that_varies_was_sent() -> None:
    sampling, _ = sampling_of(config(), {}, {"temperature": (0.6, 1.0)}, terminus())
    assert (sampling.sampling, sampling.temperature_not_sent) == (None, False)


def test_a_temperature_that_was_not_sent_may_be_declared() -> None:
    declared = parse_declare(["temperature=0.6"])
    sampling, issues = sampling_of(config(), declared, {}, terminus())
    assert (sampling.temperature, sampling.declared, issues) == (0.6, ("temperature",), [])
    assert sampling.temperature_not_sent


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


def test_an_unknown_name_is_answered_with_the_names() -> None:
    with pytest.raises(UsageError) as raised:
        parse_declare(["tempo=1"])
    assert all(name in str(raised.value) for name in COLUMNS)


def test_a_name_declared_twice() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_declare(["top_k=1", "top_k=2"])
