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
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wmo_distill.arrays import Ids
from wmo_distill.issues import Issue
from wmo_distill.sources.recorded import Call
from wmo_distill.tokenjson.rows import whole_row, whole_rows
from wmo_distill.tokenjson.tree import ROOT, IdTree


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


@dataclass(frozen=True, slots=True)
class _Places:
    """Where in a tree of ids the prompt of each call ends, and where its prompt and answer do."""

    tree: IdTree
    prompts: list[int]
    sequences: list[int]

    @classmethod
    def of(cls, calls: Sequence[Call]) -> "_Places":
        tree = IdTree()
        prompts = [tree.add(call.prompt) for call in calls]
        answers = (whole_row(call.completion) for call in calls)
        ends = [
            node if ids is None else tree.walk(node, ids)
            for node, ids in zip(prompts, answers, strict=True)
        ]
        return cls(tree, prompts, ends)


def lineage_of(calls: Sequence[Call], header: Ids) -> Lineage:
    """The chats of calls whose lineage no source declares; their prompts were read.

    `header` is what every prompt ends with, see `holes`; without one all calls are one chat.
    """
    places = _Places.of(calls)
    parents = _parents(places)
    superseded, unsure = _superseded(calls, places, parents)
    kept = [i for i in range(len(calls)) if i not in superseded]
    chats, unclear = _chats(_chains(kept, parents, _openings(calls, header)))
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
    places = _Places.of(calls)
    superseded, unsure = _superseded(calls, places, _parents(places))
    kept = tuple(i for i in range(len(calls)) if i not in superseded)
    issues = (Issue.AMBIGUOUS_LAST_CALL,) * unsure
    return Lineage((kept,), tuple(sorted(superseded)), issues)


def _same_prompt(a: Call, b: Call) -> bool:
    return (
        a.prompt.size == b.prompt.size
        and b.prompt.before is a.prompt
        and b.prompt.shared == b.prompt.size
    )


def _openings(calls: Sequence[Call], header: Ids) -> list[bytes]:
    """The first message of each call; all are alike without a header."""
    if not header.size:
        return [b""] * len(calls)
    return [_first_message(prompt, header) for prompt in whole_rows(c.prompt for c in calls)]


def _first_message(prompt: Ids | None, header: Ids) -> bytes:
    """A digest of the prompt up to its second message."""
    assert prompt is not None
    opener = prompt[0] if prompt[0] in header else header[0]
    places = np.flatnonzero(prompt == opener)
    # A prompt may open with one id of its own, such as a beginning of text.
    later = places[places > 1]
    end = later[0] if later.size else prompt.size
    return hashlib.blake2b(prompt[:end].tobytes(), digest_size=16).digest()


def _parents(places: _Places) -> list[int | None]:
    """For each call the one that it extends; of several alike the last recorded before it."""
    tree = places.tree
    ending: dict[int, list[int]] = {}
    answered: dict[int, list[int]] = {}
    for i, (prompt, end) in enumerate(zip(places.prompts, places.sequences, strict=True)):
        ending.setdefault(end, []).append(i)
        if end != prompt:
            answered.setdefault(end, []).append(i)
    nearest = _nearest(tree, ending)
    parents: list[int | None] = []
    for i, node in enumerate(places.prompts):
        # What sampled nothing has the end of any other answer to its prompt.
        found = answered.get(node)
        if found is None and node != ROOT:
            found = ending.get(nearest[node])
        if found is None:
            parents.append(None)
            continue
        earlier = bisect_left(found, i)
        parents.append(found[earlier - 1] if earlier else found[-1])
    return parents


def _nearest(tree: IdTree, ending: Mapping[int, object]) -> dict[int, int]:
    """For each node the closest one above it at which a sequence ends, else the root."""
    nearest = {ROOT: ROOT}
    for node in range(len(tree.up)):
        way = []
        while node not in nearest:
            way.append(node)
            node = tree.up[node]
        for below in reversed(way):
            up = tree.up[below]
            nearest[below] = up if up in ending else nearest[up]
    return nearest


def _superseded(
    calls: Sequence[Call], places: _Places, parents: Sequence[int | None]
) -> tuple[set[int], int]:
    """(answers passed over where a prompt was asked again; prompts of which that is not known)."""
    extended = {parent for parent in parents if parent is not None}
    asked: dict[int, list[int]] = {}
    for i, prompt in enumerate(places.prompts):
        asked.setdefault(prompt, []).append(i)
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
