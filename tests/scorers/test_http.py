"""Scores over HTTP from a real server on loopback, well and badly behaved."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.proof.lm import LanguageModel
from tests.proof.server import serve
from wmo_distill.arrays import Ids
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.http import EchoScorer, Endpoint, SglangScorer, VllmScorer
from wmo_distill.scorers.run import plan_scores, score_datums
from wmo_distill.scorers.scorer import Score, ScoreFault, Scorer

TEACHER = LanguageModel(seed=5)
MAKERS: dict[str, Callable[[Endpoint], Scorer]] = {
    "vllm": lambda endpoint: VllmScorer(endpoint, "teacher"),
    "sglang": SglangScorer,
    "echo": lambda endpoint: EchoScorer(endpoint, "teacher"),
}


def distinct(datums: Path) -> dict[str, Ids]:
    return {row.datum_id: row.datum.token_ids for row in iter_datums(datums)}


def all_equal(cache: ScoreCache, datums: Path) -> bool:
    for name, ids in distinct(datums).items():
        score = cache.get(name, "t")
        if score is not None and not np.array_equal(
            score.logprobs, TEACHER.logprobs(ids.tolist()), equal_nan=True
        ):
            return False
    return True


@pytest.mark.parametrize("kind", MAKERS)
def test_scores_are_the_teacher_s(datums: Path, tmp_path: Path, kind: str) -> None:
    with serve(TEACHER) as server:
        scorer = MAKERS[kind](Endpoint(server.url, api_key="secret"))
        summary = score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t")
        names = distinct(datums)
        rows = len(list(iter_datums(datums)))
        assert summary.requests == summary.scored == len(names) < rows
        assert not summary.faults
        assert len(server.requests) == len(names)
        assert {h["authorization"] for h in server.headers} == {"Bearer secret"}
        cache = ScoreCache(tmp_path / "c")
        assert cache.teachers() == {"t": len(names)}
        assert all_equal(cache, datums)
        again = score_datums(datums, cache, scorer, "t")
        assert (again.requests, again.cached) == (0, len(names))
        assert len(server.requests) == len(names)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_likeliest_tokens(datums: Path, tmp_path: Path, kind: str) -> None:
    cache = ScoreCache(tmp_path / "c")
    with serve(TEACHER) as server:
        scorer = MAKERS[kind](Endpoint(server.url))
        score_datums(datums, cache, scorer, "t")
        summary = score_datums(datums, cache, scorer, "t", top_k=4)
    assert summary.scored == len(distinct(datums)), "scores without candidates do not do"
    for name, ids in distinct(datums).items():
        score = cache.get(name, "t")
        assert score is not None
        assert score.top is not None
        assert score.top[0] is None
        for i, row in enumerate(TEACHER.rows(ids.tolist())):
            if row is not None:
                best = (-row).argsort(kind="stable")[:4]
                assert score.top[i] == [(int(t), float(row[t])) for t in best]


def test_an_echo_has_no_candidates(datums: Path, tmp_path: Path) -> None:
    with serve(TEACHER) as server:
        scorer = MAKERS["echo"](Endpoint(server.url))
        summary = score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t", top_k=2)
    assert summary.faults == {ScoreFault.REFUSED: summary.requests}


@pytest.mark.parametrize("bad", ["500", "429", "close", "garbage", "short", "nan", "other_ids"])
@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_passing_fault_costs_nothing(datums: Path, tmp_path: Path, kind: str, bad: str) -> None:
    cache = ScoreCache(tmp_path / "c")
    with serve(TEACHER, lambda number, ids: bad if number in (2, 7) else None) as server:
        scorer = MAKERS[kind](Endpoint(server.url))
        summary = score_datums(datums, cache, scorer, "t", concurrency=1, wait=0.001)
    assert not summary.faults
    assert len(server.requests) == summary.scored + 2
    assert all_equal(cache, datums)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ("400", ScoreFault.REFUSED),
        ("500", ScoreFault.UNAVAILABLE),
        ("stall", ScoreFault.UNAVAILABLE),
        ("drip", ScoreFault.UNAVAILABLE),
        ("garbage", ScoreFault.UNREADABLE),
        ("short", ScoreFault.WRONG_LENGTH),
        ("nan", ScoreFault.UNREADABLE),
        ("null", ScoreFault.NOT_FINITE),
        ("infinite", ScoreFault.UNREADABLE),
        ("positive", ScoreFault.POSITIVE),
        ("other_ids", ScoreFault.OTHER_TOKENS),
    ],
)
def test_a_lasting_fault_is_counted_and_named(
    datums: Path, tmp_path: Path, bad: str, fault: ScoreFault
) -> None:
    victim = max(distinct(datums).values(), key=len).tolist()
    cache = ScoreCache(tmp_path / "c")
    with serve(TEACHER, lambda number, ids: bad if ids == victim else None) as server:
        # Short only where the wait is the point: a busy machine is slow to answer too.
        slow = bad in ("stall", "drip")
        scorer = MAKERS["vllm"](Endpoint(server.url, timeout=2.0 if slow else 60.0))
        summary = score_datums(datums, cache, scorer, "t", attempts=2, wait=0.001)
    assert summary.faults == {fault: 1}
    assert summary.scored == summary.requests - 1 == len(cache)
    assert all_equal(cache, datums)
    assert fault in summary.first_found[fault]
    # What is missing is asked for again, and nothing else.
    with serve(TEACHER) as server:
        summary = score_datums(datums, cache, MAKERS["vllm"](Endpoint(server.url)), "t")
        assert summary.requests == summary.scored == 1
        assert server.requests[0]["prompt"] == victim


def test_a_server_that_is_gone_ends_the_run_and_keeps_what_there_is(
    datums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmo_distill.scorers.run._GONE", 4)
    cache = ScoreCache(tmp_path / "c")
    with serve(TEACHER, lambda number, ids: None if number <= 5 else "500") as server:
        scorer = MAKERS["vllm"](Endpoint(server.url))
        with pytest.raises(DistillError, match=r"5 scores are kept"):
            score_datums(datums, cache, scorer, "t", concurrency=1, attempts=2, wait=0.001)
    assert len(ScoreCache(tmp_path / "c")) == 5
    with serve(TEACHER) as server:
        summary = score_datums(datums, cache, MAKERS["vllm"](Endpoint(server.url)), "t")
    assert summary.requests == len(distinct(datums)) - 5
    assert all_equal(cache, datums)


def test_a_wrong_model_ends_the_run(
    datums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmo_distill.scorers.run._GONE", 3)
    with serve(TEACHER, lambda number, ids: "400") as server:
        scorer = MAKERS["vllm"](Endpoint(server.url))
        with pytest.raises(DistillError, match="HTTP 400"):
            score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t", concurrency=1)
        assert len(server.requests) < len(distinct(datums))


def test_what_is_answered_is_kept_while_others_wait(
    datums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmo_distill.scorers.calls.KEEP_SECONDS", 0.05)
    others = len(distinct(datums)) - 1
    seen = threading.Event()

    def fault(number: int, ids: list[int]) -> None:
        if number == 1:  # its answer has to wait until all others are on disk
            while len(ScoreCache(tmp_path / "c")) < others:
                time.sleep(0.01)
            seen.set()

    with serve(TEACHER, fault) as server:
        scorer = MAKERS["vllm"](Endpoint(server.url))
        score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t")
    assert seen.is_set()


def test_it_may_be_called_where_an_event_loop_runs(datums: Path, tmp_path: Path) -> None:
    async def notebook() -> int:
        scorer = MAKERS["vllm"](Endpoint(server.url))
        return score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t").scored

    with serve(TEACHER) as server:
        assert asyncio.run(notebook()) == len(distinct(datums))


def test_concurrency_is_bounded(datums: Path, tmp_path: Path) -> None:
    with serve(TEACHER, delay=0.02) as server:
        scorer = MAKERS["vllm"](Endpoint(server.url))
        score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t", concurrency=3)
    assert 2 <= server.most_at_once <= 3


def test_another_tokenizer_is_refused_before_any_request(datums: Path, tmp_path: Path) -> None:
    with serve(TEACHER) as server:
        scorer = VllmScorer(Endpoint(server.url), "teacher", tokenizer="other-2")
        with pytest.raises(UsageError, match=r"'other-2', found 'student-1'"):
            score_datums(datums, ScoreCache(tmp_path / "c"), scorer, "t")
        assert not server.requests
        same = VllmScorer(Endpoint(server.url), "teacher", tokenizer="student-1")
        assert score_datums(datums, ScoreCache(tmp_path / "c"), same, "t").scored


def test_plan(datums: Path, tmp_path: Path) -> None:
    plan = plan_scores(datums, ScoreCache(tmp_path / "c"), "t", price=2.0)
    sizes = [ids.size for ids in distinct(datums).values()]
    assert (plan.requests, plan.tokens, plan.longest) == (len(sizes), sum(sizes), max(sizes))
    assert plan.cost == pytest.approx(sum(sizes) * 2e-6)
    assert not (tmp_path / "c").exists()


def test_a_cache_survives_another_build(datums: Path, tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "c")
    with serve(TEACHER) as server:
        scorer = MAKERS["vllm"](Endpoint(server.url))
        score_datums(datums, cache, scorer, "t")
        build_datum_shards(datums.parent / "shards", tmp_path / "d2")
        again = score_datums(tmp_path / "d2", cache, scorer, "t")
        other = score_datums(tmp_path / "d2", cache, scorer, "u")
    assert again.requests == 0
    assert other.scored == len(distinct(datums))
    assert ScoreCache(tmp_path / "c").teachers() == {"t": other.scored, "u": other.scored}


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("")
    with pytest.raises(UsageError, match="found other files"):
        ScoreCache(tmp_path / "other")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/scores-00000.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="found other files"):  # paid for, whatever became of it
        ScoreCache(tmp_path / "parts").add("t", [("x" * 32, Score(np.array([np.nan, -1.0])), 0)])
    assert (tmp_path / "parts/scores-00000.parquet").exists()
