"""What a later run refuses: other options, a PATH outside the parent, a damaged dataset."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pipeline_datasets import balanced, rows
from pipeline_trials import make_job, snapshot, touch

from tests import sealed
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.build import build
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.verify import verify


def test_another_option_is_an_error_that_names_it(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1")
    (tmp_path / "sinks").mkdir()
    out = tmp_path / "out"
    build([job], out)
    before = snapshot(out)
    for options, flag in (
        (BuildOptions(max_turns=3), "--max-turns"),
        (BuildOptions(reward_key="score"), "--reward-key"),
        (BuildOptions(reward_range=(0.0, 2.0)), "--reward-range"),
        (BuildOptions(reward_files=True), "--reward-files"),
        (BuildOptions(pass_at=0.5), "--pass-at"),
        (BuildOptions(declare={"temperature": 1.0}), "--declare"),
        (BuildOptions(salvage=False), "--no-salvage"),
        (BuildOptions(extra=False), "--no-extra"),
        (BuildOptions(sinks=tmp_path / "sinks"), "--sinks"),
    ):
        with pytest.raises(UsageError, match=rf"{flag}: expected .* found .*--fresh"):
            build([job], out, options)
        assert snapshot(out) == before
    summary = build([job], out, BuildOptions(max_turns=3), fresh=True)
    balanced(out, summary)
    assert rows(out, "max_turns") == [3]


def test_the_parent_stays(tmp_path: Path) -> None:
    a = make_job(tmp_path / "jobs" / "a", "t1")
    outside = make_job(tmp_path / "other", "t2")
    out = tmp_path / "out"
    build([a], out)
    with pytest.raises(UsageError, match="--fresh"):
        build([outside], out)
    make_job(tmp_path / "jobs" / "b", "t3")
    summary = build([tmp_path / "jobs" / "b" / "t3"], out)
    balanced(out, summary)
    assert rows(out, "artifact_dir") == ["a/t1", "b/t3"]
    assert read_manifest(out).parent == str(tmp_path / "jobs")
    assert build([tmp_path / "jobs"], out).read == 0
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "jobs" / "a")
    assert build([link], out).read == 0
    build([outside], out, fresh=True)
    assert rows(out, "artifact_dir") == ["other/t2"]


def test_fresh_reads_all_and_overwrites_no_part(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    shutil.rmtree(job / "t2")
    summary = build([job], out, fresh=True)
    balanced(out, summary)
    assert (summary.read, summary.found, summary.removed) == (1, 1, 0)
    assert [part.file for part in read_manifest(out).parts] == ["parts/part-00001.parquet"]


def test_a_damaged_dataset_is_an_error_and_fresh_builds_it_anew(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    sound = tmp_path / "sound"
    build([job], sound)
    manifest = json.loads((sound / "manifest.json").read_text())
    part = "parts/part-00000.parquet"
    for name, damage in (
        ("manifest.json", b"{"),
        ("manifest.json", json.dumps(manifest | {"schema_version": 99}).encode()),
        ("manifest.json", json.dumps({k: v for k, v in manifest.items() if k != "parts"}).encode()),
        ("ledger.parquet", b""),
        ("ledger.parquet", (sound / part).read_bytes()),
        ("ledger.parquet", None),
        (part, b"short"),
        (part, None),
    ):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(sound, out)
        if damage is None:
            (out / name).unlink()
        else:
            (out / name).write_bytes(damage)
        before = snapshot(out)
        with pytest.raises(UsageError, match="expected") as told:
            build([job], out)
        assert "--fresh" in str(told.value)
        assert snapshot(out) == before
        summary = build([job], out, fresh=True)
        balanced(out, summary)
        assert summary.written == 2


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("ledger", "sha256"), "0" * 64, "ledger.parquet: expected the ledger that belongs"),
        (("options", "cells"), [], "options.cells: expected digests by path"),
        (("parts",), [], "parts: List should have at least 1 item"),
    ],
)
def test_a_manifest_that_does_not_fit_is_reported(
    tmp_path: Path, where: tuple[str, ...], value: Any, message: str
) -> None:
    make_job(tmp_path / "jobs/a", "t1")
    out = tmp_path / "out"
    build([tmp_path / "jobs"], out)
    manifest = sealed.read(out)
    place = manifest
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    sealed.write(out, manifest)
    with pytest.raises(UsageError, match=message) as told:
        build([tmp_path / "jobs"], out)
    assert "--fresh" in str(told.value)
    build([tmp_path / "jobs"], out, fresh=True)
    assert verify(out) == []


def test_rows_of_a_damaged_part_are_not_copied(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    part = out / read_manifest(out).parts[0].file
    data = bytearray(part.read_bytes())
    data[len(data) // 3] ^= 1
    part.write_bytes(data)
    touch(job / "t1" / "result.json")
    before = snapshot(out)
    with pytest.raises(DistillError, match=r"expected SHA-256 .*--fresh") as told:
        build([job], out)
    assert str(part) in str(told.value)
    assert snapshot(out) == before


def test_an_open_range_is_the_same_in_the_next_build(tmp_path: Path) -> None:
    job, out = make_job(tmp_path / "job", "t1"), tmp_path / "out"
    options = BuildOptions(reward_range=(float("-inf"), float("inf")))
    build([job], out, options)
    assert build([job], out, options).read == 0
    assert verify(out) == []
    assert "Infinity" not in (out / "manifest.json").read_text()
    with pytest.raises(UsageError, match="--reward-range"):
        build([job], out, BuildOptions(reward_range=(0.0, float("inf"))))
