"""One odd answer costs its sequence and is counted; it never ends the run."""

import asyncio
import json
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.proof.lm import LanguageModel
from tests.proof.server import form, serve
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.http import (
    Endpoint,
    SglangScorer,
    VllmScorer,
    read_echo,
    read_sglang,
    read_vllm,
)
from wmo_distill.scorers.run import score_datums
from wmo_distill.scorers.scorer import Score, ScoreError, ScoreFault, checked
from wmo_distill.scorers.tinker import TinkerScorer
from wmo_distill.tokens import Ids

TEACHER = LanguageModel(seed=5)
IDS: Ids = np.array([3, 1, 4, 1, 5], np.int32)
VALUES = [None, *TEACHER.logprobs(IDS.tolist())[1:].tolist()]
DIGITS = "1" * 5000


def honest(kind: str, top_k: int = 0) -> Any:
    """What a sound server answers about IDS."""
    path = "/generate" if kind == "sglang" else "/v1/completions"
    asked = {"prompt_logprobs": top_k, "top_logprobs_num": top_k, "echo": kind == "echo"}
    ids = IDS.tolist()
    return form(TEACHER, path, asked, ids, ids, VALUES)


READERS: dict[str, Callable[[Any, int], Score]] = {
    "vllm": lambda answer, top_k: read_vllm(answer, IDS, top_k),
    "sglang": lambda answer, top_k: read_sglang(answer, IDS, top_k),
    "echo": lambda answer, top_k: read_echo(answer, IDS),
}
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from([DIGITS, "1", "-1", "007", "1e5", "²", "\ud800", 2**31, 1e300, -0.0]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["logprob", "1", "3", "4", DIGITS]), inner
        )
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    steps: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        steps = value.items()
    elif isinstance(value, list):
        steps = enumerate(value)
    return [path, *(place for step, one in steps for place in places(one, (*path, step)))]


def put(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """The value with something else at a place."""
    if not path:
        return odd
    value = json.loads(json.dumps(value))
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = odd
    return value


@pytest.mark.parametrize("top_k", [0, 2])
@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
@settings(max_examples=examples(100))
def test_any_value_anywhere_is_read_or_a_counted_reason(
    kind: str, top_k: int, data: st.DataObject
) -> None:
    answer = honest(kind, top_k)
    path = data.draw(st.sampled_from(places(answer)))
    odd = data.draw(ODD)
    try:
        score = checked(READERS[kind](put(answer, path, odd), top_k), IDS.size)
    except ScoreError:
        return
    assert np.isfinite(score.logprobs[1:]).all()
    assert (score.logprobs[1:] <= 0.0).all()


@pytest.mark.parametrize("kind", READERS)
def test_a_sound_answer_is_taken(kind: str) -> None:
    score = checked(READERS[kind](honest(kind, 2 * (kind != "echo")), 2), IDS.size)
    assert score.logprobs[1:].tolist() == VALUES[1:]


SERVED: dict[str, tuple[Callable[[Any], Any], ScoreFault]] = {
    "a key of 5,000 digits": (
        lambda row: {**row, DIGITS: {"logprob": -1.0}},
        ScoreFault.UNREADABLE,
    ),
    "a key that is no id": (lambda row: {**row, "the": {"logprob": -1.0}}, ScoreFault.UNREADABLE),
    "an id out of range": (
        lambda row: {**row, str(2**31): {"logprob": -0.1}},
        ScoreFault.UNREADABLE,
    ),
    "null among candidates": (lambda row: {**row, "7": None}, ScoreFault.UNREADABLE),
    "null for a number": (lambda row: {**row, "7": {"logprob": None}}, ScoreFault.NOT_FINITE),
    "text for a number": (lambda row: {**row, "7": {"logprob": "-1"}}, ScoreFault.NOT_FINITE),
    "NaN": (lambda row: {**row, "7": {"logprob": math.nan}}, ScoreFault.UNREADABLE),
    "a list": (lambda row: [row], ScoreFault.UNREADABLE),
    "null": (lambda row: None, ScoreFault.NOT_FINITE),
    "deep nesting": (lambda row: "[" * 3000, ScoreFault.UNREADABLE),
    "too much": (lambda row: {**row, "7": "a" * 2_000_000}, ScoreFault.ANSWER_TOO_LARGE),
}


@pytest.mark.parametrize("name", SERVED)
def test_one_odd_answer_costs_one_sequence(datums: Path, tmp_path: Path, name: str) -> None:
    change, fault = SERVED[name]
    rows = {row.datum_id: row.datum.token_ids.tolist() for row in iter_datums(datums)}
    victim = max(rows.values(), key=len)
    values = [None, *TEACHER.logprobs(victim)[1:].tolist()]
    asked = {"prompt_logprobs": 4}
    answer = form(TEACHER, "/v1/completions", asked, victim, victim, values)
    listed = answer["choices"][0]["prompt_logprobs"]
    listed[-1] = change(listed[-1])
    # Nesting that Python's own writer would not write.
    body = json.dumps(answer).encode().replace(b'"' + b"[" * 3000 + b'"', b"[" * 3000 + b"]" * 3000)
    cache = ScoreCache(tmp_path / "c")
    with serve(TEACHER, lambda number, ids: body if ids == victim else None) as server:
        scorer = VllmScorer(Endpoint(server.url), "t")
        summary = score_datums(datums, cache, scorer, "t", top_k=4, wait=0.001)
    assert summary.faults == {fault: 1}
    assert summary.scored == len(rows) - 1 == len(cache)


@pytest.mark.parametrize("odd", [5, None, "x", [5], [None, [1, 2]], [None, [{}]], [None, [[-1.0]]]])
def test_odd_candidates_of_sglang_are_counted(datums: Path, tmp_path: Path, odd: Any) -> None:
    ids = max((row.datum.token_ids.tolist() for row in iter_datums(datums)), key=len)
    values = [None, *TEACHER.logprobs(ids)[1:].tolist()]
    answer = form(TEACHER, "/generate", {"top_logprobs_num": 4}, ids, ids, values)
    answer["meta_info"]["input_top_logprobs"][-2:] = odd if isinstance(odd, list) else [odd, odd]
    if odd is None:
        answer["meta_info"]["input_top_logprobs"] = None
    body = json.dumps(answer).encode()
    with serve(TEACHER, lambda number, asked: body if asked == ids else None) as server:
        scorer = SglangScorer(Endpoint(server.url))
        summary = score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t", top_k=4, wait=0.001)
    assert sum(summary.faults.values()) == 1
    assert summary.scored == summary.requests - 1


class Client:
    """A client of tinker that answers with what it is given."""

    def __init__(self, values: Any, top: Any = None, error: Exception | None = None) -> None:
        self.values, self.top, self.error = values, top, error

    async def compute_logprobs(self, prompt: Any) -> Any:
        if self.error is not None:
            raise self.error
        return self.values

    async def sample(self, **asked: Any) -> Any:
        assert asked["topk_prompt_logprobs"] == 1
        return SimpleNamespace(prompt_logprobs=self.values, topk_prompt_logprobs=self.top)


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two types of tinker that a call names."""
    module = ModuleType("tinker")
    module.__dict__["types"] = SimpleNamespace(
        ModelInput=SimpleNamespace(from_ints=lambda ids: ids),
        SamplingParams=lambda max_tokens: max_tokens,
    )
    monkeypatch.setitem(sys.modules, "tinker", module)


def tinker(client: Client, top_k: int = 0) -> Score:
    return asyncio.run(TinkerScorer(client).score(IDS, top_k))


@pytest.mark.usefixtures("sdk")
def test_tinker_is_awaited() -> None:
    assert tinker(Client(VALUES)).logprobs[1:].tolist() == VALUES[1:]
    score = tinker(Client(VALUES, [None, *[[(7, -0.5)]] * 4]), 1)
    assert score.top == [None, *[[(7, -0.5)]] * 4]


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize(
    ("values", "top"),
    [(5, None), (VALUES, [[5]]), (VALUES, 5), (VALUES, [None, [("7", -1.0), (8, -2.0)]])],
)
def test_odd_answers_of_tinker_are_counted(values: Any, top: Any) -> None:
    with pytest.raises(ScoreError, match="unreadable"):
        tinker(Client(values, top), 0 if top is None else 1)


@pytest.mark.usefixtures("sdk")
def test_errors_of_tinker_show_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-0123456789")
    refused = type("BadRequestError", (Exception,), {"status_code": 400})
    with pytest.raises(ScoreError) as caught:
        tinker(Client(None, error=refused("no key\x1b tml-0123456789")))
    assert str(caught.value) == "refused: BadRequestError: no key\\x1b ***"


@pytest.mark.parametrize("value", [-1000.0, -5000.0, -9999.0])
def test_an_implausible_number_is_none_as_in_datums(value: float) -> None:
    values = np.full(IDS.size, -0.5)
    values[0], values[1] = np.nan, value
    with pytest.raises(ScoreError) as caught:
        checked(Score(values, None), IDS.size)
    assert caught.value.fault is ScoreFault.NOT_FINITE
    needed = np.ones(IDS.size, np.bool_)
    needed[1] = False
    assert np.isnan(checked(Score(values, None), IDS.size, needed).logprobs[1])
    values[1] = -999.5
    assert checked(Score(values, None), IDS.size).logprobs[1] == -999.5
