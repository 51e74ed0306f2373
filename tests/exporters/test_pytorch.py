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
from wmo_distill.errors import UsageError  # noqa: E402
from wmo_distill.exporters.items import PER_TOKEN  # noqa: E402
from wmo_distill.exporters.pytorch import DatumDataset, collate  # noqa: E402


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


def loader(data: DatumDataset, workers: int = 0, **more: Any) -> Any:
    return torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, **more)


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_epoch_reaches_the_workers(datums: Path, persistent: bool, context: str) -> None:
    """And its order is that of one process."""
    data, alone = DatumDataset(datums, seed=11), DatumDataset(datums, seed=11)
    workers = loader(data, 2, persistent_workers=persistent, multiprocessing_context=context)
    orders = []
    for epoch in range(2 if context == "spawn" else 3):
        data.set_epoch(epoch)
        alone.set_epoch(epoch)
        orders.append(ids(workers))
        assert orders[-1] == ids(alone)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("pack_tokens", [None, 70])
def test_it_goes_on_where_it_stood(datums: Path, workers: int, pack_tokens: int | None) -> None:
    def made() -> DatumDataset:
        return DatumDataset(datums, seed=1, pack_tokens=pack_tokens)

    whole = made()
    whole.set_epoch(5)
    epoch = ids(whole)
    for done in (0, 1, 9, len(epoch)):
        again = made()
        again.load_state_dict(whole.state_dict(done=done))
        assert again.state_dict()["done"] == done
        reader = loader(again, workers, persistent_workers=bool(workers))
        assert ids(reader) == epoch[done:]
        # Once: the next pass of the same epoch is whole.
        assert ids(reader) == epoch


@pytest.mark.parametrize("workers", [0, 2])
def test_the_usual_loop_trains_each_sequence_once(datums: Path, workers: int) -> None:
    alone = DatumDataset(datums)
    epochs = []
    for epoch in range(3):
        alone.set_epoch(epoch)
        epochs.append(ids(alone))
    data = DatumDataset(datums)
    data.load_state_dict({"epoch": 1, "done": 12})
    reader = loader(data, workers, persistent_workers=bool(workers))
    trained = []
    for epoch in range(data.epoch, 3):
        data.set_epoch(epoch)
        trained += ids(reader)
    assert trained == epochs[1][12:] + epochs[2]


def test_the_position_without_workers(datums: Path) -> None:
    data = DatumDataset(datums, seed=1)
    data.set_epoch(5)
    reader = iter(data)
    begun = ids([next(reader) for _ in range(17)])
    again = DatumDataset(datums, seed=1)
    again.load_state_dict(data.state_dict())
    assert again.epoch == 5
    again.set_epoch(5)
    whole = DatumDataset(datums, seed=1)
    whole.set_epoch(5)
    assert begun + ids(again) == ids(whole)


def test_a_state_of_something_else_is_refused(datums: Path) -> None:
    state = DatumDataset(datums, seed=1).state_dict()
    for other in ({"seed": 2}, {"seed": 1, "pack_tokens": 9}, {"seed": 1, "world_size": 2}):
        with pytest.raises(UsageError, match="expected a state of the same"):
            DatumDataset(datums, **other).load_state_dict(state)
    DatumDataset(datums, seed=1, batch_size=4).load_state_dict(state)
    for wrong in ({"rank": 1}, {"batch_size": 0}, {"equal_steps": "some"}):
        with pytest.raises(UsageError, match="expected"):
            DatumDataset(datums, **wrong)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on(datums: Path, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def made() -> Any:
        return stateful(DatumDataset(datums, seed=4), batch_size=None, num_workers=workers)

    whole = ids(made())
    for done in (1, 6, 15):
        first = made()
        reader = iter(first)
        begun = ids([next(reader) for _ in range(done)])
        again = made()
        again.load_state_dict(first.state_dict())
        assert begun + ids(again) == whole


@pytest.mark.parametrize("equal", ["pad", "drop"])
def test_ranks_take_equally_many_steps(datums: Path, equal: str) -> None:
    each = [
        list(DatumDataset(datums, rank=r, world_size=3, equal_steps=equal, pack_tokens=70))
        for r in range(3)
    ]
    assert len({len(items) for items in each}) == 1
    padding = [item for items in each for item in items if item["padding"]]
    assert not any(item["loss_mask"].any() for item in padding)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches(datums: Path, workers: int) -> None:
    """What a loader's collate makes is the rank's order, padded on the right."""
    data = DatumDataset(datums, batch_size=4)
    batches = list(
        torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers, collate_fn=collate)
    )
    plain = list(DatumDataset(datums))
    assert [e for batch in batches for e in batch["episode_id"]] == ids(plain)
    rows = iter(plain)
    for batch in batches:
        for at in range(len(batch["episode_id"])):
            item, n = next(rows), int(batch["attention_mask"][at].sum())
            assert item["token_ids"].numel() == n
            for name in PER_TOKEN:
                assert torch.equal(batch[name][at, :n].nan_to_num(7), item[name].nan_to_num(7))
                assert not batch[name][at, n:].any()
            assert batch["weight"][at] == item["weight"]


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
