"""Events to calls of the model: a `model_request` holds what was asked and what was answered."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wmo_distill.files import plain_text
from wmo_distill.predicates import finish_reason_of
from wmo_distill.sources.captured import sampling_by_call
from wmo_distill.sources.evidence import SamplingEvidence
from wmo_distill.sources.recorded import Call, CallStatus
from wmo_distill.sources.values import moment, object_in
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.reader import RecordReader, Refuse
from wmo_distill.tokenjson.rows import (
    DAMAGED_LOGPROBS,
    IdRow,
    LogprobRow,
    id_row,
    logprob_row,
)
from wmo_distill.tokenjson.skeleton import ListNames

_NAMES = ListNames("prompt_token_ids", "token_ids", "response_log_probs")
_TEXTS = frozenset(("messages", "prompt", "tools", "functions"))
_TOKEN_ID = "token_id:"
_Event = Mapping[str, Any]


def reader(refuse: Refuse) -> RecordReader:
    """For the events of one attempt; a prompt is a row that is linked to the one before."""
    return RecordReader(_NAMES, _holders, refuse)


def _holders(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    about = object_in(event.get("data"))
    response = object_in(about.get("response"))
    choices = response.get("choices")
    yield about
    yield response
    yield from map(object_in, choices if isinstance(choices, list) else ())


def calls_of(
    events: Sequence[_Event], lineage: str | None, extra: bool
) -> tuple[list[Call], SamplingEvidence]:
    """The calls of one attempt in order of their events, one for each answer that was asked for."""
    calls: list[Call] = []
    sampling: list[Mapping[str, Any]] = []
    for event in events:
        about = object_in(event.get("data"))
        for call in _answers(event, about, extra):
            calls.append(call._replace(call_index=len(calls), lineage=lineage))
            sampling.append(_sampling(about))
    evidence, own = sampling_by_call(sampling)
    return [call._replace(sampling=text) for call, text in zip(calls, own, strict=True)], evidence


def _answers(event: _Event, about: Mapping[str, Any], extra: bool) -> Iterator[Call]:
    response = object_in(about.get("response"))
    choices = response.get("choices")
    found = [object_in(choice) for choice in choices] if isinstance(choices, list) else []
    status = about.get("http_status")
    failed = about.get("status") == "error" or (type(status) is int and status >= 400)
    key = response.get("id")
    version = about.get("model_version", object_in(about.get("server")).get("version"))
    experts = about.get("routed_experts")
    for number, choice in enumerate(found or [{}]):
        prompt, completion = _ids(about, response, choice)
        reason = finish_reason_of(choice.get("finish_reason", about.get("finish_reason")))
        yield Call(
            0,
            prompt,
            completion,
            _logprobs(about, choice, completion),
            json_text({"routed_experts": experts}) if extra and experts is not None else None,
            None if reason is None else plain_text(reason),
            key=f"{key}/{number}" if isinstance(key, str) and key else None,
            at=moment(event.get("timestamp")),
            versions=((str(version), 0),) if type(version) is int else None,
            status=CallStatus.FAILED if failed else CallStatus.OK,
        )


def _ids(
    about: Mapping[str, Any], response: Mapping[str, Any], choice: Mapping[str, Any]
) -> tuple[IdRow, IdRow]:
    """(prompt, completion); an answer in the form `triplet` holds them itself."""
    prompt = response.get("prompt_token_ids") or choice.get("prompt_token_ids")
    return (
        id_row(prompt or about.get("prompt_token_ids")),
        id_row(choice.get("token_ids", about.get("response_token_ids"))),
    )


def _logprobs(about: Mapping[str, Any], choice: Mapping[str, Any], ids: IdRow) -> LogprobRow:
    """One for each sampled id; damaged where the recorded tokens are others than sampled."""
    recorded = choice.get("logprobs")
    if recorded is None:
        return logprob_row(about.get("response_log_probs"))
    content = object_in(recorded).get("content")
    if not isinstance(content, list):
        return logprob_row(object_in(recorded).get("token_logprobs"))
    if not all(isinstance(one, dict) for one in content):
        return DAMAGED_LOGPROBS
    tokens = [one.get("token") for one in content]
    if ids.delta is not None and len(tokens) == ids.delta.size:
        for token, sampled in zip(tokens, ids.delta.tolist(), strict=True):
            named = isinstance(token, str) and token.startswith(_TOKEN_ID)
            if named and token != f"{_TOKEN_ID}{sampled}":
                return DAMAGED_LOGPROBS
    return logprob_row([one.get("logprob") for one in content])


def _sampling(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was asked for, as the gateway sent it; the version is the trainer's step."""
    asked = {**object_in(about.get("request")), **object_in(about.get("adjusted_params"))}
    version = about.get("model_version")
    step = {"train_step": version} if type(version) is int else {}
    return {**{k: v for k, v in asked.items() if k not in _TEXTS}, **step}
