"""How the tokens were sampled: recorded in the trial's config or its sink, or declared."""

import json
from collections.abc import Mapping
from typing import Any

from wmo_distill.declare import COLUMNS
from wmo_distill.issues import Issue
from wmo_distill.records import LogprobMode, Sampling
from wmo_distill.trials.values import INT32, INT64, Values, at

# What an OpenAI-compatible server takes to decide on tokens; addresses and keys are not here.
PARAMETERS = frozenset(
    (
        "temperature", "top_p", "top_k", "min_p", "top_a", "typical_p", "tfs", "n", "best_of",
        "seed", "stop", "stop_token_ids", "max_tokens", "max_completion_tokens", "min_tokens",
        "frequency_penalty", "presence_penalty", "repetition_penalty", "length_penalty",
        "no_repeat_ngram_size", "logit_bias", "bad_words", "allowed_token_ids", "ignore_eos",
        "use_beam_search", "early_stopping", "logprobs", "top_logprobs", "prompt_logprobs",
        "logprobs_mode", "truncate_prompt_tokens", "skip_special_tokens",
        "spaces_between_special_tokens", "include_stop_str_in_output", "add_generation_prompt",
        "continue_final_message", "chat_template_kwargs", "response_format", "guided_json",
        "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "reasoning_effort",
        "max_thinking_tokens", "thinking", "enable_thinking", "parallel_tool_calls", "tool_choice",
        "mirostat", "mirostat_tau", "mirostat_eta", "dry_multiplier", "dry_base", "xtc_threshold",
        "xtc_probability",
    )
)  # fmt: skip

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_NUMBERS = ("temperature", "top_p")
_INTEGERS = {"top_k": INT32, "train_step": INT64}
_RAW_MODES = {"raw_logprobs": "raw", "processed_logprobs": "processed"}


def sampling_of(
    config: Any, declared: Mapping[str, Any], recorded_in_sink: Mapping[str, Any]
) -> tuple[Sampling, list[Issue]]:
    """What is recorded, else what is declared, else null; a difference of the two is an issue.

    `declared` is of `parse_declare`; `recorded_in_sink` wins over the config, also where it holds
    None. `Sampling.declared` names the values that were taken from `declared`.
    """
    arguments = _arguments(config)
    recorded = {k: v for k, v in arguments.items() if k in COLUMNS}
    if "logprob_mode" not in recorded and "logprobs_mode" in arguments:
        recorded["logprob_mode"] = _RAW_MODES.get(str(arguments["logprobs_mode"]))
    recorded.update(recorded_in_sink)
    values = Values()
    typed = {name: _typed(name, recorded.get(name), values) for name in COLUMNS}
    arguments |= recorded_in_sink
    sent, unsound = _text({k: v for k, v in arguments.items() if k in PARAMETERS and v is not None})
    issues = [Issue.SAMPLING_DAMAGED] * (len(values.issues) + unsound)
    used: list[str] = []
    for name, value in declared.items():
        if typed[name] is None:
            typed[name] = value
            used.append(name)
        elif typed[name] != value:
            issues.append(Issue.DECLARED_CONFLICT)
    mode = typed.pop("logprob_mode")
    return (
        Sampling(
            **typed,
            logprob_mode=LogprobMode(mode) if mode else LogprobMode.UNKNOWN,
            declared=tuple(sorted(used)),
            sampling=sent,
        ),
        issues,
    )


def _arguments(config: Any) -> dict[str, Any]:
    """All recorded arguments; what stands later wins, an extra_body over its parent."""
    kwargs = at(config, "agent", "kwargs")
    merged: dict[str, Any] = {}
    for place in (kwargs, at(kwargs, "llm_kwargs"), at(kwargs, "llm_call_kwargs")):
        for holder in (place, at(place, "extra_body")):
            if isinstance(holder, dict):
                merged.update({k: v for k, v in holder.items() if v is not None})
    return merged


def _typed(name: str, value: Any, values: Values) -> Any:
    if name in _NUMBERS:
        return values.number(value)
    if name in _INTEGERS:
        return values.integer(value, _INTEGERS[name])
    if name == "policy_version" and type(value) is int:
        return str(value)
    text = values.text(value)
    if name != "logprob_mode":
        return text
    if text is not None and text not in list(LogprobMode):
        values.issues.append(Issue.VALUE_DAMAGED)
        return None
    # "unknown" is what no record means: a declared mode may replace it.
    return None if text == LogprobMode.UNKNOWN else text


def _text(arguments: Mapping[str, Any]) -> tuple[str | None, int]:
    """(the arguments as JSON with sorted keys, how many JSON cannot hold and were left out)."""
    sound = []
    for name in sorted(arguments):
        try:
            sound.append(_encode({name: arguments[name]})[1:-1])
        except (ValueError, RecursionError):
            continue
    text = ",".join(sound)
    return f"{{{text}}}" if sound else None, len(arguments) - len(sound)
