"""A tree of ids against sets of tuples."""

from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.arrays import as_ids
from wmo_distill.tokenjson.rows import SharedRows, id_row
from wmo_distill.tokenjson.tree import ROOT, IdTree

_IDS = st.lists(st.integers(1, 3), max_size=6)


@given(st.lists(_IDS, max_size=12), st.booleans())
def test_a_node_is_a_sequence(sequences: list[list[int]], shared: bool) -> None:
    tree, chain = IdTree(), SharedRows()
    rows = [chain.add(id_row(ids)) if shared else id_row(ids) for ids in sequences]
    nodes = [tree.add(row) for row in rows]
    assert len(set(nodes)) == len({tuple(ids) for ids in sequences})
    for ids, node in zip(sequences, nodes, strict=True):
        assert tree.depth[node] == len(ids)
        assert tree.walk(ROOT, as_ids(ids)) == node
        above, at = {node}, node
        while at != ROOT:
            at = tree.up[at]
            above.add(at)
        starts = {
            n for other, n in zip(sequences, nodes, strict=True) if ids[: len(other)] == other
        }
        assert starts == above & set(nodes)
