"""What items hold: the same keys whatever the data, and never a 0.0 for what is missing."""

import re
from typing import Any

import numpy as np
import pytest

from tests.exporters.rows import datum_row as row
from wmo_distill.exporters import items
from wmo_distill.exporters.items import PER_SEQUENCE, PER_TOKEN, Item, item_values


@pytest.mark.parametrize("packed", [False, True])
def test_an_item_has_the_same_keys_whatever_the_data(packed: bool) -> None:
    bare = row(fragment=0, advantages=False, reward=None)
    full = row(fragment=1)
    keys = {*PER_TOKEN, *PER_SEQUENCE, "episode_id", "group", "padding"}
    for one in (bare, full):
        values = item_values(Item([one]), packed=packed)
        assert set(values) == keys
        for name in PER_TOKEN:
            assert values[name].shape == one.datum.token_ids.shape
    both = item_values(Item([bare, full]), packed=True)
    assert set(both) == keys
    n = bare.datum.token_ids.size
    mask = both["loss_mask"]
    # What is missing is marked, and NaN where it would be trained: never a silent zero.
    assert not both["advantages_mask"][:n].any()
    assert np.isnan(both["advantages"][:n][mask[:n]]).all()
    assert both["advantages_mask"][n:].tolist() == mask[n:].tolist()
    assert not both["teacher_logprobs_mask"][:n].any()
    assert np.isnan(both["teacher_logprobs"][:n][mask[:n]]).all()
    assert both["reward_mask"].tolist() == [False, True]
    assert np.isnan(both["reward"][0])
    assert both["position_ids"].tolist() == [*range(n), *range(full.datum.token_ids.size)]


def test_nothing_of_padding_is_trained() -> None:
    values = item_values(Item([row(fragment=1)], padding=True), packed=False)
    assert values["padding"]
    for name in ("loss_mask", "advantages_mask", "sampled_logprobs_mask"):
        assert not values[name].any()


def scored(*, at: int | None = None, **more: Any) -> Any:
    """With a teacher's values but for the first token, and the one at `at`."""
    values = -np.ones(10)
    values[0] = np.nan
    if at is not None:
        values[at] = np.nan
    return row(changes={"teacher_logprobs": values, **more.pop("changes", {})}, **more)


EXPERTS = np.arange(9 * 2 * 2).reshape(9, 2, 2).astype(np.uint8)
ROWS = [
    scored(changes={"routed_experts": EXPERTS}),
    scored(at=4, advantages=False),
    row(episode="e2", reward=None, weight=0.5),
    row(advantages=False, changes={"sampled_logprobs": np.full(10, np.nan)}),
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("one", ROWS)
@pytest.mark.parametrize("name", ["sampled_logprobs", "advantages", "teacher_logprobs"])
def test_nothing_missing_is_zero_under_a_true_mask(one: Any, name: str, packed: bool) -> None:
    item = item_values(Item([one]), packed=packed)
    recorded = getattr(one.datum, name)
    for at in range(10):
        has = recorded is not None and np.isfinite(recorded[at])
        value = item[name][at]
        if not item["loss_mask"][at]:
            assert np.isfinite(value), "or a product with the loss mask is NaN"
        elif has:
            assert value == np.float32(recorded[at])
            assert item[f"{name}_mask"][at]
        else:
            assert np.isnan(value)
            assert not item[f"{name}_mask"][at]


def test_types_do_not_depend_on_the_data() -> None:
    for packed in (False, True):
        kinds = {
            tuple((name, np.asarray(value).dtype.kind) for name, value in item.items())
            for one in ROWS
            for padding in (False, True)
            for item in [item_values(Item([one], padding), packed=packed, experts=(2, 2))]
        }
        assert len(kinds) == 1


def test_an_implausible_logprob_is_not_recorded() -> None:
    logprobs = np.where(row().datum.loss_mask, -1.0, 0.0)
    logprobs[4] = -1e16
    item = item_values(Item([row(changes={"sampled_logprobs": logprobs})]), packed=False)
    assert np.isnan(item["sampled_logprobs"][4])
    assert item["sampled_logprobs_mask"].sum() == item["loss_mask"].sum() - 1


def test_no_sequence_trains_its_first_token() -> None:
    """In a pack it would be predicted from the sequence before."""
    item = item_values(Item([ROWS[0], row([(0, 3)])]), packed=True)
    assert not item["loss_mask"][item["position_ids"] == 0].any()
    assert item["loss_mask"][-2:].all()


def test_routed_experts_of_some_sequences_only() -> None:
    got = item_values(Item(ROWS[:2]), packed=True, experts=(2, 2))["routed_experts"]
    assert got.shape == (20, 2, 2)
    assert got.dtype == np.int16
    assert got[:9].tolist() == EXPERTS.tolist()
    assert (got[9:] == -1).all(), "the last token was never fed in, the other has none"
    assert "routed_experts" not in item_values(Item(ROWS[:1]), packed=False)


def test_the_documented_keys_are_those_of_an_item() -> None:
    rows = re.findall(r"^\| (`.*?) \| (token|sequence|item) \| (\w+) \|", items.__doc__, re.M)
    found = item_values(Item([ROWS[0]]), packed=False, experts=(2, 2))
    told = {key: kind for keys, _, kind in rows for key in re.findall(r"`(\w+)`", keys)}
    assert set(told) == set(found)
    for name, value in found.items():
        kind = type(value).__name__ if isinstance(value, str) else value.dtype.name
        assert kind == told[name], name
