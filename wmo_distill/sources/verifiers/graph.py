"""The nodes of a trace: a graph of messages, each with the tokens that it adds to its parent's.

    node 0  user       [1 2 3]
    node 1  assistant  [4 5 | 6 7]    sampled: a call with the prompt 1 2 3 4 5, which gave 6 7
    node 2  user       [8]            parent 1
    node 3  assistant  [4 5 | 9]      sampled: prompt 1 2 3 4 5 6 7 8 4 5

A call is a sampled node. Its prompt is written as what it adds to the prompt of the call before in
its chat, so memory is linear in tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wmo_distill.arrays import NO_IDS, Ids, frozen
from wmo_distill.files import plain_text
from wmo_distill.sources.verifiers.document import mask_of
from wmo_distill.tokenjson.rows import IdRow, LogprobRow, id_row, linked, logprob_row


@dataclass(slots=True)
class Node:
    """One message. `ids` is None where they are damaged, or missing while others are recorded."""

    parent: int
    """-1: a root."""
    ids: Ids | None
    sampled: bool
    k: int | None = 0
    """How many ids, the last, were sampled; None where that is not known."""
    logprobs: LogprobRow = field(default_factory=lambda: logprob_row(None))
    links: tuple[tuple[int, str], ...] = ()
    """(node, type) of each node that this one says to follow from."""
    system: str | None = None
    """Its text if it is a system message."""
    record: dict[str, Any] = field(default_factory=dict)
    """What may go into the extras of its call."""
    damaged: int = 0
    """Values in it that are not what they should be."""


@dataclass(slots=True)
class Graph:
    """All nodes of a trace, and what holds along the path from the root to each."""

    nodes: list[Node]
    has_tokens: bool
    root: list[int] = field(default_factory=list)
    """Where the path to each begins."""
    depth: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    """How many ids the path holds, the node's own among them."""
    broken: list[bool] = field(default_factory=list)
    """Whether a node of the path is damaged, or the path leads nowhere."""

    def __post_init__(self) -> None:
        for i, node in enumerate(self.nodes):
            up = node.parent
            # Every writer gives a parent before its children: any other is damage, and a cycle.
            sound = -1 <= up < i and node.ids is not None
            above = up if sound else -1
            self.root.append(i if self.above(i) < 0 else self.root[self.above(i)])
            self.depth.append(self.depth[above] + 1 if above >= 0 else 0)
            size = 0 if node.ids is None else node.ids.size
            self.end.append(size + (self.end[above] if above >= 0 else 0))
            self.broken.append(not sound or (up >= 0 and self.broken[up]))

    def above(self, i: int) -> int:
        """The parent of a node, -1 where there is none."""
        up = self.nodes[i].parent
        return up if -1 <= up < i else -1

    def prompt(self, call: int, before: int | None, row: IdRow | None) -> IdRow:
        """The prompt of a sampled node; `row` is the prompt of the call `before` it in its chat.

        The nodes whose ids it adds are views of it from then on, so ids are in memory once.
        """
        node = self.nodes[call]
        assert node.ids is not None
        assert node.k is not None
        pieces = [node.ids[: node.ids.size - node.k]]
        taken: list[Node] = []
        own = node.parent
        other = -1 if before is None else self.nodes[before].parent
        while own != other:
            if own >= 0 and (other < 0 or self.depth[own] >= self.depth[other]):
                ids = self.nodes[own].ids
                assert ids is not None
                pieces.append(ids)
                taken.append(self.nodes[own])
                own = self.nodes[own].parent
            else:
                other = self.nodes[other].parent
        shared = 0 if own < 0 else self.end[own]
        new = frozen(np.concatenate(pieces[::-1]))
        end = new.size - pieces[0].size
        for above, ids in zip(taken, pieces[1:], strict=True):
            above.ids = new[end - ids.size : end]
            end -= ids.size
        return linked(shared, new, row) if shared and row is not None else IdRow(0, new)

    def completion(self, call: int) -> IdRow:
        node = self.nodes[call]
        assert node.ids is not None
        assert node.k is not None
        return IdRow(0, node.ids[node.ids.size - node.k :])


def graph_of(recorded: Sequence[Any]) -> Graph:
    """The nodes of a trace in recorded order."""
    rows = [
        id_row(node.pop("token_ids", None)) if isinstance(node, dict) else None for node in recorded
    ]
    has_tokens = any(row is not None and (row.size or _damaged(row)) for row in rows)
    nodes = [
        _node(node, row, has_tokens) if row is not None else Node(-1, None, False, damaged=1)
        for node, row in zip(recorded, rows, strict=True)
    ]
    return Graph(nodes, has_tokens)


def _damaged(row: IdRow) -> bool:
    return row.delta is None and not row.missing


def _node(value: dict[str, Any], row: IdRow, has_tokens: bool) -> Node:
    parent = value.get("parent")
    # A root has no parent, or null where nulls are written; -2 is the parent of no node.
    sound = type(parent) is int and parent >= 0
    node = Node(
        parent=-1 if parent is None else parent if sound else -2,
        ids=row.delta if has_tokens or not row.missing else NO_IDS,
        sampled=value.get("sampled") is True,
        logprobs=logprob_row(value.get("logprobs")),
        record=value,
    )
    node.k = _sampled(value.get("mask"), row.size)
    if not node.sampled:
        # What no call sampled is context, whatever the mask says.
        node.damaged += node.k != 0 and not row.missing
        node.k = 0
    _add_links(node, value.get("semantic_parents"))
    message = value.get("message")
    if isinstance(message, dict) and message.get("role") == "system":
        node.system = repr(message.get("content"))
    return node


def _sampled(mask: Any, size: int) -> int | None:
    """How many of a node's ids are marked, None unless they are its last ones."""
    found = mask_of(mask)
    if found is None or found.size != size:
        return 0 if mask is None and not size else None
    return found.k


def _add_links(node: Node, recorded: Any) -> None:
    if recorded is None:
        return
    links = []
    for link in recorded if isinstance(recorded, list) else [None]:
        at, kind = (link.get("node"), link.get("type")) if isinstance(link, dict) else (None, None)
        if type(at) is int and isinstance(kind, str):
            links.append((at, plain_text(kind)))
        else:
            node.damaged += 1
    node.links = tuple(links)
