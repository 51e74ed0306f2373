"""The recorded calls of a trace: a call for each sampled node, with all that is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.sources.captured import columns_of, distinct, own_sampling
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import Values
from wmo_distill.sources.verifiers.chats import MAIN, Chats
from wmo_distill.sources.verifiers.graph import Graph, Node
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.rows import DAMAGED_IDS, MISSING_IDS, IdRow

_EXTRA = (
    "advantages", "reference_logprobs", "trainer_logprobs", "entropies", "loss_weights", "message",
)  # fmt: skip
_TENSORS = (
    "routed_experts", "kept_tokens", "sampling_mask", "top_logprobs", "multi_modal_data",
)  # fmt: skip
_OWN = ("finish_reason", "usage")
_DIGITS = 4


@dataclass(slots=True)
class Recorded:
    """The calls of a trace in order, and the account of those that no list of ours can hold."""

    calls: list[Call] = field(default_factory=list)
    unplaced: int = 0
    """Calls of which nobody can tell where the prompt ends."""
    issues: list[Issue] = field(default_factory=list)
    compactions: list[int] = field(default_factory=list)
    in_calls: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """The distinct sampling values of the main chat."""


def entries_by_node(
    recorded: Any, nodes: Sequence[Node], values: Values
) -> dict[int, dict[str, Any]]:
    """What `calls` adds to each node; attempts that committed nothing are left out.

    Before there were `calls` (0.2.0), a sampled node said this of itself.
    """
    if recorded is None:
        own = {i: {name: node.record.get(name) for name in _OWN} for i, node in enumerate(nodes)}
        return {i: entry for i, entry in own.items() if nodes[i].sampled and any(entry.values())}
    entries: dict[int, dict[str, Any]] = {}
    for entry in recorded if isinstance(recorded, list) else ():
        node = entry.get("node") if isinstance(entry, dict) else False
        if node is None:
            continue
        if type(node) is int and 0 <= node < len(nodes):
            entries[node] = entry
        else:
            values.issues.append(Issue.VALUE_DAMAGED)
    return entries


def flat_sampling(recorded: Any) -> dict[str, Any]:
    """Sampling arguments, those of an `extra_body` over the others; null is not recorded."""
    if not isinstance(recorded, dict):
        return {}
    inner = recorded.get("extra_body")
    merged = {**recorded, **(inner if isinstance(inner, dict) else {})}
    return {name: value for name, value in merged.items() if value is not None}


def recorded_calls(
    graph: Graph, chats: Chats, entries: Mapping[int, dict[str, Any]], *, extra: bool
) -> Recorded:
    """A call for each sampled node, in order of the nodes."""
    found = Recorded()
    asked = {i: flat_sampling(entry.get("sampling")) for i, entry in entries.items()}
    found.in_calls = distinct(columns_of(asked[i]) for i in chats.main if i in asked)
    prompts = _prompts(graph, chats)
    places: dict[str, int] = {}
    for i, chat in chats.of.items():
        node, entry = graph.nodes[i], entries.get(i, {})
        place = places.get(chat, 0)
        places[chat] = place + 1
        if i in chats.compactions and chat == MAIN:
            found.compactions.append(place)
        if node.k is None and graph.has_tokens and not graph.broken[i]:
            found.unplaced += 1
            continue
        prompt, completion = MISSING_IDS, MISSING_IDS
        if graph.has_tokens and graph.broken[i]:
            prompt = completion = DAMAGED_IDS
        elif graph.has_tokens:
            prompt = prompts[i]
            if node.ids is not None and node.ids.size:
                completion = graph.completion(i)
        reason = entry.get("finish_reason")
        found.calls.append(
            Call(
                place,
                prompt,
                completion,
                node.logprobs,
                extra=_extra(node, entry) if extra else None,
                finish_reason=plain_text(reason) if isinstance(reason, str) else None,
                lineage=chat,
                versions=_versions(node, found.issues),
                sampling=own_sampling(asked.get(i, {}), found.in_calls),
                used=True if i in chats.siblings else None,
            )
        )
    if any(node.record.get(name) is not None for node in graph.nodes for name in _TENSORS):
        found.issues.append(Issue.TENSOR_NOT_READABLE)
    if is_rounded(found.calls):
        found.issues.append(Issue.LOGPROBS_ROUNDED)
    return found


def _prompts(graph: Graph, chats: Chats) -> dict[int, IdRow]:
    """The prompt of each sampled node that has one, coded against the one before in its chat."""
    prompts: dict[int, IdRow] = {}
    before: dict[str, tuple[int, IdRow]] = {}
    for i, chat in chats.of.items():
        if graph.has_tokens and graph.nodes[i].k is not None and not graph.broken[i]:
            prompts[i] = graph.prompt(i, *before.get(chat, (None, None)))
            before[chat] = i, prompts[i]
    return prompts


def is_rounded(calls: Sequence[Call]) -> bool:
    """Whether all log-probabilities of a trace, and not only zeros, have four decimals at most."""
    seen = False
    for call in calls:
        values = call.logprobs.values
        if values is not None and values.size:
            values = values[np.isfinite(values)]
            if (np.round(values, _DIGITS) != values).any():
                return False
            seen = seen or bool(values.any())
    return seen


def _extra(node: Node, entry: Mapping[str, Any]) -> str | None:
    around = {name: node.record[name] for name in _EXTRA if node.record.get(name) is not None}
    if entry.get("usage") is not None:
        around["usage"] = entry["usage"]
    return json_text(around) if around else None


def _versions(node: Node, issues: list[Issue]) -> tuple[tuple[str, int], ...] | None:
    """Runs of one version from the first sampled id to the last; any gap leaves it unknown."""
    spans = node.record.get("weight_versions")
    if spans is None or not node.k:
        return None
    runs: list[tuple[str, int]] = []
    end = 0
    for span in spans if isinstance(spans, list) else [None]:
        version, start, stop = (
            (span.get("version"), span.get("start"), span.get("end"))
            if isinstance(span, dict)
            else (None, None, None)
        )
        if not isinstance(version, str) or start != end or type(stop) is not int or stop <= end:
            break
        if not runs or runs[-1][0] != plain_text(version):
            runs.append((plain_text(version), end))
        end = stop
    if runs and end == node.k:
        return tuple(runs)
    issues += [Issue.VALUE_DAMAGED] * (spans != [])
    return None
