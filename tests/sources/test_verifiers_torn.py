"""Lines of `verifiers` runs that close more than they opened."""

import pytest

from wmo_distill.sources.verifiers.outline import outline_of

ROW = b'{"example_id": 0, "completion": [], "reward": 0.5'


@pytest.mark.parametrize("more", [b"]" * 40, b"}" * 40, b"}]}{}", b'} {"nodes": []}', b"}]"])
def test_a_line_ends_with_its_object(more: bytes) -> None:
    found = outline_of(ROW + more)
    assert not found.whole
    assert found.kind is not None


def test_a_whole_line() -> None:
    assert outline_of(ROW + b"} \r").whole
