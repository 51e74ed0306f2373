"""How trainers compare the sequences of a group: which target names uneven ones, and why."""

import math
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.exporters.rows import datum_row
from tests.exporters.test_ends import DECLARED, FAULTS, call, exported, lines, record
from tests.proof.chats import dataset
from wmo_distill.cli.app import app
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.exporters.grouping import GroupReason
from wmo_distill.exporters.run import export_datums
from wmo_distill.exporters.target import Place
from wmo_distill.exporters.trl import grpo_row, rollouts
from wmo_distill.pipeline.build import build


def test_trl_s_rows_name_their_episode(tmp_path: Path) -> None:
    """t__a is three sequences with reward 0, t__b one with 1: their mean is 0.5, not 0.25."""
    build([FAULTS / "trl-grpo-fan-out/jobs"], tmp_path / "s", DECLARED, workers=1)
    build_datum_shards(tmp_path / "s", tmp_path / "d")
    summary = export_datums(tmp_path / "d", tmp_path / "x", "trl-grpo")
    assert (summary.groups.episodes, summary.groups.split_episodes) == (2, 1)
    got = lines(tmp_path / "x", summary)
    assert [one["episode"] for one in got] == [0, 0, 0, 1]
    assert len({one["episode_id"] for one in got}) == 2
    assert [one["episode_step"] for one in got] == [0, 1, 2, 0]
    assert [one["episode_sequences"] for one in got] == [3, 3, 3, 1]
    assert [one["episode_last"] for one in got] == [False, False, True, True]
    assert fmean(one["reward"] for one in got) == 0.25
    assert fmean(one["reward"] for one in got if one["episode_last"]) == 0.5
    columns = rollouts(got)
    required = {"prompt_ids", "completion_ids", "logprobs", "env_mask"}
    # All other fields go to the reward function, which can tell the rows apart.
    assert {"episode_id", "episode_last", "reward"} <= set(columns) - required


def test_trl_s_baseline_counts_an_episode_once_where_its_other_rows_have_no_reward(
    tmp_path: Path,
) -> None:
    """The sum that TRL does on rewards: nanmean over runs of num_generations, as its source has."""
    torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")
    build([FAULTS / "trl-grpo-fan-out/jobs"], tmp_path / "s", DECLARED, workers=1)
    build_datum_shards(tmp_path / "s", tmp_path / "d")
    got = exported(tmp_path / "d", tmp_path / "x", "trl-grpo")
    rewards = torch.tensor([one["reward"] if one["episode_last"] else math.nan for one in got])
    assert torch.nanmean(rewards.view(-1, 4), dim=1).tolist() == [0.5]


def test_rows_of_a_group_stand_side_by_side() -> None:
    rows = [grpo_row(datum_row(episode=f"e{n}"), Place(n, n, n % 2, 0, True)) for n in range(4)]
    assert rollouts(rows)["episode"] == [0, 2, 1, 3]


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of 4, 4 and 2 episodes; one episode of the second is in two sequences."""
    place = tmp_path_factory.mktemp("uneven")
    records = [record(n, [call(0, [1], [2])], reward=float(n % 2)) for n in range(10)]
    records[5] = record(5, [call(0, [1], [2]), call(1, [7], [8])])
    records[9] = record(9, [call(0, [3], [4])])
    build_datum_shards(dataset(place / "s", records), place / "d")
    return place / "d"


@pytest.mark.parametrize("target", ["areal", "trl-grpo", "slime"])
def test_uneven_groups_are_named(uneven: Path, tmp_path: Path, target: str) -> None:
    groups = export_datums(uneven, tmp_path / "x", target).groups
    assert (groups.groups, groups.episodes, groups.split_episodes) == (3, 10, 1)
    # of sizes 4, 5 and 2, each found once, the largest is taken for the usual one
    assert groups.usual_rows == 5
    assert [(one.group, one.rows, one.episodes) for one in groups.odd] == [
        ("g0", 4, 4), ("g2", 2, 2)
    ]  # fmt: skip
    assert {one.reason for one in groups.odd} == {GroupReason.SIZE}


def test_groups_whose_prompts_differ_are_named(uneven: Path, tmp_path: Path) -> None:
    groups = export_datums(uneven, tmp_path / "x", "nemo-rl").groups
    assert [(one.group, one.prompts) for one in groups.odd] == [("g1", 2), ("g2", 2)]
    assert {one.reason for one in groups.odd} == {GroupReason.PROMPT}
    assert groups.usual_rows is None


@pytest.mark.parametrize("target", ["verl", "skyrl"])
def test_groups_by_name_may_have_any_size(uneven: Path, tmp_path: Path, target: str) -> None:
    groups = export_datums(uneven, tmp_path / "x", target).groups
    assert (groups.odd_groups, groups.split_episodes) == (0, 1)


def test_the_command_names_such_groups(uneven: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    done = run(app, ["export", str(uneven), "-o", str(tmp_path / "x"), "--to", "areal"])
    assert done.exit_code == 0
    assert "of several sequences   1" in done.stdout
    assert "5 in most groups; groups with another number: 2 of 3: g0 (4 rows" in done.stderr
    assert "1 of 10 episodes are several rows and count several times" in done.stderr
    done = run(app, ["export", str(uneven), "-o", str(tmp_path / "y"), "--to", "nemo-rl"])
    assert "different prompts: 2 of 3: g1 (5 rows, 4 episodes, 2 prompts), " in done.stderr
    assert "count several times" not in done.stderr


def test_nemo_rl_groups_by_the_messages_within_length(uneven: Path, tmp_path: Path) -> None:
    """As its `extract_initial_prompt_messages` does: messages until `length` tokens are there."""
    for one in exported(uneven, tmp_path / "x", "nemo-rl"):
        taken: list[int] = []
        for message in one["message_log"]:
            if len(taken) >= one["length"]:
                break
            taken += message["token_ids"]
        assert taken == one["message_log"][0]["token_ids"]


def fan_out(tmp_path: Path, target: str) -> list[Any]:
    build([FAULTS / "trl-grpo-fan-out/jobs"], tmp_path / "s", DECLARED, workers=1)
    build_datum_shards(tmp_path / "s", tmp_path / "d")
    summary = export_datums(tmp_path / "d", tmp_path / "x", target)
    if target == "areal":
        (name,) = summary.files
        return list(pq.read_table(tmp_path / "x" / name).to_pylist())
    return lines(tmp_path / "x", summary)


def test_verl_counts_each_row_but_in_its_v1_trainer(tmp_path: Path) -> None:
    """What the README says of verl, by verl's own sums: baselines 0.25 and 0.5."""
    torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")
    core = pytest.importorskip("verl.trainer.ppo.core_algos")
    got = fan_out(tmp_path, "verl")
    scores = torch.tensor([[one["reward_score"]] for one in got])
    uids = np.array([one["extra_fields"]["uid"] for one in got])
    parts, _ = core.compute_grpo_outcome_advantage(
        scores, torch.ones(4, 1), uids, norm_adv_by_std_in_grpo=False
    )
    assert parts[:, 0].tolist() == [-0.25, -0.25, -0.25, 0.75]
    last = [one["extra_fields"]["episode_last"] for one in got]
    parts, _ = core.compute_grpo_outcome_advantage(
        scores[last], torch.ones(2, 1), uids[last], norm_adv_by_std_in_grpo=False
    )
    assert parts[:, 0].tolist() == [-0.5, 0.5]


def test_areal_cuts_runs_of_a_group_size(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")
    data = pytest.importorskip("areal.utils.data")
    arguments = pytest.importorskip("areal.api.cli_args")
    rewards = torch.tensor([one["rewards"] for one in fan_out(tmp_path, "areal")])
    norm = data.Normalization(
        arguments.NormConfig(mean_level="group", std_level=None, group_size=4)
    )
    assert norm(rewards).tolist() == [-0.25, -0.25, -0.25, 0.75]
