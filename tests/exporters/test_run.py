"""The command `export`: every sequence is exported or refused by count, files appear whole."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests import sealed
from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from wmo_distill.cli.app import app
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.exporters.messages import export_messages
from wmo_distill.exporters.registry import TARGETS
from wmo_distill.exporters.run import ExportSummary, export_datums
from wmo_distill.exporters.target import Refusal
from wmo_distill.exporters.verify import verify_export
from wmo_distill.records import Sampling
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.scorer import Score


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
    unknown = sum(row.logprob_mode == "unknown" for row in iter_datums(datums))
    wanted = {"logprob_mode_unknown": unknown} if TARGETS[name].purpose == "rl" else {}
    assert summary.refused == wanted
    assumed = export_datums(datums, tmp_path / "x", name, assume_mode=True, fresh=True)
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


def test_what_cannot_be_is_reported_before_work(datums: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--to: expected one of .*found 'x'"):
        export_datums(datums, tmp_path / "x", "x")
    with pytest.raises(UsageError, match="expected the manifest of datums"):
        export_datums(datums.parent / "shards", tmp_path / "x", "slime")
    (tmp_path / "y").mkdir()
    (tmp_path / "y/file").write_text("")
    with pytest.raises(UsageError, match="found other files"):
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
    with pytest.raises(DistillError, match=r"disk full; .* was left as it was"):
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
        ["export", str(datums), "-o", str(tmp_path / "x"), "--to", "tinker", "--assume", "--fresh",
         "--json"],
    )  # fmt: skip
    assert json.loads(again.stdout)["refused"] == {}
    missing = run(app, ["export", str(datums), "--to", "tinker"])
    assert isinstance(missing.exception, UsageError)


def test_weights_and_what_is_not_carried(datums: Path, tmp_path: Path) -> None:
    shards = datums.parent / "shards"
    options = DatumOptions(advantages="centered", normalize="sequence")
    build_datum_shards(shards, tmp_path / "d", options)
    before = rows(tmp_path / "p", export_datums(datums, tmp_path / "p", "tinker"))
    assert export_datums(tmp_path / "d", tmp_path / "x", "slime").not_carried == [
        "advantages",
        "weight",
    ]
    raw = [row for row in iter_datums(tmp_path / "d") if row.logprob_mode == "raw"]
    weights = [row.weight for row in raw]
    assert max(weights) < 1.0
    summary = export_datums(tmp_path / "d", tmp_path / "x", "tinker", fresh=True)
    assert summary.not_carried == []
    found = rows(tmp_path / "x", summary)
    for row, one, weight in zip(found, before, weights, strict=True):
        wanted = np.array(one["loss_fn_inputs"]["advantages"]["data"]) * weight
        got = row["loss_fn_inputs"]["advantages"]["data"]
        assert got == pytest.approx(wanted.tolist(), abs=1e-7)
    summary = export_datums(tmp_path / "d", tmp_path / "x", "prime-rl", fresh=True)
    for row, weight in zip(rows(tmp_path / "x", summary), weights, strict=True):
        assert row["rl_weights"] == [weight if trained else 0.0 for trained in row["mask"]]
    summary = export_datums(tmp_path / "d", tmp_path / "x", "nemo-rl", fresh=True)
    assert [row["loss_multiplier"] for row in rows(tmp_path / "x", summary)] == weights


def test_sequences_that_the_teacher_has_not_scored_are_refused(
    datums: Path, tmp_path: Path
) -> None:
    cache = ScoreCache(tmp_path / "c")
    every = {row.datum_id: row.datum for row in iter_datums(datums)}
    some = list(every.items())[:5]
    cache.add("t", [(name, Score(-np.ones(datum.token_ids.size)), 0) for name, datum in some])
    build_datum_shards(
        datums.parent / "shards", tmp_path / "d", DatumOptions(teacher="t"), scores=cache
    )
    summary = export_datums(tmp_path / "d", tmp_path / "x", "slime", assume_mode=True)
    assert summary.exported == 5
    assert summary.refused == {Refusal.NOT_SCORED: len(every) - 5}
    assert all("teacher_log_probs" in row for row in rows(tmp_path / "x", summary))


def test_another_target_is_not_replaced_unasked(datums: Path, tmp_path: Path) -> None:
    export_datums(datums, tmp_path / "x", "slime")
    with pytest.raises(UsageError, match=r"--to: expected slime as .*, found verl;.*--fresh"):
        export_datums(datums, tmp_path / "x", "verl")
    export_datums(datums, tmp_path / "x", "verl", fresh=True)


def test_rows_of_other_options_are_not_replaced_unasked(datums: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    export_datums(datums, out, "slime")
    export_datums(datums, out, "slime")
    with pytest.raises(UsageError, match=r"--assume: expected it not given as .*--fresh"):
        export_datums(datums, out, "slime", assume_mode=True)
    export_datums(datums, out, "slime", assume_mode=True, fresh=True)
    with pytest.raises(UsageError, match=r"--assume: expected it given as .*--fresh"):
        export_datums(datums, out, "slime")


def test_an_option_that_says_nothing_here_is_an_error(datums: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--only: expected --to messages or sharegpt"):
        export_datums(datums, tmp_path / "x", "slime", only="passed")
    with pytest.raises(UsageError, match="--assume: expected a target of sequences"):
        export_messages(datums, tmp_path / "x", "messages", assume_mode=True)


@pytest.mark.parametrize("to", ["slime", "trl-sft"])
def test_rows_are_counted_again(datums: Path, tmp_path: Path, to: str) -> None:
    export_datums(datums, tmp_path / "x", to)
    assert verify_export(tmp_path / "x") == []
    value = sealed.read(tmp_path / "x")
    value["parts"][0]["rows"] += 1
    sealed.write(tmp_path / "x", value)
    first, second = map(str, verify_export(tmp_path / "x"))
    assert first.startswith("manifest.json: expected rows of all parts, ")
    assert second.startswith(f"{value['parts'][0]['file']}: expected rows as in the manifest, ")
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "x")])
    assert done.exit_code == 1
    assert "export again with --fresh" in done.stderr
