"""The calls of a trace by chat: the agent's main one, and others.

The agent's own answers are one chat, however its history was rewritten in between; a chat that a
link says to be a subagent's, or that has a system message of its own, is another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wmo_distill.issues import Issue
from wmo_distill.records import SegmentInfo, SegmentKind
from wmo_distill.sources.verifiers.graph import Graph, Node

MAIN = "main"
_SUBAGENT = SegmentInfo(SegmentKind.SUBAGENT)
_SAME_CHAT = ("continuation", "compaction")
"""Links between calls of one chat."""
_UNTRAINED = SegmentInfo(SegmentKind.SUBAGENT, trainable=False)


@dataclass(slots=True)
class Chats:
    """`of` names the chat of each sampled node; `compactions` are those that follow one."""

    lineages: dict[str, SegmentInfo] = field(default_factory=lambda: {MAIN: SegmentInfo()})
    of: dict[int, str] = field(default_factory=dict)
    compactions: frozenset[int] = frozenset()
    siblings: frozenset[int] = frozenset()
    """Answers to one prompt: each is a sample of its own."""
    issues: tuple[Issue, ...] = ()

    agent: str = MAIN
    """The chat that the agent's own answers are in."""

    @property
    def main(self) -> list[int]:
        """The sampled nodes of the agent's own chat."""
        return [node for node, name in self.of.items() if name == self.agent]


def chats_of(graph: Graph, trainable: bool) -> Chats:
    """The chats of a trace, their calls in order of the nodes."""
    found = Chats()
    nodes = graph.nodes
    links = [(i, at, kind) for i, node in enumerate(nodes) for at, kind in node.links]
    returned = _with_ancestors(graph, (at for _, at, kind in links if kind == "subagent_return"))
    called = {i for i, _, kind in links if kind == "subagent_call"}
    attempts = _dangling(graph, links)
    nearest = _nearest_sampled(graph)
    main: str | None = None
    for i, node in enumerate(nodes):
        if not node.sampled:
            continue
        root = graph.root[i] if nearest[i] is None else -1
        if not found.of:
            main = nodes[root].system
        above = nearest[i]
        if i in attempts:
            name = _new(found, _UNTRAINED)
        elif above is not None:
            name = found.of[above]
        elif (before := _continued(node, i, found.of, attempts)) is not None:
            name = found.of[before]
        elif i in called or i in returned or (found.of and nodes[root].system not in (None, main)):
            name = _new(found, _SUBAGENT)
        else:
            name = MAIN
        found.of[i] = name
    by_parent: dict[int, list[int]] = {}
    for i in found.of:
        by_parent.setdefault(nodes[i].parent, []).append(i)
    found.siblings = frozenset(i for same in by_parent.values() if len(same) > 1 for i in same)
    found.compactions = frozenset(i for i, _, kind in links if kind == "compaction")
    out_of_range = sum(not 0 <= at < len(nodes) for _, at, _ in links)
    found.issues = (Issue.VALUE_DAMAGED,) * out_of_range
    if len(set(found.of.values())) > 1 and not links:
        found.issues += (Issue.CHATS_UNLABELLED,)
    return found if trainable else _untrained(found)


def _continued(node: Node, i: int, of: Mapping[int, str], attempts: set[int]) -> int | None:
    """The call that a node says it goes on from, with a history that was written anew."""
    known = (at for at, kind in node.links if kind in _SAME_CHAT and at in of and at < i)
    return next((at for at in known if at not in attempts), None)


def _new(found: Chats, info: SegmentInfo) -> str:
    name = f"chat-{len(found.lineages)}"
    found.lineages[name] = info
    return name


def _untrained(found: Chats) -> Chats:
    """The same of an agent that is not to be trained: its main chat is nobody's."""
    found.agent = "untrained"
    found.of = {i: found.agent if name == MAIN else name for i, name in found.of.items()}
    others = [name for name in found.lineages if name != MAIN]
    found.lineages = {MAIN: SegmentInfo(), **dict.fromkeys([found.agent, *others], _UNTRAINED)}
    found.issues += (Issue.AGENT_NOT_TRAINABLE,)
    return found


def _nearest_sampled(graph: Graph) -> list[int | None]:
    """For each node the closest of its ancestors that a call sampled."""
    nearest: list[int | None] = []
    for i in range(len(graph.nodes)):
        up = graph.above(i)
        nearest.append(None if up < 0 else up if graph.nodes[up].sampled else nearest[up])
    return nearest


def _with_ancestors(graph: Graph, starts: Iterable[int]) -> set[int]:
    reached: set[int] = set()
    for i in starts:
        while 0 <= i < len(graph.nodes) and i not in reached:
            reached.add(i)
            i = graph.above(i)
    return reached


def _dangling(graph: Graph, links: list[tuple[int, int, str]]) -> set[int]:
    """Leaves that are compactions tried and not gone on from."""
    parents = {graph.above(i) for i in range(len(graph.nodes))}
    accepted = {at for _, at, kind in links if kind == "compaction"}
    tried = {i for i, _, kind in links if kind == "compaction_attempt"}
    return tried - parents - accepted
