"""How the tokens were sampled: recorded in sink, config or trajectory, or declared."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wmo_distill.arguments import sampling_arguments
from wmo_distill.declare import COLUMNS
from wmo_distill.issues import Issue
from wmo_distill.records import LogprobMode, Sampling
from wmo_distill.sources.evidence import SamplingEvidence
from wmo_distill.sources.values import INT32, INT64, Values
from wmo_distill.tokens import TokenSpan

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_NUMBERS = ("temperature", "top_p")
_INTEGERS = {"top_k": INT32, "train_step": INT64}
# vLLM's `logprobs_mode`; with logits for values there is a mode, and it is neither of ours.
_LOGITS = "logits"
_SERVER_MODES = {
    "raw_logprobs": "raw",
    "processed_logprobs": "processed",
    "raw_logits": _LOGITS,
    "processed_logits": _LOGITS,
}


def sampling_of(
    evidence: SamplingEvidence, declared: Mapping[str, Any], spans: Sequence[TokenSpan] = ()
) -> tuple[Sampling, list[Issue]]:
    """How an episode was sampled, as the first record with a sound value says, else as declared.

    The records in order: the distinct values of its calls; what the configuration sends; what the
    agent reports. `spans` record versions of their own, which count with these. A damaged value is
    an issue and says nothing. A value that varies between calls is recorded, so None stays None:
    `{"top_k": [20, 40]}` gives top_k None with SAMPLING_VARIES, and DECLARED_CONFLICT if top_k is
    declared. `declared` is of `parse_declare`; `Sampling.declared` names the values that were
    taken from it.
    """
    asked, ran = evidence.asked, evidence.ran
    sent = {**ran, **asked}
    typed: dict[str, Any] = {}
    issues: list[Issue] = []
    varying: set[str] = set()
    versions: tuple[str, ...] = ()
    for name in COLUMNS:
        records = [evidence.in_calls.get(name, ()), *_recorded(name, asked), *_recorded(name, ran)]
        sound, found = _first_sound(name, records)
        issues += found
        if len(sound) > 1:
            varying.add(name)
            issues.append(Issue.SAMPLING_VARIES)
        typed[name] = next(iter(sound), None) if name not in varying else None
        if sound:
            sent[name] = None if name in varying else sound[typed[name]]
            if name == "policy_version":
                versions = tuple(sound)
        elif records[0]:
            sent.setdefault(name, records[0][0])
    called, whole = _call_versions(spans)
    if called and "policy_version" not in varying:
        versions = tuple(dict.fromkeys((*called, *versions)))
        if len(versions) > 1:
            varying.add("policy_version")
            issues.append(Issue.SAMPLING_VARIES)
            typed["policy_version"] = None
        elif whole:
            typed["policy_version"] = versions[0]
    issues += _conflicts(evidence.built, ran)
    used: list[str] = []
    for name, value in declared.items():
        # Where some calls alone record the one version, the row has none.
        recorded = versions if name == "policy_version" else ()
        differs = typed[name] not in (None, value) or recorded not in ((), (value,))
        if name in varying or differs:
            issues.append(Issue.DECLARED_CONFLICT)
        elif typed[name] is None:
            typed[name] = value
            used.append(name)
    parameters, changed = sampling_arguments(sent)
    if "temperature" not in sent and evidence.no_temperature:
        parameters["temperature"] = None
    text, unsound = _text(parameters)
    issues += [Issue.SAMPLING_DAMAGED] * unsound
    # A column of the wrong type is damaged already.
    issues += [Issue.SAMPLING_LEFT_OUT] * len(set(changed) - {*COLUMNS, "logprobs_mode"})
    mode = typed.pop("logprob_mode")
    return (
        Sampling(
            **typed,
            policy_versions=versions,
            logprob_mode=LogprobMode(mode) if mode in list(LogprobMode) else LogprobMode.UNKNOWN,
            declared=tuple(sorted(used)),
            sampling=text,
        ),
        issues,
    )


def _call_versions(spans: Sequence[TokenSpan]) -> tuple[tuple[str, ...], bool]:
    """(the versions that calls with sampled ids record, in order; whether all of them do)."""
    sampling = [span for span in spans if span.sampled.size]
    found = dict.fromkeys(version for span in sampling for version, _ in span.versions or ())
    return tuple(found), all(span.versions for span in sampling)


def _recorded(name: str, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """What arguments record under a column's name; vLLM has one of its own for the mode."""
    records = [(arguments[name],)] if name in arguments else []
    if name == "logprob_mode" and "logprobs_mode" in arguments:
        records.append((arguments["logprobs_mode"],))
    return records


def _first_sound(name: str, records: Iterable[Sequence[Any]]) -> tuple[dict[Any, Any], list[Issue]]:
    """(the sound values of the first record that has any, each with its raw form; issues)."""
    values = Values()
    sound: dict[Any, Any] = {}
    for record in records:
        for raw in record:
            value = _typed(name, raw, values)
            if value is not None:
                sound.setdefault(value, raw)
        if sound:
            break
    damaged = {Issue.VALUE_DAMAGED: Issue.SAMPLING_DAMAGED}
    return sound, [damaged.get(issue, issue) for issue in values.issues]


def _conflicts(built: Mapping[str, object], ran: Mapping[str, object]) -> list[Issue]:
    """An issue for each value that the agent was made with, and did not run with."""
    issues = []
    for name in COLUMNS:
        asked, used = (_first_sound(name, _recorded(name, found))[0] for found in (built, ran))
        if asked and used and asked.keys() != used.keys():
            issues.append(Issue.SAMPLING_CONFLICT)
    return issues


def _typed(name: str, value: Any, values: Values) -> Any:
    """A value as its column holds it; None for one that says nothing."""
    if name in _NUMBERS:
        return values.number(value)
    if name in _INTEGERS:
        return values.integer(value, _INTEGERS[name])
    if name == "policy_version" and type(value) is int:
        return str(value)
    text = values.text(value) or None
    if name != "logprob_mode" or text is None:
        return values.without_credentials(text)
    text = _SERVER_MODES.get(text, text)
    if text not in (*LogprobMode, _LOGITS):
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
