"""Which recorded arguments are sampling parameters: a list of names, each with the type it has.

Whatever has another name or type is left out, in nested values too, so that no address, header or
key of a caller gets into a record:

    {"tool_choice": {"type": "function", "Authorization": "x"}, "api_key": "y"}   ->
    {"tool_choice": {"type": "function"}}
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from wmo_distill.credentials import is_secret_name, without_credentials

_NOTHING: Any = object()
Check = Callable[[Any], Any]
"""Gives what of a value is kept, `_NOTHING` where that is nothing."""
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_TOKEN_ID = re.compile(r"\d{1,10}")


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _NOTHING


def _flag(value: Any) -> Any:
    return value if isinstance(value, bool) else _NOTHING


def _text(value: Any) -> Any:
    return without_credentials(value) if isinstance(value, str) else _NOTHING


def _name(value: Any) -> Any:
    sound = isinstance(value, str) and _NAME.fullmatch(value) and _text(value) == value
    return value if sound else _NOTHING


def _words(*words: str) -> Check:
    return lambda value: value if isinstance(value, str) and value in words else _NOTHING


def _either(*checks: Check) -> Check:
    def check(value: Any) -> Any:
        found = (kept for one in checks if (kept := one(value)) is not _NOTHING)
        return next(found, _NOTHING)

    return check


def _list(of: Check) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, list):
            return _NOTHING
        return [kept for one in value if (kept := of(one)) is not _NOTHING]

    return check


def _members(**known: Check) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            return _NOTHING
        kept = {name: known[name](one) for name, one in value.items() if name in known}
        return {name: one for name, one in kept.items() if one is not _NOTHING}

    return check


def _named(of: Check, names: re.Pattern[str] = _NAME) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            return _NOTHING
        kept = {name: of(one) for name, one in value.items() if names.fullmatch(name)}
        return {
            name: one
            for name, one in kept.items()
            if one is not _NOTHING and without_credentials(name) == name
        }

    return check


def _template(value: Any) -> Any:
    """Arguments of a chat template: switches and numbers of any name, and a few words."""
    effort = _members(reasoning_effort=_EFFORT, thinking_mode=_EFFORT)
    plain = _named(_either(_flag, _number))(value)
    if plain is _NOTHING:
        return plain
    return {k: v for k, v in plain.items() if not is_secret_name(k)} | effort(value)


def _schema(value: Any) -> Any:
    """A JSON schema: keywords that say what may be written; a property may have any name."""
    return _either(_flag, _members(**_KEYWORDS))(value)


_TYPES = _words("object", "array", "string", "number", "integer", "boolean", "null")
_EFFORT = _words(
    "none", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "on", "off", "think",
    "no_think", "enabled", "disabled",
)  # fmt: skip
_SCALAR = _either(_flag, _number, _text, lambda value: None if value is None else _NOTHING)
_SCHEMAS = _named(_schema, re.compile(r".{0,256}", re.S))
_KEYWORDS: dict[str, Check] = {
    "type": _either(_TYPES, _list(_TYPES)),
    "required": _list(_text),
    "enum": _list(_SCALAR),
    "const": _SCALAR,
    **dict.fromkeys(("title", "description", "pattern", "format", "$ref", "$schema"), _text),
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _SCHEMAS),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _list(_schema)),
    **dict.fromkeys(("items", "not", "additionalProperties"), _schema),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
        "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _number),
    "uniqueItems": _flag,
}  # fmt: skip
_TEXTS = _either(_text, _list(_text))
_JSON = _either(_schema, _text)

CHECKS: dict[str, Check] = {
    **dict.fromkeys(
        ("temperature", "top_p", "top_k", "min_p", "top_a", "typical_p", "tfs", "n", "best_of",
        "seed", "max_tokens", "max_completion_tokens", "min_tokens", "frequency_penalty",
        "presence_penalty", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
        "top_logprobs", "truncate_prompt_tokens", "max_thinking_tokens", "mirostat",
        "mirostat_tau", "mirostat_eta", "dry_multiplier", "dry_base", "xtc_threshold",
        "xtc_probability"), _number),
    **dict.fromkeys(
        ("ignore_eos", "use_beam_search", "skip_special_tokens", "spaces_between_special_tokens",
        "include_stop_str_in_output", "add_generation_prompt", "continue_final_message",
        "enable_thinking", "parallel_tool_calls"), _flag),
    **dict.fromkeys(("logprobs", "prompt_logprobs"), _either(_flag, _number)),
    **dict.fromkeys(("stop_token_ids", "allowed_token_ids"), _list(_number)),
    **dict.fromkeys(("stop", "bad_words", "guided_choice"), _TEXTS),
    **dict.fromkeys(("guided_regex", "guided_grammar"), _text),
    "guided_json": _JSON,
    "logit_bias": _named(_number, _TOKEN_ID),
    "early_stopping": _either(_flag, _words("never")),
    "logprobs_mode": _words(
        "raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits", "raw", "processed"),
    "reasoning_effort": _either(_EFFORT, _number),
    "thinking": _either(
        _flag, _EFFORT,
        _members(type=_words("enabled", "disabled", "adaptive", "auto"), budget_tokens=_number)),
    "tool_choice": _either(
        _words("auto", "none", "required", "any"),
        _members(type=_words("function", "tool", "auto", "any", "none", "required"), name=_name,
            function=_members(name=_name), disable_parallel_tool_use=_flag)),
    "chat_template_kwargs": _template,
    "response_format": _members(
        type=_words("text", "json_object", "json_schema", "grammar", "regex", "structural_tag"),
        json_schema=_members(name=_name, strict=_flag, schema=_schema, description=_text),
        schema=_schema),
    "structured_outputs": _members(
        json=_JSON, regex=_text, choice=_list(_text), grammar=_text, json_object=_flag,
        disable_fallback=_flag, disable_any_whitespace=_flag, whitespace_pattern=_text,
        disable_additional_properties=_flag, structural_tag=_text),
}  # fmt: skip
# What a call of its own may have besides; the row has columns for them.
OF_A_CALL: dict[str, Check] = {
    "logprob_mode": CHECKS["logprobs_mode"],
    "policy_version": _either(_text, _number),
    "train_step": _number,
    "tokenizer": _text,
}


def sampling_arguments(
    recorded: Mapping[str, Any], checks: Mapping[str, Check] = CHECKS
) -> tuple[dict[str, Any], list[str]]:
    """(the sampling parameters among recorded arguments, those that are not as recorded)."""
    kept: dict[str, Any] = {}
    changed = []
    for name, check in checks.items():
        value = recorded.get(name)
        if value is None:
            continue
        try:
            found = check(value)
        except RecursionError:
            found = _NOTHING
        if found is not _NOTHING:
            kept[name] = found
        if found is not value and found != value:
            changed.append(name)
    return kept, changed
