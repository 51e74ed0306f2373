"""Every reader of what we write names the file that is damaged, and never reads it as sound."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests import sealed
from tests.fuzz.written import outputs
from wmo_distill import build, iter_datums, iter_records, scan, verify
from wmo_distill.cli.app import app
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import DistillError
from wmo_distill.exporters.reading import open_parts, read_rows
from wmo_distill.exporters.run import export_datums
from wmo_distill.outputs import stored
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.run import plan_scores
from wmo_distill.stats.rollout import rollout_stats


@pytest.fixture
def made(tmp_path: Path) -> Path:
    outputs(tmp_path)
    return tmp_path


def all_rows(made: Path) -> list[Any]:
    parts = open_parts(made / "datums")
    return list(read_rows(parts, pa.array(range(sum(p.rows for p in parts))).to_numpy()))


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "scan": ("shards", lambda made: scan(made / "shards").collect()),
    "iter_records": ("shards", lambda made: list(iter_records(made / "shards"))),
    "stats": ("shards", lambda made: rollout_stats(scan(made / "shards"))),
    "datums": ("shards", lambda made: build_datum_shards(made / "shards", made / "d2")),
    "iter_datums": ("datums", lambda made: list(iter_datums(made / "datums"))),
    "export": ("datums", lambda made: export_datums(made / "datums", made / "e2", "slime")),
    "read_rows": ("datums", all_rows),
    "plan_scores": (
        "datums",
        lambda made: plan_scores(made / "datums", ScoreCache(made / "c2"), "t"),
    ),
}


def part_of(out: Path) -> Path:
    return out / str(sealed.read(out)["parts"][0]["file"])


def flipped(at: Callable[[bytes], int]) -> Callable[[Path], None]:
    def damage(part: Path) -> None:
        data = bytearray(part.read_bytes())
        data[at(bytes(data))] ^= 4
        part.write_bytes(data)

    return damage


def page_of(data: bytes) -> int:
    """A place within the pages of sampled ids."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    ids = next(c for c in chunks if c.path_in_schema.endswith("token_ids.list.element"))
    return int(ids.data_page_offset + ids.total_compressed_size * 3 // 4)


def zeroed(part: Path) -> None:
    data = part.read_bytes()
    half = len(data) // 4
    part.write_bytes(data[:half] + bytes(half) + data[2 * half :])


def fifo(part: Path) -> None:
    part.unlink()
    os.mkfifo(part)


def folder(part: Path) -> None:
    part.unlink()
    part.mkdir()


def without_rows(part: Path) -> None:
    pq.write_table(pq.read_table(part).slice(0, 0), part)


def renamed(part: Path) -> None:
    table = pq.read_table(part)
    pq.write_table(table.rename_columns([f"x{name}" for name in table.column_names]), part)


def other_type(part: Path) -> None:
    table = pq.read_table(part)
    at = table.column_names.index("task_id")
    pq.write_table(table.set_column(at, "task_id", pa.array([1] * table.num_rows)), part)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "footer": flipped(lambda data: len(data) - 30),
    "schema": flipped(lambda data: data.rindex(b"episode_id") + 2),
    "end": flipped(lambda data: len(data) - 1),
    "cut": lambda part: part.write_bytes(part.read_bytes()[:-100]),
    "zeroed": zeroed,
    "empty": lambda part: part.write_bytes(b""),
    "gone": lambda part: part.unlink(),
    "folder": folder,
    "fifo": fifo,
    "text": lambda part: part.write_text("id,reward\n1,2\n"),
    "renamed": renamed,
    "other_type": other_type,
    "without_rows": without_rows,
}
FOREIGN = ("text", "empty", "renamed", "other_type")
"""Of these some come from who also writes a manifest that states them."""


def check(made: Path, reader: str, damage: str) -> None:
    name, read = READERS[reader]
    part = part_of(made / name)
    with pytest.raises(DistillError) as caught:
        read(made)
    said = str(caught.value)
    assert said.startswith(str(part)), (damage, said)
    assert "--fresh" in said or "built again" in said
    assert "\n" not in said
    assert len(said) < 800


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_by_every_reader(made: Path, damage: str) -> None:
    for name in ("shards", "datums"):
        DAMAGE[damage](part_of(made / name))
    for reader in READERS:
        check(made, reader, damage)


@pytest.mark.parametrize("damage", FOREIGN)
def test_what_a_manifest_states_is_no_part_for_that(made: Path, damage: str) -> None:
    for name in ("shards", "datums"):
        DAMAGE[damage](part_of(made / name))
        sealed.take_over(made / name)
    for reader in READERS:
        check(made, reader, damage)


def test_a_flipped_bit_among_tokens_is_named_with_its_row_group(made: Path) -> None:
    """zstd unpacks most of them without a word, to other tokens."""
    for name in ("shards", "datums"):
        flipped(page_of)(part_of(made / name))
    for reader, (name, read) in READERS.items():
        if reader in ("scan", "iter_records", "datums", "iter_datums", "export", "read_rows"):
            with pytest.raises(DistillError, match="row group 0: expected a part as its manifest"):
                read(made)
            assert part_of(made / name).exists()


@pytest.mark.parametrize(
    "args",
    [
        ["stats", "shards"],
        ["show", "shards"],
        ["datums", "shards", "-o", "d2"],
        ["export", "datums", "--to", "slime", "-o", "e2"],
        ["score", "datums", "--cache", "c2", "--teacher", "t", "--dry-run"],
        ["verify", "shards"],
        ["verify", "datums"],
    ],
    ids=lambda args: "-".join(args[:2]),
)
def test_the_command_says_it_in_one_line(
    made: Path, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    DAMAGE["footer"](part_of(made / args[1]))
    done = CliRunner().invoke(app, args)
    if args[0] == "verify":
        assert done.exit_code == 1
        assert "expected SHA-256" in done.output
    else:
        assert isinstance(done.exception, DistillError)
        assert done.exception.exit_code in (1, 2)


@pytest.mark.parametrize("damage", ["fifo", "folder", "gone"])
def test_a_manifest_or_ledger_that_is_no_file(made: Path, damage: str) -> None:
    DAMAGE[damage](made / "shards/ledger.parquet")
    assert "ledger.parquet" in {fault.file for fault in verify(made / "shards")}
    with pytest.raises(DistillError, match=r"ledger\.parquet: expected the ledger"):
        build([made / "in"], made / "shards", workers=1)
    DAMAGE[damage](made / "shards/manifest.json")
    with pytest.raises(DistillError, match=r"manifest\.json: expected the manifest"):
        scan(made / "shards")


def test_sizes_are_checked_before_anything_is_read(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MOST_FOOTER_BYTES", 100)
    with pytest.raises(DistillError, match="does not end as Parquet does"):
        scan(made / "shards")
    monkeypatch.undo()
    with pq.ParquetFile(part_of(made / "shards")) as file:
        with pytest.raises(ValueError, match="bytes of values, more than 10"):
            stored.read_group(file, 0, most=10)
        assert stored.read_group(file, 0, ["job"], most=10_000).num_rows == 1
