"""Which recorded calls belong to one chat, and which answers the agent went on from.

Decided from the ids alone. A call's parent is the one whose prompt and sampled ids are the longest
start of its prompt; calls that follow each other so are a chain. Two chains are one chat, broken,
if they open with the same first message and the one starts after the other's end:

    prompt 0  S u0 H            first call: the main chat
    prompt 1  S u0 H a0 u1 H    extends call 0
    prompt 2  T v0 H            another first message: a subagent
    prompt 3  S z0 H            as call 0, after the end of its chain: the main chat, rewritten
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from wmo_distill.arrays import NO_IDS, Ids
from wmo_distill.issues import Issue
from wmo_distill.sources.recorded import Call
from wmo_distill.tokenjson.rows import whole_row

_Key = tuple[int, bytes]
"""Length and digest of a run of ids."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Calls by chat, as positions in the list given; each position is in one of the two."""

    chats: tuple[tuple[int, ...], ...] = ()
    """In order of their first calls."""
    superseded: tuple[int, ...] = ()
    """Answers to a prompt that was asked again, which the agent did not go on from."""
    issues: tuple[Issue, ...] = ()


@dataclass(slots=True)
class _Chain:
    """Calls of which each extends the one before; `opening` is its first message."""

    calls: list[int]
    opening: bytes


@dataclass(slots=True)
class _Keys:
    """The digests of one call: of its prompt, of prompt and sampled ids, and of what starts it."""

    prompt: _Key
    sequence: _Key
    starts: dict[_Key, None] = field(default_factory=dict)


def lineage_of(calls: Sequence[Call], header: Ids) -> Lineage:
    """The chats of calls whose lineage no source declares; their prompts were read.

    `header` is what every prompt ends with, see `holes`; without one all calls are one chat.
    """
    keys, openings = _keys(calls, header)
    parents = _parents(keys)
    superseded, unsure = _superseded(calls, keys, parents)
    kept = [i for i in range(len(calls)) if i not in superseded]
    chats, unclear = _chats(_chains(kept, parents, openings))
    return Lineage(
        tuple(chats),
        tuple(sorted(superseded)),
        (*[Issue.AMBIGUOUS_LAST_CALL] * unsure, *[Issue.LINEAGE_UNCLEAR] * unclear),
    )


def answers_of(calls: Sequence[Call]) -> Lineage:
    """The same for the calls of one declared chat: only what was asked twice is decided."""
    passed = any(call.used is False for call in calls)
    if not passed and not any(_same_prompt(a, b) for a, b in pairwise(calls)):
        return Lineage((tuple(range(len(calls))),))
    keys, _ = _keys(calls, NO_IDS)
    superseded, unsure = _superseded(calls, keys, _parents(keys))
    kept = tuple(i for i in range(len(calls)) if i not in superseded)
    issues = (Issue.AMBIGUOUS_LAST_CALL,) * unsure
    return Lineage((kept,), tuple(sorted(superseded)), issues)


def _same_prompt(a: Call, b: Call) -> bool:
    return (
        a.prompt.size == b.prompt.size
        and b.prompt.before is a.prompt
        and b.prompt.shared == b.prompt.size
    )


def _keys(calls: Sequence[Call], header: Ids) -> tuple[list[_Keys], list[bytes]]:
    """The digests of each call, and its first message; one whole prompt at a time."""
    sampled = [whole_row(call.completion) for call in calls]
    sizes = [NO_IDS if ids is None else ids for ids in sampled]
    ends = {call.prompt.size for call in calls}
    ends |= {call.prompt.size + ids.size for call, ids in zip(calls, sizes, strict=True)}
    marks = sorted(ends)
    keys: list[_Keys] = []
    openings: list[bytes] = []
    for call, ids in zip(calls, sizes, strict=True):
        prompt = whole_row(call.prompt)
        assert prompt is not None
        digest = hashlib.blake2b(digest_size=16)
        starts: dict[_Key, None] = {}
        at = 0
        for end in marks:
            if end > prompt.size:
                break
            digest.update(prompt[at:end].tobytes())
            starts[end, digest.digest()] = None
            at = end
        own = next(reversed(starts))
        digest.update(ids.tobytes())
        keys.append(_Keys(own, (own[0] + ids.size, digest.digest()), starts))
        openings.append(_first_message(prompt, header))
    return keys, openings


def _first_message(prompt: Ids, header: Ids) -> bytes:
    """A digest of the prompt up to its second message; all are alike without a header."""
    if not header.size:
        return b""
    opener = prompt[0] if prompt[0] in header else header[0]
    places = np.flatnonzero(prompt == opener)
    # A prompt may open with one id of its own, such as a beginning of text.
    later = places[places > 1]
    end = later[0] if later.size else prompt.size
    return hashlib.blake2b(prompt[:end].tobytes(), digest_size=16).digest()


def _parents(keys: Sequence[_Keys]) -> list[int | None]:
    """For each call the one that it extends; of several alike the last recorded before it."""
    by_end: dict[_Key, list[int]] = {}
    for i, key in enumerate(keys):
        by_end.setdefault(key.sequence, []).append(i)
    parents: list[int | None] = []
    for i, key in enumerate(keys):
        found = None
        for start in reversed(key.starts):
            ending = [
                j
                for j in by_end.get(start, ())
                # What sampled nothing has the end of any other answer to its prompt.
                if j != i and not (start == key.prompt and keys[j].prompt == start)
            ]
            if ending:
                found = max((j for j in ending if j < i), default=ending[-1])
                break
        parents.append(found)
    return parents


def _superseded(
    calls: Sequence[Call], keys: Sequence[_Keys], parents: Sequence[int | None]
) -> tuple[set[int], int]:
    """(answers passed over where a prompt was asked again; prompts of which that is not known)."""
    extended = {parent for parent in parents if parent is not None}
    asked: dict[_Key, list[int]] = {}
    for i, key in enumerate(keys):
        asked.setdefault(key.prompt, []).append(i)
    passed: set[int] = {i for i, call in enumerate(calls) if call.used is False}
    unsure = 0
    for answers in asked.values():
        if len(answers) < 2:
            continue
        used = [i for i in answers if i in extended or calls[i].used]
        if not used:
            # Nothing followed: the last one recorded is the chat's end.
            may_be = [i for i in answers if calls[i].used is not False]
            used = may_be[-1:]
            unsure += len(may_be) > 1
        passed |= set(answers) - set(used)
    return passed - extended, unsure


def _chains(
    kept: Sequence[int], parents: Sequence[int | None], openings: Sequence[bytes]
) -> list[_Chain]:
    """Runs of calls of which each extends the one before, in order of their first calls."""
    chains: list[_Chain] = []
    ends: dict[int, _Chain] = {}
    for i in kept:
        parent = parents[i]
        chain = None if parent is None else ends.pop(parent, None)
        if chain is None:
            chain = _Chain([], openings[i])
            chains.append(chain)
        chain.calls.append(i)
        ends[i] = chain
    return chains


def _chats(chains: Sequence[_Chain]) -> tuple[list[tuple[int, ...]], int]:
    """Chains with one first message that follow each other are one chat, broken.

    Also gives the number of chains of more than one call that overlap another of their kind.
    """
    chats: list[list[int]] = []
    latest: dict[bytes, list[int]] = {}
    unclear = 0
    for chain in chains:
        chat = latest.get(chain.opening)
        if chat is not None and chat[-1] < chain.calls[0]:
            chat += chain.calls
            continue
        unclear += chat is not None and len(chain.calls) > 1
        chats.append(list(chain.calls))
        if chat is None:
            latest[chain.opening] = chats[-1]
    return [tuple(chat) for chat in chats], unclear
