"""One part: row groups, encodings, bytes, and what a fault leaves behind."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wmo_distill.issues import Issue
from wmo_distill.records import TrialRecord
from wmo_distill.shards import writer
from wmo_distill.shards.columns import TEXT
from wmo_distill.shards.decode import decode
from wmo_distill.shards.digest import MODULUS, row_digest
from wmo_distill.shards.manifest import PartInfo, Totals
from wmo_distill.shards.schema import LEDGER_SCHEMA, SCHEMA
from wmo_distill.shards.writer import PartWriter, leaves, parquet_writer
from wmo_distill.tokens import TokenSpan

from .generated import contents, lawful, long_chat


def write(path: Path, records: list[TrialRecord]) -> PartInfo:
    with PartWriter(path) as part:
        for record in records:
            part.write(record)
    return part.info


def group_rows(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_a_part_holds_what_was_written(tmp_path: Path) -> None:
    records = [lawful("a"), lawful("b", spans=()), lawful("c", issues=(Issue.PROMPT_EMPTY,))]
    path = tmp_path / "part-00007.parquet"
    info = write(path, records)
    back = list(decode(pq.read_table(path)))
    assert [contents(r) for r in back] == [contents(r) for r in records]
    data = path.read_bytes()
    total = sum(int.from_bytes(row_digest(r)) for r in records) % MODULUS
    assert info == PartInfo(
        file="parts/part-00007.parquet",
        rows=3,
        tokens=48,
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        footer=hashlib.sha256(data[-8 - int.from_bytes(data[-8:-4], "little") :]).hexdigest(),
        row_sum=f"{total:064x}",
        totals=Totals.sum(map(Totals.of, records)),
    )
    assert info.totals.calls_dropped == {"prompt_empty": 1}
    assert info.totals.calls == 6
    assert info.totals.stop_reasons == {"submitted": 3}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("spans", [(), long_chat(3, 5, extra="{}")], ids=["spanless", "full"])
def test_encodings_on_disk(tmp_path: Path, spans: tuple[TokenSpan, ...]) -> None:
    """Ids plain, log-probabilities byte-stream-split, dictionaries only on strings, zstd."""
    path = tmp_path / "part.parquet"
    write(path, [lawful("a", spans=spans)])
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    types = leaves(SCHEMA)
    assert [c.path_in_schema for c in columns] == list(types)
    for column in columns:
        encodings = set(column.encodings) - {"RLE"}
        assert column.compression == "ZSTD"
        if column.path_in_schema == "spans.list.element.sampled_logprobs.list.element":
            assert encodings == {"BYTE_STREAM_SPLIT"}
        elif types[column.path_in_schema] == TEXT and not column.path_in_schema.endswith("extra"):
            assert "RLE_DICTIONARY" in encodings
        else:
            assert encodings == {"PLAIN"}
    assert pq.ParquetFile(path).schema_arrow.equals(SCHEMA, check_metadata=True)


def test_row_groups_hold_at_most_the_tokens_or_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 24, 24, 24, 240, 24 stored ids at a limit of 50: two, one, one alone, one."""
    monkeypatch.setattr(writer, "GROUP_TOKENS", 50)
    small, large = long_chat(3, 4), long_chat(3, 40)
    rows = [lawful(n, spans=large if n == "d" else small) for n in "abcde"]
    assert write(tmp_path / "p.parquet", rows).rows == 5
    assert group_rows(tmp_path / "p.parquet") == [2, 1, 1, 1]


def test_row_groups_hold_at_most_the_extras_or_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROUP_EXTRA_BYTES", 13)
    rows = [
        lawful(n, spans=long_chat(1, 1, extra=e))
        for n, e in zip("abcd", ["é" * 3, '{"":0}', "{}", "x" * 20], strict=True)
    ]
    write(tmp_path / "p.parquet", rows)
    assert group_rows(tmp_path / "p.parquet") == [2, 1, 1]


def test_large_rows_written_at_once_are_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROUP_TOKENS", 100)
    sizes = [3, 40, 2, 2, 0, 60, 1]
    records = [
        lawful(f"r{k}", spans=long_chat(2, n, extra='{"a":1}') if n else ())
        for k, n in enumerate(sizes)
    ]
    expected = write(tmp_path / "part-00000.parquet", records)
    (tmp_path / "other").mkdir()
    with PartWriter(tmp_path / "other/part-00000.parquet") as part:
        for record in records:
            part.write(record)
            part.let_go()
    assert part.info == expected
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["part-00000.parquet"]
    assert len(group_rows(tmp_path / "part-00000.parquet")) > 3


def test_rows_without_tokens_end_a_group_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROUP_ROWS", 3)
    write(tmp_path / "p.parquet", [lawful(n, spans=()) for n in "abcdefg"])
    assert group_rows(tmp_path / "p.parquet") == [3, 3, 1]


def test_no_rows_no_row_group(tmp_path: Path) -> None:
    info = write(tmp_path / "p.parquet", [])
    assert (info.rows, info.tokens, info.row_sum) == (0, 0, "0" * 64)
    assert group_rows(tmp_path / "p.parquet") == []
    assert pq.read_table(tmp_path / "p.parquet").schema.equals(SCHEMA, check_metadata=True)


def test_a_row_with_too_much_extra_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ROW_EXTRA_BYTES", 20)
    kept = lawful("a", spans=long_chat(2, 3, extra="x" * 10))
    lost = lawful("b", spans=long_chat(3, 3, extra="x" * 10), issues=(Issue.TURNS_MISSING,))
    with PartWriter(tmp_path / "p.parquet") as part:
        assert part.write(kept) is kept
        written = part.write(lost)
    assert written.issues == (Issue.EXTRA_TOO_LARGE, Issue.TURNS_MISSING)
    assert [span.extra for span in written.spans] == [None] * 3
    assert [s.prompt_token_ids.tolist() for s in written.spans] == [
        s.prompt_token_ids.tolist() for s in lost.spans
    ]
    back = list(decode(pq.read_table(tmp_path / "p.parquet")))
    assert [contents(r) for r in back] == [contents(kept), contents(written)]
    assert part.info.totals.issues == {"extra_too_large": 1, "turns_missing": 1}


def test_same_records_same_bytes(tmp_path: Path) -> None:
    rows = [lawful(n) for n in "abc"]
    (tmp_path / "elsewhere").mkdir()
    first = write(tmp_path / "p.parquet", rows)
    second = write(
        tmp_path / "elsewhere" / "p.parquet", list(decode(pq.read_table(tmp_path / "p.parquet")))
    )
    assert first == second


def test_a_fault_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group is on disk already when the caller's own work fails."""
    monkeypatch.setattr(writer, "GROUP_ROWS", 1)

    def fail() -> None:
        with PartWriter(tmp_path / "p.parquet") as part:
            part.write(lawful("a"))
            part.write(lawful("b"))
            assert list(tmp_path.iterdir()) != []
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_the_ledgers_dictionaries_are_of_strings_only(tmp_path: Path) -> None:
    path = tmp_path / "ledger.parquet"
    with parquet_writer(path, LEDGER_SCHEMA) as ledger:
        row = {"path": "a", "bytes": 1, "mtime_ns": 2, "outcome": "written", "reasons": ["x"]}
        ledger.write_table(pa.Table.from_pylist([row | {"records": 1}], LEDGER_SCHEMA))
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    plain = {c.path_in_schema for c in columns if "RLE_DICTIONARY" not in c.encodings}
    assert plain == {"bytes", "mtime_ns", "records"}


def test_a_fault_while_closing_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "encode", full)
    with pytest.raises(OSError, match="No space"), PartWriter(tmp_path / "p.parquet") as part:
        part.write(lawful("a"))
    assert list(tmp_path.iterdir()) == []
