"""Credentials are cut out of text, and sampling arguments are kept by name and type."""

import json
from typing import Any

import pytest

from wmo_distill.arguments import CHECKS, sampling_arguments
from wmo_distill.credentials import (
    CUT,
    is_masked,
    json_without_credentials,
    without_credentials,
)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("https://user:word@host/model?step=3", f"https://{CUT}@host/model?step=3"),
        ("postgres://u:p@ss@db:5432/x", f"postgres://{CUT}@db:5432/x"),
        ("https://u:pa/ss1@h/x", f"https://{CUT}@h/x"),
        ("https://token@host/x", f"https://{CUT}@host/x"),
        ("user:pass@host/m", f"{CUT}@host/m"),
        ("s3://b/k?X-Amz-Signature=9f&versionId=2", f"s3://b/k?X-Amz-Signature={CUT}&versionId=2"),
        ("https://h/x?api_key=abc#part", f"https://h/x?api_key={CUT}#part"),
        ("https://h/x?a=1&sig=ab%2Bc", f"https://h/x?a=1&sig={CUT}"),
        ("no key sk-proj-abc123def456ghi789!", f"no key {CUT}!"),
        ("Authorization: Bearer abcdefgh1", f"Authorization: Bearer {CUT}"),
        ("password=hunter2x, again", f"password={CUT}, again"),
        ('{"api_key": "hunter22"}', f'{{"api_key": "{CUT}"}}'),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- x", f"{CUT} x"),
        *(
            (text, text)
            for text in (
                "Qwen/Qwen3-8B", "hosted_vllm/qwen:7b", "org/fix-bug", "tinker://run:train:0/w/1",
                "https://host/a@b", "https://host:8080/x@y", "ubuntu:22.04@sha256:abcd",
                "The password: must be long", "Basic understanding of tokens", "max_tokens=512345",
                "git@github.com:org/repo", "mailto:a@b.c", "step:12@main", "2026-01-01T00:00:00Z",
            )
        ),
    ],
)  # fmt: skip
def test_what_is_cut(text: str, cut: str) -> None:
    assert without_credentials(text) == cut
    assert without_credentials(cut) == cut


@pytest.mark.parametrize(
    ("value", "cut"),
    [
        ({"a": ["https://u:p@h/x"]}, {"a": [f"https://{CUT}@h/x"]}),
        ({"headers": {"X": "y"}, "n": 1}, {"headers": CUT, "n": 1}),
        ({"m": {"token": "x", "is_secret": True}}, {"m": {"token": CUT, "is_secret": True}}),
        ({"sk-proj-abcdefghijk12345678": 1}, {CUT: 1}),
        ({"top": [{"token": "=", "logprob": -1}], "x": {"token": "y"}},
         {"top": [{"token": "=", "logprob": -1}], "x": {"token": CUT}}),
        ({"a": 'say "password": "hunter2x"'}, {"a": f'say "password": "{CUT}"'}),
    ],
)  # fmt: skip
def test_what_is_cut_out_of_json(value: Any, cut: Any) -> None:
    text = json_without_credentials(json.dumps(value, separators=(",", ":")))
    assert json.loads(text or "") == cut


def test_json_without_a_credential_is_the_same_text() -> None:
    text = '{"top_logprobs":[{"token":"a\\"b","logprob":-1.50}],"routed_experts":[[1,2]]}'
    assert json_without_credentials(text) is text


def test_masks() -> None:
    assert all(map(is_masked, ("key [REDACTED] here", "<redacted:key>", "***REDACTED***")))
    assert not any(map(is_masked, ("a redacted text", "[masks]", "x[0] = 1")))


@pytest.mark.parametrize("name", CHECKS)
def test_no_argument_takes_a_credential_along(name: str) -> None:
    hidden = {"Authorization": "S3CRET", "api_key": "S3CRET", "S3CRET x": 1, "password": 7}
    inner = {"type": "json_schema", "json_schema": {"schema": hidden, **hidden}, "regex": hidden}
    for value in (hidden, {**hidden, **inner}, [hidden], {"a": [hidden]}, "Bearer S3CRET9abc"):
        kept, changed = sampling_arguments({name: value, "api_key": "S3CRET"})
        assert "S3CRET" not in json.dumps(kept)
        assert "7" not in json.dumps(kept)
        assert changed == [name]


@pytest.mark.parametrize(
    "value",
    [
        {"chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low", "own": 1}},
        {"tool_choice": {"type": "function", "function": {"name": "run_tests"}}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"logit_bias": {"42": -100}, "stop": ["</s>", "user:"], "stop_token_ids": [1, 2]},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True,
            "schema": {"type": "object", "required": ["api_key"], "additionalProperties": False,
                "properties": {"api_key": {"type": "string", "enum": ["a", None]}}}}}},
        {"structured_outputs": {"choice": ["yes", "no"]}, "guided_regex": "a|b"},
    ],
)  # fmt: skip
def test_sampling_arguments_are_kept(value: dict[str, Any]) -> None:
    assert sampling_arguments(value) == (value, [])
