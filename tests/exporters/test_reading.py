"""Rows of datum shards by number, whatever the order."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exporters.conftest import write_datums
from wmo_distill.datums.dataset import DatumRow, iter_datums
from wmo_distill.errors import DistillError
from wmo_distill.exporters.reading import PartFile, open_parts, read_rows, token_lengths


def opened(datums: Path) -> tuple[PartFile, ...]:
    return open_parts(datums)


def plain(row: DatumRow) -> dict[str, Any]:
    """All of a row but its sequence."""
    return {name: getattr(row, name) for name in DatumRow.__slots__ if name != "datum"}


def test_rows_in_any_order_and_again(small_parts: Path) -> None:
    parts = opened(small_parts)
    assert len(parts) > 5
    assert any(len(part.groups) > 1 for part in parts)
    every = list(iter_datums(small_parts))
    assert sum(part.rows for part in parts) == len(every)
    rng = np.random.default_rng(0)
    for order in (
        np.arange(len(every)),
        rng.permutation(len(every)),
        rng.integers(0, len(every), 60),
        np.zeros(0, np.int64),
    ):
        found = list(read_rows(parts, order))
        assert len(found) == order.size
        for number, row in zip(order, found, strict=True):
            wanted = every[number]
            assert plain(row) == plain(wanted)
            assert row.datum.token_ids.tolist() == wanted.datum.token_ids.tolist()
            assert row.datum.sampled_logprobs.tolist() == wanted.datum.sampled_logprobs.tolist()
            assert (row.datum.advantages is None) == (wanted.datum.advantages is None)


def test_each_row_group_is_read_once(small_parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = opened(small_parts)
    read: list[tuple[Path, int]] = []
    inner = read_rows.__globals__["_read"]

    def counted(part: PartFile, group: int, columns: list[str]) -> object:
        read.append((part.path, group))
        return inner(part, group, columns)

    monkeypatch.setitem(read_rows.__globals__, "_read", counted)
    rows = sum(part.rows for part in parts)
    list(read_rows(parts, np.random.default_rng(1).permutation(rows)))
    assert len(read) == len(set(read)) == sum(len(part.groups) for part in parts)
    read.clear()
    list(read_rows(parts, np.array([0, rows - 1])))
    assert len(read) == 2


def test_lengths_are_those_of_the_ids(small_parts: Path) -> None:
    wanted = [row.datum.token_ids.size for row in iter_datums(small_parts)]
    assert token_lengths(opened(small_parts)).tolist() == wanted


def test_datums_that_were_built_again_are_not_mixed(tmp_path: Path) -> None:
    write_datums(tmp_path / "d", count=9)
    parts = opened(tmp_path / "d")
    rows = read_rows(parts, np.arange(sum(part.rows for part in parts)))
    next(rows)
    write_datums(tmp_path / "d", count=10, seed=1)
    with pytest.raises(DistillError, match="built again"):
        list(rows)
    other = opened(tmp_path / "d")
    replaced = PartFile(other[0].stored, (1, *other[0].groups))
    with pytest.raises(DistillError, match="gone or replaced"):
        list(read_rows([replaced], np.array([0])))
