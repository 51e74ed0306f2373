"""Rewards of multi-step trials, from Harbor's files to the rows of trainers.

Four attempts at three steps: A 1, not graded, 1; B 1, 1, 1; C 1, then the key was refused and the
trial aborted; D 1, 0, 0. Harbor says that the trial's reward of A and C does not count.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.verify import verify_datums
from wmo_distill.exporters.registry import TARGETS
from wmo_distill.exporters.run import export_datums
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.build import build
from wmo_distill.shards.scan import iter_records, scan
from wmo_distill.stats.rollout import rollout_stats

FAULT = Path(__file__).parents[2] / "fixtures/faults/multistep-rewards/jobs"
Change = dict[str, Any]


def built(trials: Path, out: Path, **options: Any) -> Path:
    cells = options.pop("cells", None)
    declared = BuildOptions(declare={"logprob_mode": "raw"}, **options)
    build([trials], out, declared, cells=cells, workers=1)
    return out


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(FAULT, tmp_path_factory.mktemp("multistep") / "shards")


def rows(datums: Path) -> dict[str, dict[str, Any]]:
    """By the letter of the attempt and the step."""
    assert verify_datums(datums) == []
    return {
        f"{row['trial_name'][7]}/{row['step_name']}": row
        for row in pl.read_parquet(datums / "parts/*.parquet").to_dicts()
    }


def advantage(row: dict[str, Any]) -> float | None:
    if row["advantages"] is None:
        return None
    (value,) = {x for x, m in zip(row["advantages"], row["loss_mask"], strict=True) if m}
    return float(value)


def test_a_return_over_a_step_that_was_not_measured_is_unknown(
    dataset: Path, tmp_path: Path
) -> None:
    options = DatumOptions(advantages="centered", reward="return")
    summary = build_datum_shards(dataset, tmp_path / "d", options)
    got = rows(tmp_path / "d")
    want = {
        "A/one": None, "A/two": None, "A/three": 1.0,
        "B/one": 3.0, "B/two": 2.0, "B/three": 1.0,
        "C/one": None, "C/two": None,
        "D/one": 1.0, "D/two": 0.0, "D/three": 0.0,
    }  # fmt: skip
    assert {name: row["reward"] for name, row in got.items()} == want
    assert {name for name, row in got.items() if row["reward_valid"]} == {
        name for name, value in want.items() if value is not None
    }
    # by hand: (3 + 1) / 2, (2 + 0) / 2, (1 + 1 + 0) / 3
    means = {"one": 2.0, "two": 1.0, "three": pytest.approx(2 / 3)}
    for name, row in got.items():
        step = name[2:]
        assert row["group_mean"] == means[step]
        value = want[name]
        assert advantage(row) == (
            None if value is None else pytest.approx(value - row["group_mean"])
        )
    assert got["A/one"]["group_measured"] == 2
    assert got["A/one"]["step_reward"] == 1.0
    assert summary.unknown_returns == 2  # A/one and C/one; the step itself is measured
    assert summary.without_advantage == 4


def test_a_trial_s_reward_counts_only_where_it_is_valid(dataset: Path, tmp_path: Path) -> None:
    options = DatumOptions(advantages="centered", reward="trial")
    build_datum_shards(dataset, tmp_path / "d", options)
    got = rows(tmp_path / "d")
    assert {name: row["reward_valid"] for name, row in got.items()} == {
        name: name[0] in "BD" for name in got
    }
    # B and D alone: mean (1 + 1/3) / 2
    for name, row in got.items():
        assert row["group_mean"] == pytest.approx(2 / 3)
        want = {"B": pytest.approx(1 / 3), "D": pytest.approx(-1 / 3)}.get(name[0])
        assert advantage(row) == want
    assert got["B/one"]["passed"] is True
    assert (got["D/one"]["passed"], got["D/one"]["step_reward"]) == (False, 1.0)


@pytest.mark.parametrize(
    ("reward", "passed", "measured"),
    [
        ("step", "A/one A/three B/one B/two B/three C/one D/one", "D/two D/three"),
        ("trial", "B/one B/two B/three", "D/one D/two D/three"),
        ("return", "A/three B/one B/two B/three D/one", "D/two D/three"),
    ],
)
def test_filters_speak_of_the_chosen_reward(
    dataset: Path, tmp_path: Path, reward: str, passed: str, measured: str
) -> None:
    for only, want in (("passed", passed), ("measured", f"{passed} {measured}")):
        options = DatumOptions(only=only, reward=reward)
        build_datum_shards(dataset, tmp_path / only, options)
        assert set(rows(tmp_path / only)) == set(want.split())


REWARD_OF = {
    "verl": lambda row: row["reward_score"],
    "skyrl": lambda row: row["rewards"],
    "slime": lambda row: row["reward"],
    "trl-grpo": lambda row: row["reward"],
    "nemo-rl": lambda row: row["total_reward"],
    "areal": lambda row: row["rewards"],
}


@pytest.mark.parametrize("target", [name for name, one in TARGETS.items() if one.needs_reward])
@pytest.mark.parametrize("reward", ["step", "trial", "return"])
def test_exports_carry_the_chosen_reward(
    dataset: Path, tmp_path: Path, target: str, reward: str
) -> None:
    build_datum_shards(dataset, tmp_path / "d", DatumOptions(reward=reward))
    chosen = [row.reward for row in iter_datums(tmp_path / "d") if row.reward_valid]
    summary = export_datums(tmp_path / "d", tmp_path / "x", target)
    assert summary.reward == reward
    found: list[Any] = []
    for name in summary.files:
        file = tmp_path / "x" / name
        found += (
            pq.read_table(file).to_pylist()
            if file.suffix == ".parquet"
            else [json.loads(line) for line in file.read_text().splitlines()]
        )
    assert [REWARD_OF[target](row) for row in found] == pytest.approx(chosen, rel=1e-6)
    assert summary.refused == {"no_reward": summary.datums - len(chosen)}
    if reward == "trial":
        assert sorted(set(chosen)) == pytest.approx([1 / 3, 1.0])


def changed(place: Path, letter: str, change: Any) -> Path:
    """A copy of the trials of which one result is another."""
    shutil.copytree(FAULT, place / "jobs")
    file = place / f"jobs/j/multi__{letter}000001/result.json"
    result = json.loads(file.read_text())
    change(result)
    file.write_text(json.dumps(result))
    return place / "jobs"


def min_reward(result: Change) -> None:
    """Step two fell below its min_reward: Harbor ran no more, and the trial's reward counts."""
    del result["step_results"][2]
    result["verifier_result"] = {"rewards": {"reward": 0.5}}


def cancelled_between_steps(result: Change) -> None:
    """Both recorded steps are graded; the third never ran, for a reason outside of them."""
    del result["step_results"][2]
    result["exception_info"] = {
        "exception_type": "CancelledError",
        "exception_message": "",
        "exception_traceback": "",
        "occurred_at": "2026-05-01T10:45:00Z",
        "policy": {"should_retry": False, "should_grade": False, "has_valid_reward": False},
    }
    result["reward_valid"] = False


def cancelled_as_older_harbor_writes_it(result: Change) -> None:
    cancelled_between_steps(result)
    del result["reward_valid"]
    del result["exception_info"]["policy"]
    result["verifier_result"] = None


def stopped_between_steps(result: Change) -> None:
    """As Harbor counts types that it does not know, the trial's reward is valid."""
    cancelled_between_steps(result)
    result["exception_info"] = {"exception_type": "RuntimeError"}
    result["reward_valid"] = True


def damaged(result: Change) -> None:
    result["step_results"][1] = "torn"


def unfinished(result: Change) -> None:
    result["finished_at"] = None


def later_invalid(result: Change) -> None:
    """The last step was graded after its agent lost the provider: the grade does not count."""
    result["step_results"][2]["exception_info"] = {
        "exception_type": "AuthenticationError",
        "exception_message": "",
        "exception_traceback": "",
        "occurred_at": "2026-05-01T10:20:00Z",
        "policy": {"should_retry": True, "should_grade": True, "has_valid_reward": False},
    }
    result["reward_valid"] = False


def key_missing(result: Change) -> None:
    result["step_results"][2]["verifier_result"] = {"rewards": {"style": 1.0}}


def timed_out_and_graded(result: Change) -> None:
    """The agent's own timeout: the grade counts."""
    result["step_results"][2]["exception_info"] = {
        "exception_type": "AgentTimeoutError",
        "exception_message": "",
        "exception_traceback": "",
        "occurred_at": "2026-05-01T10:20:00Z",
        "policy": {"should_retry": False, "should_grade": True, "has_valid_reward": True},
    }


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (min_reward, {"one": 1.0, "two": 0.0}),
        (cancelled_between_steps, {"one": None, "two": None}),
        (cancelled_as_older_harbor_writes_it, {"one": None, "two": None}),
        (stopped_between_steps, {"one": None, "two": None}),
        (damaged, {"one": None, "three": None}),
        (unfinished, {"one": None, "two": None, "three": None}),
        (later_invalid, {"one": None, "two": None, "three": None}),
        (key_missing, {"one": None, "two": None, "three": None}),
        (timed_out_and_graded, {"one": 1.0, "two": 0.0, "three": 0.0}),
    ],
)
def test_what_comes_after_a_step(tmp_path: Path, change: Any, want: dict[str, Any]) -> None:
    shards = built(changed(tmp_path, "D", change), tmp_path / "shards")
    build_datum_shards(shards, tmp_path / "d", DatumOptions(reward="return"))
    got = {name[2:]: row["reward"] for name, row in rows(tmp_path / "d").items() if name[0] == "D"}
    assert got == want


def test_passed_of_the_trial_s_reward_follows_the_build(tmp_path: Path) -> None:
    shards = built(FAULT, tmp_path / "shards", pass_at=0.3)
    build_datum_shards(shards, tmp_path / "d", DatumOptions(reward="trial", only="passed"))
    assert {name[0] for name in rows(tmp_path / "d")} == {"B", "D"}


def test_a_single_step_trial_has_one_reward(tmp_path: Path) -> None:
    """A cell's grade is the trial's too: the result's own stays in `trial_reward`."""
    trials = Path(__file__).parents[2] / "fixtures/faults/grpo-rounding-noise/jobs"
    cell = {"task_id": "t", "attempt": 1, "reward": 0.75, "passed": False,
            "artifact_dir": "j/t__n0"}  # fmt: skip
    (tmp_path / "cells.json").write_text(json.dumps([cell]))
    shards = built(trials, tmp_path / "shards", cells=tmp_path / "cells.json")
    for reward in ("step", "trial", "return"):
        build_datum_shards(shards, tmp_path / reward, DatumOptions(reward=reward))
        (row,) = iter_datums(tmp_path / reward)
        assert row.reward == row.step_reward == 0.75
        assert row.trial_reward == pytest.approx(0.3)


def test_one_predicate_of_what_is_measured(tmp_path: Path) -> None:
    """A cell's infrastructure failure is outside of statistics, filters and groups alike."""
    trials = Path(__file__).parents[2] / "fixtures/faults/grpo-rounding-noise/jobs"
    cells = [
        {"task_id": "t", "attempt": n + 1, "reward": float(n > 1), "passed": n > 1,
         "artifact_dir": f"j/t__n{n}", "infra_failed": n == 3}
        for n in range(4)
    ]  # fmt: skip
    (tmp_path / "cells.json").write_text(json.dumps(cells))
    shards = built(trials, tmp_path / "shards", cells=tmp_path / "cells.json")
    assert rollout_stats(scan(shards)).measured == 3
    assert sum(record.measured for record in iter_records(shards)) == 3
    build_datum_shards(shards, tmp_path / "d", DatumOptions(advantages="centered"))
    found = list(iter_datums(tmp_path / "d"))
    assert {row.group_measured for row in found} == {3}
    assert sum(row.reward_valid is True for row in found) == 3
    assert export_datums(tmp_path / "d", tmp_path / "x", "verl").exported == 3
    build_datum_shards(shards, tmp_path / "m", DatumOptions(only="measured"))
    assert len(list(iter_datums(tmp_path / "m"))) == 3
