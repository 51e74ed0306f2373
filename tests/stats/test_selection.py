"""`--where`: rows by an expression, for each reader the same, and what is no condition."""

from pathlib import Path

import polars as pl
import pytest

from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import UsageError
from wmo_distill.shards.scan import iter_batches, scan
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.shards.selection import chosen
from wmo_distill.stats.datums import datum_stats
from wmo_distill.stats.rollout import dataset_stats
from wmo_distill.view.answers import Answers


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("n_calls > 3", pl.col("n_calls") > 3),
        ("reward < 1 AND stop_reason = 'budget'",
            (pl.col("reward") < 1) & (pl.col("stop_reason") == "budget")),
        ("passed IS NULL", pl.col("passed").is_null()),
        ("NOT passed", pl.col("passed").not_()),
        ("agent_seconds > AVG(agent_seconds)",
            pl.col("agent_seconds") > pl.col("agent_seconds").mean()),
        ("task_id LIKE '%sales%'", pl.col("task_id").str.contains("sales")),
        ("MAX(n_calls) > 3", pl.lit(value=True)),
        ("1 = 2", pl.lit(value=False)),
    ],
)  # fmt: skip
def test_the_rows_are_those_that_polars_filters(dataset: Path, where: str, wanted: pl.Expr) -> None:
    names = scan(dataset).filter(wanted).select("episode_id").collect()["episode_id"].to_list()
    rows = Answers(dataset).episodes({"where": where, "n": "100"})["rows"]
    mask = chosen(where, SCHEMA, lambda columns: iter_batches(dataset, columns, lambda b: [b]))
    every = scan(dataset).select("episode_id").collect()["episode_id"].to_list()
    assert [row["episode_id"] for row in rows] == names
    assert [name for name, yes in zip(every, mask.tolist(), strict=True) if yes] == names
    stats = dataset_stats(dataset, where=where)
    assert (stats.records, stats.left_out) == (len(names), len(every) - len(names))
    assert stats.found is not None
    assert stats.found.trials == 49


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("qq > 3", 'unable to find column "qq"; the columns are format, episode_id, '),
        ("n_cals > 3", 'unable to find column "n_cals"; did you mean n_calls?'),
        ("n_calls", "a value of type Int32; "),
        ("n_calls >", ""),  # in words that differ by version
        ("spans IS NULL", 'unable to find column "spans"'),
        ("CAST(task_id AS INT) > 1", "conversion from"),
        ("", ""),
        ("; DROP TABLE self", ""),
    ],
)
def test_no_condition_is_named(dataset: Path, tmp_path: Path, where: str, found: str) -> None:
    for use in (
        lambda: dataset_stats(dataset, where=where),
        lambda: build_datum_shards(dataset, tmp_path / "d", where=where),
        # In the browser an empty field chooses all.
        lambda: Answers(dataset).episodes({"where": where or "NULL"}),
    ):
        with pytest.raises(UsageError) as error:
            use()
        said = str(error.value)
        assert said.startswith(
            "--where: expected a condition such as `reward < 1 AND n_calls > 20`"
        )
        assert found in said
    assert not (tmp_path / "d").exists()


def test_what_is_left_out_is_still_in_the_baseline_of_its_group(tmp_path: Path) -> None:
    """Four attempts at one task, one of them passed: its advantage is 1 - 1/4, with any of them."""
    from tests.shards.generated import lawful, write_dataset

    rows = [
        lawful(f"t{i}", group_id="g" * 16, reward=float(i == 0), reward_valid=True, task_id="a")
        for i in range(4)
    ]
    write_dataset(tmp_path / "s", [rows])
    build_datum_shards(tmp_path / "s", tmp_path / "all", advantages="centered")
    options = {"advantages": "centered", "where": "reward = 1"}
    summary = build_datum_shards(tmp_path / "s", tmp_path / "some", **options)
    assert (summary.records, summary.unselected) == (4, 3)
    got = [pl.read_parquet(tmp_path / name / "parts/*.parquet") for name in ("all", "some")]
    columns = ["token_ids", "loss_mask", "advantages", "group_size", "group_mean", "weight"]
    assert got[0].filter(pl.col("reward") == 1).select(columns).equals(got[1].select(columns))
    assert got[1]["group_size"].to_list() == [4] * got[1].height
    stats = datum_stats(tmp_path / "some")
    assert stats.left_out == {"where": 3}
    with pytest.raises(UsageError, match="--where: expected 'reward = 1' as in the run before"):
        build_datum_shards(tmp_path / "s", tmp_path / "some", advantages="centered")
