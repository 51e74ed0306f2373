"""`wmo-distill stats`: one set of numbers as text, JSON and CSV; sequences; two of a kind."""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import wmo_distill
from tests.shards.generated import lawful, write_dataset
from wmo_distill.cli.app import app
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.table import DATUM_SCHEMA
from wmo_distill.stats.datums import _Tally

TRIALS = Path(__file__).parents[2] / "fixtures/trials"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    wmo_distill.build([TRIALS], out / "shards", workers=1)
    build_datum_shards(out / "shards", out / "datums", advantages="centered")
    return out


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["stats", *map(str, arguments)], catch_exceptions=False)


def table(*arguments: object) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(run(*arguments, "--csv").stdout)))


def at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


@pytest.mark.parametrize("name", ["shards", "datums"])
def test_every_line_of_csv_is_a_number_of_json(made: Path, name: str) -> None:
    numbers = json.loads(run(made / name, "--json").stdout)
    lines = table(made / name)
    assert len(lines) > 150
    for line in lines:
        # A key of a dictionary may hold a point; none of the fixtures does.
        value = at(numbers, line["key"])
        assert line["value"] == ("" if value is None else json.dumps(value).strip('"'))
    assert len({line["key"] for line in lines}) == len(lines)


def test_by_is_a_table(made: Path) -> None:
    lines = table(made / "shards", "--by", "stop_reason", "--by", "model_name")
    numbers = json.loads(run(made / "shards", "--by", "stop_reason,model_name", "--json").stdout)
    assert [line["stop_reason"] for line in lines] == [
        one["values"]["stop_reason"] for one in numbers["by"]
    ]
    assert sum(int(line["records"]) for line in lines) == 53
    assert lines[0]["solve_rate.low"] == str(numbers["by"][0]["solve_rate"]["low"])
    text = run(made / "shards", "--by", "stop_reason").stdout
    assert "\nBy stop_reason\n" in text


def test_two_of_them(made: Path) -> None:
    lines = table(made / "shards", made / "shards")
    assert list(lines[0]) == ["key", "a", "b", "difference", "low", "high"]
    both = json.loads(run(made / "shards", made / "shards", "--json").stdout)
    for line, one in zip(lines, both["differences"], strict=True):
        assert line["key"] == one["key"]
        assert at(both["a"], line["key"]) == one["a"]
    assert "B - A" in run(made / "datums", made / "datums").stdout


def test_where_is_said(made: Path) -> None:
    done = run(made / "shards", "--where", "n_calls > 3")
    assert done.stdout.startswith("22 episodes of 22 trials (31 more left out by --where); ")
    assert run(made / "datums", "--where", "segment = 0").stdout.startswith("50 sequences")


def test_the_datums_by_pyarrow_alone(made: Path) -> None:
    """No code of ours reads the rows."""
    rows = pq.read_table(made / "datums/parts").to_pylist()
    numbers = json.loads(run(made / "datums", "--json").stdout)
    trained = [sum(row["loss_mask"]) for row in rows]
    tokens = [len(row["token_ids"]) for row in rows]
    assert numbers["sequences"] == len(rows)
    assert numbers["episodes"] == len({row["episode_id"] for row in rows})
    assert (numbers["tokens"], numbers["trained_tokens"]) == (sum(tokens), sum(trained))
    assert numbers["context_tokens"] == sum(tokens) - sum(trained)
    advantages = [
        x
        for row in rows
        for x, mask in zip(row["advantages"] or [], row["loss_mask"], strict=False)
        if mask
    ]
    found = numbers["distributions"]
    assert found["advantages"]["count"] == len(advantages)
    assert found["advantages"]["missing"] == sum(trained) - len(advantages)
    assert found["trained_tokens"]["p90"] == pytest.approx(np.quantile(trained, 0.9))
    logprobs = [x for row in rows for x in row["sampled_logprobs"] if x is not None]
    assert found["logprob"]["p50"] == pytest.approx(np.median(logprobs), rel=2e-3)
    causes = Counter(row["break_cause"] for row in rows if row["break_cause"])
    assert numbers["breaks"] == dict(causes)
    manifest = json.loads((made / "datums/manifest.json").read_text())["summary"]
    assert sum(numbers["left_out"].values()) == manifest["records"] - numbers["episodes"]
    assert sum(task["sequences"] for task in numbers["tasks"]) == len(rows)
    measured = {
        row["episode_id"]: row["passed"]
        for row in rows
        if row["reward_valid"] and row["reward"] is not None
    }
    assert numbers["solve_rate"]["denominator"] == len(measured)
    assert numbers["solve_rate"]["numerator"] == sum(measured.values())


def test_ratios_and_truncation() -> None:
    """Re-scored log-probabilities as a cache would hold them: exp(rescored - recorded)."""
    rows = {
        **{name: [None, None] for name in DATUM_SCHEMA.names},
        "loss_mask": [[False, True, True], [True]],
        "sampled_logprobs": [[None, -1.0, -5e16], [-2.0]],
        "rescored_logprobs": [[None, -1.5, -1.0], None],
        "call_lengths": [[2], [1]],
        "finish_reasons": [["length"], ["stop"]],
    }
    tally = _Tally()
    tally.add(
        pa.RecordBatch.from_arrays(
            [pa.array(rows[field.name], field.type) for field in DATUM_SCHEMA],
            names=DATUM_SCHEMA.names,
        )
    )
    ratio = tally._ratios.distribution()
    assert (ratio.count, ratio.missing) == (1, 2)
    assert ratio.p50 == pytest.approx(np.exp(-0.5))
    assert tally._logprobs.distribution().implausible == 1
    assert tally._cut == {True: 1, False: 1}


def test_hostile_names_reach_no_terminal(tmp_path: Path) -> None:
    task = "<b>\x1b[2J\u202e\x00\n" + "x" * 100_000
    rows = [lawful("a", task_id=task, model_name=task), lawful("b", issues=())]
    write_dataset(tmp_path / "s", [rows])
    build_datum_shards(tmp_path / "s", tmp_path / "d")
    for arguments in (
        (tmp_path / "s", "--by", "task_id"), (tmp_path / "s", "--csv"), (tmp_path / "s", "--json"),
        (tmp_path / "s", "--by", "task_id", "--csv"), (tmp_path / "d",),
        (tmp_path / "s", tmp_path / "s"),
    ):  # fmt: skip
        done = run(*arguments)
        assert done.exit_code == 0
        assert "<b>" in done.stdout
        assert not set("\x1b\u202e\x00") & set(done.stdout)
        if not {"--csv", "--json"} & set(arguments):
            assert max(map(len, done.stdout.splitlines())) < 250
