"""Datasets in directories whose names are not UTF-8, or not of one line."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.shards.generated import lawful, write_dataset
from wmo_distill import UsageError, build_datum_shards, iter_records, scan
from wmo_distill.shards.verify import verify
from wmo_distill.stats.compare import stats_of

pytestmark = pytest.mark.skipif(
    sys.platform == "darwin", reason="the file system takes UTF-8 names alone"
)


@pytest.mark.parametrize("name", [b"d\xff", b"two\nlines \"'", b"\\xff"])
def test_every_reader_reads_them(tmp_path: Path, name: bytes) -> None:
    out = tmp_path / os.fsdecode(name)
    write_dataset(tmp_path / "plain", [[lawful("one")], [lawful("two")]])
    shutil.copytree(tmp_path / "plain", out)
    assert verify(out) == verify(tmp_path / "plain")
    assert [record.episode_id for record in iter_records(out)] == ["one", "two"]
    assert scan(out).collect().height == 2
    assert stats_of(out) == stats_of(tmp_path / "plain")
    build_datum_shards(tmp_path / "plain", tmp_path / "datums")
    shutil.copytree(tmp_path / "datums", out / "datums")
    assert stats_of(out / "datums") == stats_of(tmp_path / "datums")


def test_no_writer_begins_where_arrow_cannot_write(tmp_path: Path) -> None:
    write_dataset(tmp_path / "plain", [[lawful("one")]])
    out = tmp_path / os.fsdecode(b"d\xff")
    with pytest.raises(UsageError, match=r"d\\xff: expected a path in UTF-8, found other bytes"):
        build_datum_shards(tmp_path / "plain", out)
    assert not out.exists()
