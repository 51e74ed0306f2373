"""What the PyTorch dataset gives: tensors, packed rows, batches that a model trains on."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")

from tests.exporters.conftest import write_datums  # noqa: E402
from tests.exporters.test_pytorch import all_keys, keys, loader  # noqa: E402
from wmo_distill.datums.dataset import iter_datums  # noqa: E402
from wmo_distill.errors import DistillError, UsageError  # noqa: E402
from wmo_distill.exporters.pytorch import DatumDataset, collate  # noqa: E402


def test_wrong_options_are_errors_before_work(small_parts: Path) -> None:
    for options, message in (
        ({"rank": 3, "world_size": 3}, "rank: expected one below world_size 3, found 3"),
        ({"rank": 1}, "rank: expected one below world_size 1, found 1"),
        ({"equal_steps": "cut"}, "equal_steps: expected pad, drop or None, found 'cut'"),
        ({"pack_tokens": 0}, "pack_tokens: expected at least 1, found 0"),
        ({"batch_size": 0}, "batch_size: expected at least 1, found 0"),
        ({"seed": -1}, "seed: expected at least 0, found -1"),
    ):
        with pytest.raises(UsageError, match=message):
            DatumDataset(small_parts, **options)
    with pytest.raises(UsageError, match="epoch: expected at least 0"):
        DatumDataset(small_parts).set_epoch(-1)


def test_tensors(small_parts: Path) -> None:
    lacking = 0
    for row, item in zip(
        iter_datums(small_parts), DatumDataset(small_parts, shuffle=False), strict=True
    ):
        assert item["token_ids"].tolist() == row.datum.token_ids.tolist()
        assert item["loss_mask"].tolist() == row.datum.loss_mask.tolist()
        assert item["sampled_logprobs"].dtype == torch.float32
        assert item["position_ids"].tolist() == list(range(row.datum.token_ids.size))
        if row.datum.advantages is None:
            lacking += 1
            assert not item["advantages_mask"].any()
            assert item["advantages"][item["loss_mask"]].isnan().all()
            continue
        assert item["advantages_mask"].tolist() == row.datum.loss_mask.tolist()
        assert item["advantages"].tolist() == row.datum.advantages.astype(np.float32).tolist()
    assert lacking >= 5


def test_packing(small_parts: Path) -> None:
    plain = list(DatumDataset(small_parts, shuffle=False))
    packed = list(DatumDataset(small_parts, shuffle=False, pack_tokens=70))
    assert len(packed) < len(plain)
    assert all(item["token_ids"].numel() <= 70 for item in packed)
    assert {tuple(item) for item in plain} == {tuple(item) for item in packed}
    for name in ("token_ids", "loss_mask", "advantages", "advantages_mask"):
        assert torch.equal(
            torch.cat([item[name] for item in packed]).nan_to_num(7),
            torch.cat([item[name] for item in plain]).nan_to_num(7),
        )
    for item in packed:
        starts = (item["position_ids"] == 0).nonzero().flatten().tolist()
        lengths = item["sequence_lengths"].tolist()
        assert starts == [sum(lengths[:i]) for i in range(len(lengths))]
        assert item["weight"].shape == item["reward"].shape == (len(lengths),)
        assert len(item["episode_id"]) == len(lengths)


@pytest.mark.parametrize("packed", [None, 60])
def test_collate(small_parts: Path, packed: int | None) -> None:
    items = list(DatumDataset(small_parts, pack_tokens=packed))[:5]
    batch = collate(items, pad_token_id=7, pad_to_multiple_of=16)
    width = batch["token_ids"].shape[1]
    assert width % 16 == 0
    assert width - 16 < max(item["token_ids"].numel() for item in items)
    assert set(batch) == {*items[0], "attention_mask", "labels"}
    for at, item in enumerate(items):
        n = item["token_ids"].numel()
        for name, value in item.items():
            if isinstance(value, torch.Tensor) and value.ndim and value.shape[0] == n:
                assert torch.equal(batch[name][at, :n].nan_to_num(7), value.nan_to_num(7)), name
                assert batch[name].dtype == value.dtype
        assert set(batch["token_ids"][at, n:].tolist()) <= {7}
        assert batch["attention_mask"][at].tolist() == [1] * n + [0] * (width - n)
        for name in ("loss_mask", "advantages", "sampled_logprobs"):
            assert not batch[name][at, n:].any()
        wanted = torch.where(item["loss_mask"], item["token_ids"], -100)
        assert torch.equal(batch["labels"][at, :n], wanted)
        assert batch["episode_id"][at] == item["episode_id"]
        assert batch["weight"][at].tolist() == item["weight"].tolist()


def test_collate_in_workers_that_were_spawned(small_parts: Path) -> None:
    data = DatumDataset(small_parts, batch_size=4)
    pad = partial(collate, pad_token_id=3)
    options = {"batch_size": 4, "collate_fn": pad, "multiprocessing_context": "spawn"}
    read = loader(data, 2, **options)
    assert len(read) == -(-len(data) // 4)
    assert sum(len(batch["weight"]) for batch in read) == len(data)


def test_a_hugging_face_model_trains_the_masked_tokens(small_parts: Path) -> None:
    """Its own shift and cross-entropy against a sum by hand over our mask."""
    transformers = pytest.importorskip("transformers", reason="`make test-trainers` installs it")
    items = list(DatumDataset(small_parts))[:3]
    batch = collate(items)
    config = transformers.GPT2Config(
        vocab_size=int(batch["token_ids"].max()) + 1, n_layer=1, n_head=1, n_embd=8,
        n_positions=512, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        loss = model(
            input_ids=batch["token_ids"],
            attention_mask=batch["attention_mask"],
            labels=batch["labels"],
        ).loss
        total, count = 0.0, 0
        for item in items:
            logprobs = model(input_ids=item["token_ids"][None]).logits[0].log_softmax(-1)
            for at in item["loss_mask"].nonzero().flatten().tolist():
                total -= float(logprobs[at - 1, item["token_ids"][at]])
                count += 1
    assert count == sum(int(item["loss_mask"].sum()) for item in items) > 0
    assert float(loss) == pytest.approx(total / count, rel=1e-4)


def test_datums_that_were_built_again_end_the_pass(tmp_path: Path) -> None:
    write_datums(tmp_path / "d", count=12)
    data = DatumDataset(tmp_path / "d")
    reader: Iterator[Any] = iter(data)
    next(reader)
    write_datums(tmp_path / "d", count=13, seed=1)
    with pytest.raises(DistillError, match="built again"):
        list(reader)
    with pytest.raises(DistillError, match="built again; open them again"):
        iter(data)
    assert sorted(keys(DatumDataset(tmp_path / "d"))) == sorted(all_keys(tmp_path / "d"))
