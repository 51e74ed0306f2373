"""The PyTorch dataset: every sequence to one reader, in an order that can be had again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")

from tests.proof.chats import chat, dataset, record  # noqa: E402
from tests.proof.lm import LanguageModel  # noqa: E402
from wmo_distill.datums import writer  # noqa: E402
from wmo_distill.datums.dataset import iter_datums  # noqa: E402
from wmo_distill.datums.options import DatumOptions  # noqa: E402
from wmo_distill.datums.shards import build_datum_shards  # noqa: E402
from wmo_distill.exporters.pytorch import DatumDataset  # noqa: E402


@pytest.fixture(scope="module")
def datums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("torch")
    rng = np.random.default_rng(0)
    records = [record(chat(LanguageModel(), rng, tokens=4), n) for n in range(40)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "PART_TOKENS", 100)
        patch.setattr(writer, "GROUP_TOKENS", 50)
        options = DatumOptions(advantages="centered")
        build_datum_shards(dataset(place / "s", records), place / "d", options)
    return place / "d"


def ids(items: Any) -> list[str]:
    return [item["episode_id"] for item in items]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world", [1, 3])
def test_every_sequence_goes_to_one_reader(datums: Path, world: int, workers: int) -> None:
    seen: list[str] = []
    for rank in range(world):
        data = DatumDataset(datums, rank=rank, world_size=world, buffer=4)
        loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
        seen += ids(loader)
    assert sorted(seen) == sorted(row.datum.episode_id for row in iter_datums(datums))


def test_order(datums: Path) -> None:
    data = DatumDataset(datums, seed=3, buffer=8)
    first = ids(data)
    assert ids(DatumDataset(datums, seed=3, buffer=8)) == first
    data.set_epoch(1)
    assert ids(data) != first
    plain = ids(DatumDataset(datums, shuffle=False))
    assert plain == [row.datum.episode_id for row in iter_datums(datums)]
    assert first != plain


def test_it_goes_on_where_it_stood(datums: Path) -> None:
    data = DatumDataset(datums, seed=1)
    data.set_epoch(5)
    reader = iter(data)
    begun = ids([next(reader) for _ in range(17)])
    again = DatumDataset(datums, seed=1)
    again.load_state_dict(data.state_dict())
    whole = DatumDataset(datums, seed=1)
    whole.set_epoch(5)
    assert begun + ids(again) == ids(whole)


def test_tensors(datums: Path) -> None:
    for row, item in zip(iter_datums(datums), DatumDataset(datums, shuffle=False), strict=True):
        assert item["token_ids"].tolist() == row.datum.token_ids.tolist()
        assert item["loss_mask"].tolist() == row.datum.loss_mask.tolist()
        assert item["sampled_logprobs"].dtype == torch.float32
        assert row.datum.advantages is not None
        assert item["advantages"].tolist() == row.datum.advantages.astype(np.float32).tolist()


def test_packing(datums: Path) -> None:
    plain = list(DatumDataset(datums, shuffle=False))
    packed = list(DatumDataset(datums, shuffle=False, pack_tokens=70))
    assert len(packed) < len(plain)
    assert all(item["token_ids"].numel() <= 70 for item in packed)
    for name in ("token_ids", "loss_mask", "advantages"):
        assert torch.equal(
            torch.cat([item[name] for item in packed]), torch.cat([item[name] for item in plain])
        )
    for item in packed:
        starts = (item["position_ids"] == 0).nonzero().flatten().tolist()
        lengths = item["sequence_lengths"].tolist()
        assert starts == [sum(lengths[:i]) for i in range(len(lengths))]


def test_a_pass_that_was_left_begins_again(datums: Path) -> None:
    data = DatumDataset(datums, shuffle=False)
    whole = ids(data)
    next(iter(data))
    assert ids(data) == whole
