"""Clean runs at the settings that people use raise no alarm, whatever engine sampled them.

`make fuzz-properties` makes 200 runs of each; `tests/proof/test_generate.py` has transformers
sample them.
"""

import os
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from tests.proof.direct import Direct
from tests.proof.faults import STUDENT, datums, sampled
from tests.proof.lm import Order, processed
from wmo_distill.records import LogprobMode
from wmo_distill.scorers.check import check_logprobs
from wmo_distill.scorers.filters import FilterOrder, SamplingParams, kept, orders_of
from wmo_distill.scorers.filters import processed as after
from wmo_distill.scorers.verdict import Verdict

RUNS = int(os.environ.get("CLEAN_RUNS", "3"))
ORDERS: dict[Order, FilterOrder] = {
    "vllm": FilterOrder.TOP_K_FIRST,
    "transformers": FilterOrder.MIN_P_LAST,
    "sglang": FilterOrder.JOINT,
    "llama.cpp": FilterOrder.TEMPERATURE_LAST,
    "mlx": FilterOrder.JOINT_TEMPERATURE_LAST,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "1": {},
    "0.7/0.9/20": {"temperature": 0.7, "top_p": 0.9, "top_k": 20},
    "0.6/0.95/20": {"temperature": 0.6, "top_p": 0.95, "top_k": 20},
    "0.8/0.95/off": {"temperature": 0.8, "top_p": 0.95},
    "min-p 0.05": {"min_p": 0.05},
}


def said(how: dict[str, Any]) -> dict[str, Any]:
    """The settings as rows state them: min-p is in the JSON of all arguments."""
    rest = {name: value for name, value in how.items() if name != "min_p"}
    return rest | ({"sampling": f'{{"min_p":{how["min_p"]}}}'} if "min_p" in how else {})


@pytest.mark.parametrize("mode", ["raw", "processed"])
@pytest.mark.parametrize("name", SETTINGS)
def test_clean_runs_agree(tmp_path: Path, name: str, mode: str) -> None:
    how = SETTINGS[name]
    for seed in range(RUNS):
        chats = sampled(1000 + seed, 8, breaks=seed % 2 == 1, mode=mode, **how)
        place = datums(tmp_path / str(seed), chats, LogprobMode(mode), **said(how))
        report = check_logprobs(place, Direct(STUDENT), concurrency=1)
        assert report.verdict is Verdict.AGREES, (seed, report)
        assert report.mean_abs_difference < 1e-3


@pytest.mark.parametrize("order", get_args(Order))
def test_the_order_of_filters_is_found(tmp_path: Path, order: Order) -> None:
    how = SETTINGS["0.7/0.9/20"] | {"order": order}
    chats = sampled(3, 30, mode="processed", **how)
    stated = said(SETTINGS["0.7/0.9/20"])
    place = datums(tmp_path, chats, LogprobMode.PROCESSED, **stated)
    report = check_logprobs(place, Direct(STUDENT), top_k=97, concurrency=1)
    assert report.verdict is Verdict.AGREES
    # Without min-p transformers does as vLLM does.
    same = FilterOrder.TOP_K_FIRST if order == "transformers" else ORDERS[order]
    assert report.orders == [same]


@pytest.mark.parametrize("order", get_args(Order))
def test_filters_are_those_of_the_engine(order: Order) -> None:
    """Against the whole vocabulary, filtered step by step; the list may be shorter."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        params = SamplingParams(
            temperature=float(rng.choice([0.6, 1.0, 1.4])),
            top_k=int(rng.integers(1, 30)) if rng.random() < 0.6 else None,
            top_p=float(rng.uniform(0.3, 0.99)) if rng.random() < 0.6 else None,
            min_p=float(rng.uniform(0.01, 0.3)) if rng.random() < 0.4 else None,
        )
        logits = rng.normal(size=60) * rng.uniform(0.5, 4.0)
        raw = logits - np.log(np.exp(logits).sum())
        wanted = processed(raw, params.temperature, params.top_k, params.top_p, params.min_p, order)
        top = -np.sort(-raw)[None]
        name = ORDERS[order]
        whole = kept(top, params, name)
        ranked = wanted[np.argsort(-raw, kind="stable")]
        assert (np.isfinite(ranked) == whole.listed[0]).all()
        token = int(rng.choice(60, p=np.exp(wanted)))
        found = after(raw[[token]], top, params, name)[0]
        assert found == pytest.approx(wanted[token], abs=1e-9)
        assert name in orders_of(params) or any(
            after(raw[[token]], top, params, one)[0] == pytest.approx(found, abs=1e-9)
            for one in orders_of(params)
        )
        # A shorter list gives the same or nothing.
        short = after(raw[[token]], top[:, :20], params, name)[0]
        assert np.isnan(short) or short == pytest.approx(wanted[token], abs=0.02)
