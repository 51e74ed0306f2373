"""The recorded calls of a session: of its document, of a result's turns, of trace entries.

A document holds the ids of a path through the calls once, as a sequence, and a call's place in it:

    sequence   [ prompt 0 | sampled 0 | tool result | sampled 1 ]     node_ids a, b
    turn a     n_prompt, n_sampled       ids[:n_prompt], ids[n_prompt:n_prompt + n_sampled]
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wmo_distill.arrays import NO_IDS, Ids
from wmo_distill.files import plain_text
from wmo_distill.predicates import finish_reason_of
from wmo_distill.records import SegmentInfo, SegmentKind
from wmo_distill.sources.captured import sampling_by_call
from wmo_distill.sources.evidence import SamplingEvidence
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import object_in
from wmo_distill.tokenjson.rows import (
    DAMAGED_IDS,
    MISSING_IDS,
    MISSING_LOGPROBS,
    IdRow,
    LogprobRow,
    SharedRows,
    id_row,
    logprob_row,
    whole_row,
)

_MAIN = "agent"
_AUXILIARY = "auxiliary"


@dataclass(slots=True)
class Recorded:
    """What one object says of a session's calls."""

    calls: list[Call] = field(default_factory=list)
    lineages: dict[str, SegmentInfo] = field(default_factory=dict)
    sampling: SamplingEvidence = field(default_factory=SamplingEvidence)
    left_out: int = 0
    """Calls that the recorder knows and whose ids it did not write."""
    missed: bool = False
    """Whether one of those is no retry that led nowhere."""


@dataclass(slots=True)
class _Turn:
    """One call as recorded, its numbers read."""

    prompt: IdRow
    completion: IdRow
    logprobs: LogprobRow
    key: str | None
    finish_reason: str | None
    sampling: Mapping[str, Any]
    lineage: str | None = None
    used: bool | None = None


def of_document(document: Mapping[str, Any]) -> Recorded:
    """Every call whose ids the document holds, in order of arrival."""
    found = _ordered(document.get("turns"))
    paths = _Paths.of(document.get("sequences"), found)
    turns: list[_Turn] = []
    left_out, missed = 0, False
    for turn in found:
        node = turn.get("node_id")
        node = node if isinstance(node, str) else None
        if node not in paths.role:
            left_out += 1
            missed |= turn.get("discarded") is not True
            continue
        prompt, completion = paths.ids(node)
        turns.append(
            _Turn(
                prompt,
                completion,
                _logprobs(turn.get("sampled_logprobs"), completion),
                node,
                _text(finish_reason_of(turn.get("finish_reason"))),
                object_in(turn.get("sampling_params")),
                paths.lineage(node, turn.get("root_id")),
                False if turn.get("discarded") is True else None,
            )
        )
    return replace(_recorded(_linked(turns), document, left_out), missed=missed)


def of_result(result: Mapping[str, Any]) -> Recorded:
    """The agent's calls; of the others a result holds the number alone."""
    found = list(_objects(result.get("turns")))
    turns = []
    for turn in found:
        prompt, completion = id_row(turn.get("prompt_token_ids")), _ids(turn, "completion")
        prompt, completion = _held_against(turn.get("loss_mask"), prompt, completion)
        logprobs = _logprobs(turn.get("per_token_logps"), completion)
        if turn.get("trainable") is False and logprobs.values is not None:
            # Refused log-probabilities were replaced by zeros.
            logprobs = logprobs if logprobs.values.any() else MISSING_LOGPROBS
        turns.append(
            _Turn(
                prompt, completion, logprobs,
                _text(turn.get("node_id")),
                _text(finish_reason_of(turn.get("finish_reason"))),
                object_in(turn.get("sampling_params")),
                used=False if turn.get("discarded") is True else None,
            )
        )  # fmt: skip
    counted = result.get("n_turns")
    left_out = counted - len(found) if type(counted) is int and counted < 1 << 20 else 0
    return _recorded(turns, result, max(0, left_out))


def of_entries(answer: Mapping[str, Any]) -> Recorded:
    """The calls that the recorder holds fit to train; a gap in their indices is another call."""
    turns = []
    last = -1
    for entry in _objects(answer.get("entries")):
        about = object_in(entry.get("metadata"))
        prompt, completion = id_row(entry.get("prompt_token_ids")), _ids(entry, "completion")
        prompt, completion = _held_against(entry.get("loss_mask"), prompt, completion)
        index = about.get("index")
        last = max(last, index) if type(index) is int and index < 1 << 20 else last
        response = object_in(entry.get("response")).get("choices")
        choice = next(_objects(response), {})
        turns.append(
            _Turn(
                prompt, completion,
                _logprobs(entry.get("per_token_logps"), completion),
                _text(about.get("node_id")),
                _text(finish_reason_of(choice.get("finish_reason"))),
                object_in(about.get("sampling_params")),
            )
        )  # fmt: skip
    return _recorded(turns, answer, max(0, last + 1 - len(turns)))


@dataclass(slots=True)
class _Paths:
    """The sequences of a document: where the ids of each node are, and whose chat it is in."""

    sequence: dict[str, Ids | None] = field(default_factory=dict)
    """The ids of a path that holds the node, None where they are damaged."""
    role: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many ids each call was given, and how many it sampled."""
    roots: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, sequences: Any, turns: Sequence[Mapping[str, Any]]) -> "_Paths":
        paths = cls()
        for turn in turns:
            sizes = _count(turn.get("n_prompt")), _count(turn.get("n_sampled"))
            if isinstance(turn.get("node_id"), str) and None not in sizes:
                paths.sizes[turn["node_id"]] = (sizes[0] or 0, sizes[1] or 0)
        for sequence in _objects(sequences):
            nodes = sequence.get("node_ids")
            names = [n for n in nodes if isinstance(n, str)] if isinstance(nodes, list) else []
            ids = paths.sound(names, whole_row(id_row(sequence.get("input_ids"))))
            role = sequence.get("role")
            role = role if isinstance(role, str) else _MAIN
            for name in names:
                if paths.sequence.get(name) is None:
                    paths.sequence[name] = ids
                if paths.role.get(name) != _MAIN:
                    paths.role[name] = role
            root = sequence.get("root_id")
            if isinstance(root, str) and paths.roots.get(root) != _MAIN:
                paths.roots[root] = role
        return paths

    def sound(self, names: Sequence[str], ids: Ids | None) -> Ids | None:
        """The ids of a path if its calls follow each other and end with it, else None."""
        end = 0
        for name in names:
            n_prompt, n_sampled = self.sizes.get(name, (-1, 0))
            if n_prompt < end:
                return None
            end = n_prompt + n_sampled
        return ids if ids is not None and ids.size == end else None

    def ids(self, node: str) -> tuple[IdRow, IdRow]:
        """(prompt, completion) of a call."""
        ids = self.sequence[node]
        if ids is None:
            return DAMAGED_IDS, DAMAGED_IDS
        n_prompt, n_sampled = self.sizes[node]
        if not n_prompt + n_sampled:
            return IdRow(0, NO_IDS), MISSING_IDS
        return IdRow(0, ids[:n_prompt]), IdRow(0, ids[n_prompt : n_prompt + n_sampled])

    def lineage(self, node: str, root: Any) -> str | None:
        """The chat of an auxiliary call; the agent's are distinguished by their tokens."""
        role = self.role[node]
        if role not in (_MAIN, _AUXILIARY):
            role = self.roots.get(root, _MAIN) if isinstance(root, str) else _MAIN
        if role != _AUXILIARY:
            return None
        return f"{_AUXILIARY} {root}"


def _recorded(turns: Sequence[_Turn], whole: Mapping[str, Any], left_out: int) -> Recorded:
    """The turns as calls."""
    evaluated = whole.get("rollout_type") == "eval"
    lineages = {_MAIN: SegmentInfo(trainable=False)} if evaluated else {}
    side = SegmentInfo(SegmentKind.SUBAGENT, trainable=False)
    for turn in turns:
        if turn.lineage is not None:
            lineages.setdefault(turn.lineage, side)
    sampling, own = sampling_by_call([turn.sampling for turn in turns])
    calls = [
        Call(
            i,
            turn.prompt,
            turn.completion,
            turn.logprobs,
            finish_reason=turn.finish_reason,
            key=turn.key,
            lineage=turn.lineage or (_MAIN if evaluated else None),
            sampling=own[i],
            used=turn.used,
        )
        for i, turn in enumerate(turns)
    ]
    return Recorded(calls, lineages, sampling, left_out)


def _linked(turns: Sequence[_Turn]) -> list[_Turn]:
    """Each prompt, which shares nothing yet, coded against the one before in its chat."""
    chats: dict[str | None, SharedRows] = {}
    return [
        replace(turn, prompt=chats.setdefault(turn.lineage, SharedRows()).add(turn.prompt))
        for turn in turns
    ]


def _held_against(mask: Any, prompt: IdRow, completion: IdRow) -> tuple[IdRow, IdRow]:
    """Both are damaged where the mask over them has another length."""
    read = prompt.delta is not None and completion.delta is not None
    if read and isinstance(mask, list) and len(mask) != prompt.size + completion.size:
        return DAMAGED_IDS, DAMAGED_IDS
    return prompt, completion


def _ids(turn: Mapping[str, Any], name: str) -> IdRow:
    """Sampled ids; an empty list with an empty prompt means that none were returned."""
    row = id_row(turn.get(f"{name}_token_ids"))
    empty = row.delta is not None and not row.size
    return MISSING_IDS if empty and not turn.get("prompt_token_ids") else row


def _logprobs(value: Any, completion: IdRow) -> LogprobRow:
    """An answer of no tokens has no log-probabilities, which is written as null."""
    if value is None and completion.delta is not None and not completion.size:
        return logprob_row([])
    return logprob_row(value)


def _ordered(turns: Any) -> list[Mapping[str, Any]]:
    """By index of arrival; the order of the list where one is missing or there twice."""
    found = list(_objects(turns))
    indices = [index for turn in found if (index := _count(turn.get("index"))) is not None]
    if len(set(indices)) == len(found):
        found.sort(key=lambda turn: int(turn["index"]))
    return found


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _objects(values: Any) -> Iterator[Mapping[str, Any]]:
    """The elements of a list, an empty object for each that is none."""
    for value in values if isinstance(values, list) else ():
        yield value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return plain_text(value) if isinstance(value, str) and value else None
