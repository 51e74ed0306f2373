"""A file of cells that is larger than it looks is refused before it fills the memory."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wmo_distill.errors import UsageError
from wmo_distill.pipeline import cell_file
from wmo_distill.pipeline.cell_file import read_cell_rows

ROWS = 300


def table(**columns: Any) -> pa.Table:
    same = {"task_id": "a", "attempt": 1, "reward": 1.0, "passed": True, "artifact_dir": "a"}
    return pa.table({name: pa.array([value] * ROWS) for name, value in same.items()} | columns)


def read(tmp_path: Path, cells: pa.Table) -> list[Any]:
    pq.write_table(cells, tmp_path / "cells.parquet")
    return read_cell_rows(tmp_path / "cells.parquet")


def one_text(letters: int) -> pa.Array:
    """One text for all rows, in a dictionary: on disk it is there once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), ["x" * letters])


@pytest.mark.parametrize("kind", ["text", "dictionary"])
def test_texts_are_counted_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(cell_file, "MOST_BYTES", 100_000)
    note = one_text(1000)
    cells = table(note=note if kind == "dictionary" else note.cast(pa.string()))
    with pytest.raises(UsageError, match=r"cells\.parquet: .* more than 100,000 bytes of text"):
        read(tmp_path, cells)
    assert (tmp_path / "cells.parquet").stat().st_size < 10_000
    short = read(tmp_path, table(note=one_text(10)))
    assert [row["note"] for row in short] == ["x" * 10] * ROWS


def test_rows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_file, "MOST_CELLS", ROWS - 1)
    with pytest.raises(UsageError, match=r"300 cells, more than 299; give the cells of fewer"):
        read(tmp_path, table())


def test_stated_sizes_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = pa.array([f"{at:>200}" for at in range(ROWS)])
    pq.write_table(table(note=names), tmp_path / "cells.parquet", compression="zstd")
    monkeypatch.setattr(cell_file, "MOST_BYTES", 30_000)
    with pytest.raises(UsageError, match=r"bytes of cells, more than 30,000"):
        read_cell_rows(tmp_path / "cells.parquet")


@pytest.mark.parametrize(
    "column",
    [pa.array([[0.0] * 9] * ROWS), pa.array([b"a"] * ROWS), pa.array([{"a": "b"}] * ROWS)],
    ids=["list", "bytes", "texts in a structure"],
)
def test_a_column_of_another_kind_is_not_read(tmp_path: Path, column: pa.Array) -> None:
    with pytest.raises(UsageError, match="found: a column tests of"):
        read(tmp_path, table(tests=column))


def test_a_file_of_json_has_a_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_file, "MOST_BYTES", 10)
    (tmp_path / "cells.json").write_text("[" + " " * 20 + "]")
    with pytest.raises(UsageError, match="expected at most 10 bytes of cells, found more"):
        read_cell_rows(tmp_path / "cells.json")
