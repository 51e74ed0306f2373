"""Sequences of ids as a tree, in which those that start alike share their start.

    add [5, 6, 7]      0 ─ 5 6 7 ─ 1
    add [5, 6, 8]      0 ─ 5 6 ─ 2 ─ 7 ─ 1
                                 └── 8 ─ 3

A node is a place in a sequence: two sequences end at one node if and only if they are equal, and
what a sequence starts with ends at a node above its own. Each id that rows do not share is looked
at once or twice, however many rows there are.
"""

from dataclasses import dataclass, field

from wmo_distill.arrays import NO_IDS, Ids, common_prefix
from wmo_distill.tokenjson.rows import IdRow, whole_row

ROOT = 0


@dataclass(slots=True)
class IdTree:
    """Nodes by number; the lists hold for each the node above it, the ids between, its depth."""

    up: list[int] = field(default_factory=lambda: [ROOT])
    edge: list[Ids] = field(default_factory=lambda: [NO_IDS])
    depth: list[int] = field(default_factory=lambda: [0])
    """How many ids there are from the root on."""
    _below: dict[tuple[int, int], int] = field(default_factory=dict)
    """By the node above and the first id between."""
    _rows: dict[int, tuple[IdRow, int]] = field(default_factory=dict)
    """Rows that were added, by identity, with their nodes."""

    def add(self, row: IdRow) -> int:
        """The node of a row that was read; cheap where the row that it shares with was added."""
        known = None if row.before is None else self._rows.get(id(row.before))
        if known is None:
            ids = whole_row(row)
            assert ids is not None
            node = self.walk(ROOT, ids)
        else:
            assert row.delta is not None
            node = self.walk(self.above(known[1], row.shared), row.delta)
        self._rows[id(row)] = row, node
        return node

    def walk(self, node: int, ids: Ids) -> int:
        """The node at which these ids end from a node on, made if it is not there."""
        at = 0
        while at < ids.size:
            child = self._below.get((node, int(ids[at])))
            if child is None:
                return self._new(node, ids[at:])
            same = common_prefix(self.edge[child], ids[at:])
            node = child if same == self.edge[child].size else self._split(child, same)
            at += same
        return node

    def above(self, node: int, depth: int) -> int:
        """The node so deep on the way from the root to a node."""
        while self.depth[self.up[node]] >= depth and node != ROOT:
            node = self.up[node]
        if self.depth[node] <= depth:
            return node
        return self._split(node, depth - self.depth[self.up[node]])

    def _new(self, above: int, ids: Ids) -> int:
        self.up.append(above)
        self.edge.append(ids)
        self.depth.append(self.depth[above] + ids.size)
        self._below[above, int(ids[0])] = node = len(self.up) - 1
        return node

    def _split(self, node: int, size: int) -> int:
        """A node after the first ids of an edge."""
        ids = self.edge[node]
        middle = self._new(self.up[node], ids[:size])
        self.up[node], self.edge[node] = middle, ids[size:]
        self._below[middle, int(ids[size])] = node
        return middle
