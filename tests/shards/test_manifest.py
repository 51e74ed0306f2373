"""The manifest: round trip, and what is reported to a reader where there is none."""

import json
from pathlib import Path

import pytest

from wmo_distill.errors import UsageError
from wmo_distill.records import TrialRecord
from wmo_distill.shards.manifest import DATASET, Totals, dataset_hash, read_manifest

from .generated import lawful, long_chat, write_dataset


def test_round_trip(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path, [[lawful("a"), lawful("b")], [lawful("é")]])
    assert read_manifest(tmp_path) == manifest
    before = (tmp_path / "manifest.json").read_bytes()
    DATASET.write(tmp_path, read_manifest(tmp_path))
    assert (tmp_path / "manifest.json").read_bytes() == before
    assert [tmp_path / part.file for part in manifest.parts] == sorted(
        (tmp_path / "parts").iterdir()
    )


def test_the_hash_is_of_the_rows(tmp_path: Path) -> None:
    """Any order and any cut into parts give one hash; another row, or one twice, another."""
    a, b, c = (lawful(n) for n in "abc")

    def hash_of(*parts: list[TrialRecord]) -> str:
        return write_dataset(tmp_path, parts).dataset_hash

    one = hash_of([a, b, c])
    assert hash_of([c], [b, a]) == one
    assert hash_of([], [b], [c, a]) == one
    others = {hash_of([a, b]), hash_of([a, b, c, c]), hash_of([a, b, lawful("c", note="x")])}
    assert one not in others
    assert len(others) == 3
    assert hash_of([]) == dataset_hash([])


def test_totals_add_up() -> None:
    rows = [lawful("a"), lawful("b", spans=long_chat(2, 5)), lawful("c", spans=())]
    total = Totals.sum(map(Totals.of, rows))
    assert total == Totals.sum([Totals.of(rows[2]), Totals.sum(map(Totals.of, rows[:2]))])
    assert (total.records, total.calls) == (3, 5)
    # 3 calls of 4 + 4 ids, then 2 of 5 + 5: each chat's ids are counted once, its prompts all.
    assert total.tokens.output == 12 + 10
    assert total.tokens.input == 12 + 10
    assert total.tokens.total == 44
    assert total.tokens.prompt == (4 + 12 + 20) + (5 + 15)


FAULTS = [
    (None, "found: No such file"),
    (b"", "expected JSON, found bytes that are none"),
    (b'{"tool": ', "expected JSON"),
    (b"\xff\xfe{}", "expected JSON"),
    (b"[]", "found a file of something else"),
    (b'{"name": "package"}', "found a file of something else"),
    (b'{"tool": "wmo-distill", "schema_version": 1}', "expected schema version 2, found 1"),
    (b'{"tool": "wmo-distill", "schema_version": 2}', "parent: Field required"),
]


@pytest.mark.parametrize(("data", "message"), FAULTS)
def test_what_is_reported_to_a_reader(tmp_path: Path, data: bytes | None, message: str) -> None:
    """Where, what was expected and found, and what to do."""
    if data is not None:
        (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_manifest(tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'manifest.json'}: ")
    assert message in text
    assert ";" in text


def test_an_unfinished_build_is_called_one(tmp_path: Path) -> None:
    (tmp_path / ".staging-1").mkdir()
    with pytest.raises(UsageError, match="what an unfinished run left"):
        read_manifest(tmp_path)


def test_there_is_always_a_part(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[]])
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"parts": []}))
    with pytest.raises(UsageError, match="parts: List should have at least 1 item"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("file", ["/etc/passwd", "../x.parquet", "parts/../../x.parquet", "x"])
def test_a_part_is_among_the_parts(tmp_path: Path, file: str) -> None:
    write_dataset(tmp_path, [[lawful("a")]])
    value = json.loads((tmp_path / "manifest.json").read_text())
    value["parts"][0]["file"] = file
    (tmp_path / "manifest.json").write_text(json.dumps(value))
    with pytest.raises(UsageError, match=r"parts\.0\.file"):
        read_manifest(tmp_path)
