"""The command `export`: every sequence is exported or refused by count, files appear whole."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from wmo_distill.cli.app import app
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import UsageError
from wmo_distill.exporters.registry import TARGETS
from wmo_distill.exporters.run import ExportSummary, export_datums
from wmo_distill.records import Sampling


@pytest.fixture(scope="module")
def datums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve episodes, one of them of an unknown mode."""
    rng = np.random.default_rng(11)
    place = tmp_path_factory.mktemp("export")
    chats = [chat(LanguageModel(), rng, breaks=n % 2 == 0) for n in range(12)]
    records = [record(turns, n) for n, turns in enumerate(chats)]
    records[3] = record(chats[3], 3, sampled_with=Sampling())
    out = place / "datums"
    build_datum_shards(dataset(place / "shards", records), out, DatumOptions(advantages="centered"))
    return out


def rows(out: Path, summary: ExportSummary) -> list[Any]:
    found: list[Any] = []
    for name in summary.files:
        if name.endswith(".parquet"):
            found += pq.read_table(out / name).to_pylist()
        else:
            found += [json.loads(line) for line in (out / name).read_text().splitlines()]
    return found


@pytest.mark.parametrize("name", TARGETS)
def test_counts_balance(datums: Path, tmp_path: Path, name: str) -> None:
    summary = export_datums(datums, tmp_path / "x", name)
    assert summary.datums == len(list(iter_datums(datums)))
    assert summary.datums == summary.exported + sum(summary.refused.values())
    assert len(rows(tmp_path / "x", summary)) == summary.exported > 10
    unknown = sum(row.values["logprob_mode"] == "unknown" for row in iter_datums(datums))
    wanted = {"logprob_mode_unknown": unknown} if TARGETS[name].purpose == "rl" else {}
    assert summary.refused == wanted
    assumed = export_datums(datums, tmp_path / "x", name, assume_mode=True)
    assert assumed.exported == assumed.datums
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == sorted(
        [*assumed.files, "manifest.json"]
    )
    assert not set(assumed.files) & set(summary.files)


def test_files_are_bounded(datums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = export_datums(datums, tmp_path / "a", "slime")
    monkeypatch.setattr("wmo_distill.exporters.files.FILE_TOKENS", 100)
    cut = export_datums(datums, tmp_path / "b", "slime")
    assert len(cut.files) > 3
    assert rows(tmp_path / "a", whole) == rows(tmp_path / "b", cut)


def test_what_cannot_be_is_told_before_work(datums: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--to: expected one of .*found 'x'"):
        export_datums(datums, tmp_path / "x", "x")
    with pytest.raises(UsageError, match="expected the manifest of datums"):
        export_datums(datums.parent / "shards", tmp_path / "x", "slime")
    (tmp_path / "y").mkdir()
    (tmp_path / "y/file").write_text("")
    with pytest.raises(UsageError, match="found something else"):
        export_datums(datums, tmp_path / "y", "slime")
    assert not (tmp_path / "x").exists()


def test_a_failure_leaves_the_earlier_export(
    datums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = export_datums(datums, tmp_path / "x", "slime")
    calls: list[int] = []

    def fail(row: Any) -> bytes:
        calls.append(1)
        if len(calls) > 3:
            raise OSError("disk full")
        return b"{}\n"

    monkeypatch.setattr("wmo_distill.exporters.files.json_line", fail)
    with pytest.raises(OSError, match="disk full"):
        export_datums(datums, tmp_path / "x", "slime")
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == sorted(
        [*before.files, "manifest.json"]
    )


def test_the_command(datums: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    listed = run(app, ["export", "--list"])
    assert all(name in listed.stdout for name in TARGETS)
    done = run(app, ["export", str(datums), "-o", str(tmp_path / "x"), "--to", "tinker"])
    assert done.exit_code == 0
    assert "refused, logprob_mode_unknown" in done.stdout
    again = run(
        app,
        ["export", str(datums), "-o", str(tmp_path / "x"), "--to", "tinker", "--assume", "--json"],
    )
    assert json.loads(again.stdout)["refused"] == {}
    missing = run(app, ["export", str(datums), "--to", "tinker"])
    assert isinstance(missing.exception, UsageError)
