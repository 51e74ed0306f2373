"""Lines of `verifiers` runs that close more than they opened."""

from collections.abc import Iterator

import pytest

from wmo_distill.sources.verifiers import outline
from wmo_distill.sources.verifiers.outline import outline_of

ROW = b'{"example_id": 0, "completion": [], "reward": 0.5'


@pytest.mark.parametrize("more", [b"]" * 40, b"}" * 40, b"}]}{}", b'} {"nodes": []}', b"}]"])
def test_a_line_ends_with_its_object(more: bytes) -> None:
    found = outline_of([ROW + more])
    assert not found.whole
    assert found.kind is not None


def test_a_whole_line() -> None:
    assert outline_of([ROW + b"} \r"]).whole


def test_a_text_without_an_end_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up once it is longer than any text may be."""
    monkeypatch.setattr(outline, "TEXT_BYTES", 100)
    taken = []

    def pieces() -> Iterator[bytes]:
        yield ROW + b', "info": "'
        for k in range(1000):
            taken.append(k)
            yield b"x" * 10

    found = outline_of(pieces())
    assert not found.whole
    assert len(taken) < 50
