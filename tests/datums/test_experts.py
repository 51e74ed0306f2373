"""Routed experts: each row is the one recorded for its token, or there are none."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.proof.chats import dataset
from wmo_distill.datums.build import build_datums
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.experts import call_experts
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.records import TrialRecord
from wmo_distill.tokens import TokenSpan

LAYERS, K = 2, 3


def routes(ids: list[int], call: int) -> np.ndarray[Any, Any]:
    """Distinguished by token and position; recomputed a little differently by each call."""
    rows = [
        [[(token * 7 + at * 3 + layer + k) % 250 for k in range(K)] for layer in range(LAYERS)]
        for at, token in enumerate(ids[:-1])
    ]
    array = np.array(rows, np.int64).reshape(len(ids) - 1, LAYERS, K)
    array[:, 0, 0] = call
    return array


def encoded(array: np.ndarray[Any, Any], form: str) -> Any:
    if form == "lists":
        return array.tolist()
    file = io.BytesIO()
    np.save(file, array.astype(np.uint8))
    return base64.b64encode(file.getvalue()).decode()


def chat(form: str = "lists", lost: int | None = None) -> TrialRecord:
    spans = []
    history = [5, 6, 7]
    for call in range(3):
        sampled = [10 + call, 20 + call]
        ids = history + sampled
        value = None if call == lost else encoded(routes(ids, call), form)
        extra = json.dumps({"routed_experts": value})
        spans.append(TokenSpan(call, history, sampled, [-1.0, -1.0], extra=extra))
        history = [*ids, 30 + call]
    return TrialRecord(episode_id="e", trial_id="e", trial_name="t", group_id="g",
                       artifact_dir="t", spans=tuple(spans))  # fmt: skip


@pytest.mark.parametrize("form", ["lists", "base64"])
def test_new_rows_come_from_the_call_that_fed_them_in(form: str) -> None:
    (datum,), stats = build_datums([chat(form)], routed_experts=True)
    ids = datum.token_ids.tolist()
    got = datum.routed_experts
    assert got is not None
    assert (got.shape, got.dtype) == ((len(ids) - 1, LAYERS, K), np.uint8)
    assert np.array_equal(got[:, 1], routes(ids, 0)[:, 1])
    # prompt 3, sampled 2, of which the last is fed in by the next call
    assert got[:, 0, 0].tolist() == [0] * 4 + [1] * 3 + [2] * 3
    assert stats.with_routed_experts == 1


def test_a_call_that_did_not_record_is_covered_by_the_next() -> None:
    (datum,), _ = build_datums([chat(lost=1)], routed_experts=True)
    assert datum.routed_experts is not None
    assert datum.routed_experts[:, 0, 0].tolist() == [0] * 4 + [2] * 6


def test_a_last_call_that_did_not_record_leaves_none() -> None:
    (datum,), stats = build_datums([chat(lost=2)], routed_experts=True)
    assert datum.routed_experts is None
    assert stats.with_routed_experts == 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        "AAAB",
        "not base64!",
        [],
        [[[1, 2]], [[3]]],
        [[[0.5, 1.0]]] * 4,
        [[[-1, 1]]] * 4,
        [[[1, 2]]] * 5,
        {"data": 1},
    ],
)
def test_what_does_not_fit_is_none(value: Any) -> None:
    extra = json.dumps({"routed_experts": value})
    assert call_experts(TokenSpan(0, [1, 2, 3], [4, 5], extra=extra)) is None
    good = json.dumps({"routed_experts": [[[1, 300]]] * 4})
    found = call_experts(TokenSpan(0, [1, 2, 3], [4, 5], extra=good))
    assert found is not None
    assert (found.shape, found.dtype) == ((4, 1, 2), np.uint16)


def test_through_shards(tmp_path: Path) -> None:
    dataset(tmp_path / "s", [chat()])
    (wanted,), _ = build_datums([chat()], routed_experts=True)
    build_datum_shards(tmp_path / "s", tmp_path / "d", DatumOptions(routed_experts=True))
    (row,) = iter_datums(tmp_path / "d")
    assert row.datum.routed_experts is not None
    assert wanted.routed_experts is not None
    assert np.array_equal(row.datum.routed_experts, wanted.routed_experts)
    build_datum_shards(tmp_path / "s", tmp_path / "d", fresh=True)
    (row,) = iter_datums(tmp_path / "d")
    assert row.datum.routed_experts is None
