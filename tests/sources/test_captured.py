"""Which sampling values of an episode's calls are equal, and what a call says of its own."""

import json
import math

from wmo_distill.sources.captured import distinct, own_sampling, sampling_by_call


def test_which_values_are_equal() -> None:
    calls = [{"x": x} for x in (1, 1.0, True, "1", None, math.nan, [1], [1], [2])]
    assert distinct(calls) == {"x": (1, True, "1", [1], [2])}
    assert distinct([{"x": math.inf}]) == {"x": (math.inf,)}, "damage is for the caller to count"


def test_a_call_says_what_others_have_otherwise() -> None:
    asked = [{"temperature": 1, "top_p": 0.5}, {"temperature": 1.0, "top_p": 0.9, "seed": 3}, {}]
    evidence, own = sampling_by_call(asked)
    assert evidence.asked == {"temperature": 1, "seed": 3}
    assert evidence.in_calls == {"temperature": (1,), "top_p": (0.5, 0.9)}
    assert [None if text is None else json.loads(text) for text in own] == [
        {"top_p": 0.5},
        {"top_p": 0.9},
        None,
    ]


def test_a_policy_version_is_kept_with_the_ids() -> None:
    values = {"policy_version": ("a", "b"), "top_k": (1, 2)}
    assert own_sampling({"policy_version": "a", "top_k": 1}, values) == '{"top_k":1}'
