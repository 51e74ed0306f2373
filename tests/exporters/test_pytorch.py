"""The PyTorch dataset under PyTorch's own DataLoader, and torchdata's stateful one."""

import json
import multiprocessing
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")

from tests.exporters.conftest import write_datums  # noqa: E402
from wmo_distill.datums.dataset import iter_datums  # noqa: E402
from wmo_distill.errors import UsageError  # noqa: E402
from wmo_distill.exporters.pytorch import DatumDataset, collate  # noqa: E402

Key = tuple[str, int, int]


def key(item: Any) -> Key:
    return item["episode_id"], int(item["segment"]), int(item["fragment_index"])


def keys(items: Any) -> list[Key]:
    return [key(item) for item in items]


def all_keys(datums: Path) -> list[Key]:
    return [
        (row.datum.episode_id, row.datum.segment, row.datum.fragment_index)
        for row in iter_datums(datums)
    ]


def batch_keys(batches: Any) -> list[Key]:
    return [
        one
        for batch in batches
        for one in zip(
            batch["episode_id"],
            batch["segment"].tolist(),
            batch["fragment_index"].tolist(),
            strict=True,
        )
    ]


def loader(data: Any, workers: int = 0, **options: Any) -> Any:
    return torch.utils.data.DataLoader(
        data, **{"batch_size": None, "num_workers": workers, **options}
    )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world", [1, 3])
def test_every_sequence_goes_to_one_reader(small_parts: Path, world: int, workers: int) -> None:
    seen: list[Key] = []
    for rank in range(world):
        data = DatumDataset(small_parts, rank=rank, world_size=world, buffer=4)
        own = keys(loader(data, workers))
        assert len(own) == len(data)
        seen += own
    assert sorted(seen) == sorted(all_keys(small_parts))


@pytest.mark.parametrize("batch_size", [None, 3])
def test_the_order_is_that_of_no_workers(small_parts: Path, batch_size: int | None) -> None:
    def order(workers: int) -> list[Any]:
        data = DatumDataset(small_parts, seed=3, buffer=8, batch_size=batch_size or 1)
        read = loader(data, workers, batch_size=batch_size, collate_fn=batch_size and collate)
        return [one["episode_id"] for one in read]

    assert order(0) == order(1) == order(2) == order(3)


def test_order(small_parts: Path) -> None:
    data = DatumDataset(small_parts, seed=3, buffer=8)
    first = keys(data)
    assert keys(DatumDataset(small_parts, seed=3, buffer=8)) == first
    assert keys(data) == first, "a second pass without set_epoch is the same"
    data.set_epoch(1)
    assert keys(data) != first
    data.set_epoch(0)
    assert keys(data) == first
    plain = keys(DatumDataset(small_parts, shuffle=False))
    assert plain == all_keys(small_parts) != first


@pytest.mark.parametrize(
    ("context", "persistent"), [("fork", True), ("fork", False), ("spawn", True)]
)
def test_an_epoch_set_here_reaches_workers(
    small_parts: Path, persistent: bool, context: str
) -> None:
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {context}")
    data = DatumDataset(small_parts, seed=11)
    read = loader(data, 2, persistent_workers=persistent, multiprocessing_context=context)
    for epoch in (0, 1, 2, 2, 0):
        data.set_epoch(epoch)
        alone = DatumDataset(small_parts, seed=11)
        alone.set_epoch(epoch)
        assert keys(read) == keys(alone)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("done", [1, 12, 46])
def test_the_usual_loop_goes_on(
    small_parts: Path, workers: int, persistent: bool, done: int
) -> None:
    """What a run that was not stopped reads, in its order, with any number of workers."""
    whole = DatumDataset(small_parts, seed=5)
    wanted = []
    for epoch in range(2, 5):
        whole.set_epoch(epoch)
        wanted += keys(whole)[done if epoch == 2 else 0 :]
    whole.set_epoch(2)
    state = json.loads(json.dumps(whole.state_dict(done=done)))
    data = DatumDataset(small_parts, seed=5)
    data.load_state_dict(state)
    read = loader(data, workers, persistent_workers=persistent and workers > 0)
    found = []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the loaded position")
        for epoch in range(state["epoch"], 5):
            data.set_epoch(epoch)
            found += keys(read)
    assert found == wanted


def test_it_goes_on_where_this_process_stood(small_parts: Path) -> None:
    data = DatumDataset(small_parts, seed=1)
    data.set_epoch(5)
    reader = iter(data)
    begun = keys([next(reader) for _ in range(17)])
    again = DatumDataset(small_parts, seed=1)
    again.load_state_dict(data.state_dict())
    assert data.state_dict()["done"] == 17
    whole = DatumDataset(small_parts, seed=1)
    whole.set_epoch(5)
    assert begun + keys(again) == keys(whole)
    assert again.state_dict()["done"] == len(whole)
    again.load_state_dict(data.state_dict())
    rest = iter(again)
    next(rest)
    assert again.state_dict()["done"] == 18, "those before the resume count"


def test_a_state_of_a_run_with_workers_needs_what_was_trained(small_parts: Path) -> None:
    data = DatumDataset(small_parts, batch_size=4)
    assert data.state_dict()["done"] == 0
    read = iter(loader(data, 2, batch_size=4, collate_fn=collate))
    begun = batch_keys([next(read) for _ in range(3)])
    with pytest.raises(UsageError, match=r"state_dict: expected `done`.*state_dict\(done="):
        data.state_dict()
    again = DatumDataset(small_parts, batch_size=4)
    again.load_state_dict(data.state_dict(done=3 * 4))
    assert again.state_dict()["done"] == 12
    rest = batch_keys(loader(again, 3, batch_size=4, collate_fn=collate))
    assert begun + rest == keys(DatumDataset(small_parts))


@pytest.mark.parametrize(
    ("workers", "stop", "packed"),
    [(0, 5, None), (0, 5, 60), (1, 1, None), (2, 0, None), (2, 5, None), (2, 3, 60), (3, 5, None)],
)
def test_torchdata_resumes_exactly(
    small_parts: Path, workers: int, stop: int, packed: int | None
) -> None:
    stateful = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="`make test-trainers` installs it"
    )

    def made() -> Any:
        data = DatumDataset(small_parts, seed=7, batch_size=2, pack_tokens=packed)
        return data, stateful.StatefulDataLoader(
            data, batch_size=2, num_workers=workers, collate_fn=collate
        )

    def ids(batches: Any) -> list[Any]:
        return [batch["token_ids"].tolist() for batch in batches]

    data, read = made()
    data.set_epoch(1)
    steps = iter(read)
    begun = ids([next(steps) for _ in range(stop)])
    state = pickle.loads(pickle.dumps(read.state_dict()))
    wanted = begun + ids(steps)
    data, read = made()
    read.load_state_dict(state)
    data.set_epoch(1)
    assert begun + ids(read) == wanted
    data.set_epoch(2)
    following, fresh = made()
    following.set_epoch(2)
    assert ids(read) == ids(fresh)


def test_a_state_of_something_else_is_refused(small_parts: Path, tmp_path: Path) -> None:
    state = DatumDataset(small_parts).state_dict(done=7)
    for name, value in (
        ("world_size", 2),
        ("seed", 1),
        ("shuffle", False),
        ("buffer", 3),
        ("pack_tokens", 99),
    ):
        more = {"rank": 0, "world_size": 1, name: value}
        with pytest.raises(UsageError, match=f"state: {name}: expected {value!r}"):
            DatumDataset(small_parts, **more).load_state_dict(state)
    write_datums(tmp_path / "d", count=20, seed=1)
    with pytest.raises(UsageError, match="state: datums: expected"):
        DatumDataset(tmp_path / "d").load_state_dict(state)
    with pytest.raises(UsageError, match="state: worker: expected None, found 0"):
        DatumDataset(small_parts).load_state_dict({**state, "worker": 0})
    with pytest.warns(UserWarning, match="no fingerprint"):
        DatumDataset(small_parts).load_state_dict({"epoch": 0, "done": 3})


def test_a_position_is_not_dropped_in_silence(small_parts: Path) -> None:
    data = DatumDataset(small_parts)
    data.load_state_dict(data.state_dict(done=7))
    with pytest.warns(UserWarning, match="position in epoch 0 is dropped: epoch 1"):
        data.set_epoch(1)
    assert len(list(data)) == len(data)


@pytest.mark.parametrize("packed", [None, 60])
@pytest.mark.parametrize("equal", ["pad", "drop"])
@pytest.mark.parametrize("workers", [0, 2])
def test_equal_steps(small_parts: Path, equal: Any, packed: int | None, workers: int) -> None:
    steps, trained, padding = [], 0, 0
    for rank in range(5):
        data = DatumDataset(
            small_parts, rank=rank, world_size=5, equal_steps=equal, pack_tokens=packed
        )
        items = list(loader(data, workers))
        steps.append(len(items))
        trained += sum(int(item["loss_mask"].sum()) for item in items)
        for item in items:
            if bool(item["padding"]):
                padding += 1
                assert not item["loss_mask"].any()
    assert len(set(steps)) == 1
    whole = sum(int(item["loss_mask"].sum()) for item in DatumDataset(small_parts))
    items = len(DatumDataset(small_parts, pack_tokens=packed))
    assert set(steps) == {-(-items // 5) if equal == "pad" else items // 5}
    assert padding == (-items % 5 if equal == "pad" else 0)
    assert trained == whole if equal == "pad" else trained <= whole


def test_ranks_of_torch_distributed(
    small_parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
        found = keys(DatumDataset(small_parts))
        assert found == keys(DatumDataset(small_parts, rank=2, world_size=3))
        assert len(keys(DatumDataset(small_parts, rank=0, world_size=1))) > len(found)
    finally:
        torch.distributed.destroy_process_group()


def test_a_pass_that_was_left_begins_again(small_parts: Path) -> None:
    data = DatumDataset(small_parts, shuffle=False)
    whole = keys(data)
    next(iter(data))
    assert keys(data) == whole


def test_no_sequence_is_trained_twice_over_ranks_workers_and_a_resume(small_parts: Path) -> None:
    """Two ranks stop after 5 batches of 3 and go on with another number of workers."""
    seen: list[Key] = []
    for rank in range(2):
        options: dict[str, Any] = {"rank": rank, "world_size": 2, "batch_size": 3, "seed": 2}
        data = DatumDataset(small_parts, **options)
        steps = iter(loader(data, 2, batch_size=3, collate_fn=collate))
        seen += batch_keys([next(steps) for _ in range(5)])
        state = data.state_dict(done=15)
        data = DatumDataset(small_parts, **options)
        data.load_state_dict(state)
        seen += batch_keys(loader(data, 3, batch_size=3, collate_fn=collate))
    assert sorted(seen) == sorted(all_keys(small_parts))
