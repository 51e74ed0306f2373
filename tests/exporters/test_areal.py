"""AReaL's form: the columns, the padding, and AReaL's own tensors where it is installed."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.exporters.rows import datum_row
from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.areal import TARGETS, areal_trajectories
from wmo_distill.exporters.files import EXPORT, RowFiles
from wmo_distill.exporters.target import Place, Refusal
from wmo_distill.outputs.parts import writing

RL, SFT = TARGETS


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Rows as they come back from the file."""

    def write(rows: list[tuple[DatumRow, Place]], target: Any = RL) -> list[dict[str, Any]]:
        with writing(tmp_path, EXPORT) as parts:
            with RowFiles(parts, target.schema) as files:
                for row, place in rows:
                    files.add(target.convert(row, place), row.datum.token_ids.size)
            table = pa.concat_tables([pq.read_table(parts.place / p.file) for p in parts.parts])
        assert table.schema.names == target.schema.names
        return table.to_pylist()

    return write


def batch() -> list[tuple[DatumRow, Place]]:
    """Two groups whose episodes alternate; the second episode is in two sequences."""
    return [
        (datum_row(), Place(0, 0, 0, 0, True)),
        (datum_row([(5, 1)], episode="e1", seed=1), Place(1, 1, 1, 0, False)),
        (datum_row([(2, 2), (1, 4)], episode="e1", fragment=1), Place(2, 1, 1, 1, True)),
        (datum_row([(4, 9)], episode="e2", seed=2, reward=0.5), Place(3, 2, 0, 0, True)),
    ]


def test_every_token_has_its_place(written: Any) -> None:
    row = datum_row()
    datum = row.datum
    (got,) = written([(row, Place(3, 2, 1, 0, True))])
    assert got["input_ids"] == datum.token_ids.tolist()
    for i in range(datum.token_ids.size):
        trained = bool(datum.loss_mask[i])
        assert got["loss_mask"][i] == int(trained)
        assert got["logprobs"][i] == np.float32(datum.sampled_logprobs[i])
        assert (got["logprobs"][i] == 0.0) == (not trained)
        assert got["versions"][i] == (7 if trained else -1)
    assert got["rewards"] == 1.0
    assert (got["group"], got["episode"], got["episode_id"]) == (1, 2, "e0")


def test_versions_from_what_was_recorded(written: Any) -> None:
    def versions(**values: Any) -> Any:
        (got,) = written([(datum_row([(1, 1)], **values), Place(0, 0, 0, 0, True))])
        return got["versions"]

    assert versions(train_step=3, policy_version="9") == [-1, 3]
    assert versions(train_step=None, policy_version="9") == [-1, 9]
    assert versions(train_step=None, policy_version="a1b2") is None
    assert versions(train_step=None, policy_version="20261129120000") is None
    assert versions(train_step=None, policy_version=None) is None


def test_first_token_is_not_trained(written: Any) -> None:
    (got,) = written([(datum_row([(0, 3)]), Place(0, 0, 0, 0, True))])
    assert got["loss_mask"] == [0, 1, 1]
    assert got["logprobs"][0] == 0.0
    assert got["versions"] == [-1, 7, 7]


def test_supervised_form(written: Any) -> None:
    row = datum_row()
    (got,) = written([(row, Place(0, 0, 0, 0, True))], SFT)
    assert got == {
        "input_ids": row.datum.token_ids.tolist(),
        "loss_mask": row.datum.loss_mask.astype(int).tolist(),
    }


def test_reward_that_is_not_measured_is_refused() -> None:
    assert RL.refusal(datum_row(reward=None)) is Refusal.NO_REWARD
    assert RL.refusal(datum_row(reward_valid=False)) is Refusal.NO_REWARD
    assert SFT.refusal(datum_row(reward=None)) is None


def test_a_dict_of_tensors_for_each_group(written: Any) -> None:
    torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")
    datums = batch()
    first, second = areal_trajectories(written(datums))
    for got, members in ((first, (0, 3)), (second, (1, 2))):
        longest = max(datums[at][0].datum.token_ids.size for at in members)
        assert {name: (t.dtype, tuple(t.shape)) for name, t in got.items()} == {
            "input_ids": (torch.int32, (2, longest)),
            "loss_mask": (torch.int32, (2, longest)),
            "logprobs": (torch.float32, (2, longest)),
            "versions": (torch.int32, (2, longest)),
            "attention_mask": (torch.bool, (2, longest)),
            "rewards": (torch.float32, (2,)),
        }
        for line, at in enumerate(members):
            datum = datums[at][0].datum
            n = datum.token_ids.size
            assert got["input_ids"][line, :n].tolist() == datum.token_ids.tolist()
            assert got["loss_mask"][line, :n].tolist() == datum.loss_mask.tolist()
            assert got["attention_mask"][line].tolist() == [True] * n + [False] * (longest - n)
            assert not got["input_ids"][line, n:].any()
            assert got["rewards"][line].item() == datums[at][0].reward


def test_versions_are_left_out_unless_all_have_them(written: Any) -> None:
    pytest.importorskip("torch", reason="`make test-trainers` installs it")
    rows = batch()
    rows[0] = (datum_row(train_step=None, policy_version=None), rows[0][1])
    for got in areal_trajectories(written(rows)):
        assert "versions" not in got


def test_tensors_are_those_of_areals_own_chat(written: Any) -> None:
    """Two calls of one chat through AReaL's interaction record, the second a child of the first."""
    types = pytest.importorskip(
        "areal.experimental.openai.types", reason="`make test-trainers` installs it"
    )
    import torch
    from areal.api.io_struct import ModelResponse

    row = datum_row()
    datum, parent = row.datum, None
    for start, length in zip(datum.call_starts, datum.call_lengths, strict=True):
        run = slice(start, start + length)
        response = ModelResponse(
            input_tokens=datum.token_ids[:start].tolist(),
            output_tokens=datum.token_ids[run].tolist(),
            output_logprobs=datum.sampled_logprobs[run].tolist(),
            output_versions=[7] * length,
        )
        parent = types.InteractionWithTokenLogpReward(
            model_response=response, parent=parent, chat_template_type="concat", reward=1.0
        )
    assert parent is not None
    theirs = parent.to_tensor_dict()
    (ours,) = areal_trajectories(written([(row, Place(0, 0, 0, 0, True))]))
    assert set(ours) == set(theirs)
    for name, tensor in theirs.items():
        assert ours[name].shape == tensor.shape, name
        # Its single-turn workflow has int32 where this record has int64.
        assert torch.equal(ours[name], tensor.to(ours[name].dtype)), name


def test_groups_are_as_areal_concatenates_them(written: Any) -> None:
    data = pytest.importorskip("areal.utils.data", reason="`make test-trainers` installs it")
    import torch

    rows = written(batch())
    grouped = areal_trajectories(rows)
    singles = [areal_trajectories([row])[0] for row in rows]
    for ours, members in zip(grouped, ((0, 3), (1, 2)), strict=True):
        theirs = data.concat_padded_tensors([singles[at] for at in members])
        assert set(ours) == set(theirs)
        for name, tensor in theirs.items():
            assert ours[name].dtype == tensor.dtype, name
            assert torch.equal(ours[name], tensor), name
    whole, meta = data.concat_batch(grouped)
    packed = data.pack_tensor_dict(whole)
    order = [rows[at]["input_ids"] for at in (0, 3, 1, 2)]
    assert meta.traj_group_sizes == [2, 2]
    assert packed["input_ids"].tolist() == [token for ids in order for token in ids]


def test_areals_advantages_land_on_the_trained_tokens(written: Any) -> None:
    """AReaL shifts mask and log-probabilities by one itself, and wraps the first to the end."""
    actor = pytest.importorskip(
        "areal.trainer.ppo.actor", reason="`make test-trainers` installs it"
    )
    from types import SimpleNamespace

    made = object.__new__(actor.PPOActor)
    made.config = SimpleNamespace(
        overlong_reward_penalty=False, use_decoupled_loss=False, recompute_logprob=False
    )
    made.reward_bias, made.reward_scaling, made.reward_clip = 0.0, 1.0, 20.0
    made.reward_norm = made.adv_norm = None
    made.kl_ctl, made.discount, made.gae_lambda = 0.0, 1.0, 1.0
    made.kl_estimator = lambda first, second: first - second
    made.mask_no_eos_with_zero = False
    rows = [datum_row([(0, 3), (2, 2)]), datum_row([(3, 2), (1, 1)], seed=1)]
    (data,) = areal_trajectories(
        written([(row, Place(at, at, 0, 0, True)) for at, row in enumerate(rows)])
    )
    got = made._compute_advantages(data)
    for at, row in enumerate(rows):
        datum = row.datum
        want = np.append(datum.loss_mask[1:], False)
        assert got["loss_mask"][at].tolist() == want.tolist()
        logprobs = np.where(want, np.roll(datum.sampled_logprobs, -1), 0.0).astype(np.float32)
        assert got["logprobs"][at].tolist() == logprobs.tolist()
        assert (got["advantages"][at][want] == 1.0).all()


def test_supervised_rows_as_areal_collates_them(written: Any) -> None:
    data = pytest.importorskip("areal.utils.data", reason="`make test-trainers` installs it")
    datums = [row for row, _ in batch()]
    rows = written([(row, Place(0, 0, 0, 0, True)) for row in datums], SFT)
    got = data.pad_sequences_to_tensors(rows)
    for at, row in enumerate(datums):
        n = row.datum.token_ids.size
        assert got["attention_mask"][at].sum() == n
        assert got["input_ids"][at, :n].tolist() == row.datum.token_ids.tolist()
        assert got["loss_mask"][at, :n].tolist() == row.datum.loss_mask.tolist()
    assert [len(sample["input_ids"][0]) for sample in data.collate_samples_to_list(rows)] == [
        row.datum.token_ids.size for row in datums
    ]
