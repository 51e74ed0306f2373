"""Scores by way of files: what fits is taken, what does not is counted, nothing is misaligned."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import UsageError
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.exchange import read_answers, write_requests
from wmo_distill.scorers.scorer import Score, ScoreFault

TEACHER = LanguageModel(seed=6)


@pytest.fixture(scope="module")
def datums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    place = tmp_path_factory.mktemp("exchange")
    records = [record(chat(LanguageModel(), rng), n) for n in range(8)]
    build_datum_shards(dataset(place / "shards", records), place / "datums")
    return place / "datums"


def answers(requests: Path, top_k: int = 0) -> list[dict[str, Any]]:
    found = []
    for line in requests.read_text().splitlines():
        request = json.loads(line)
        ids = request["token_ids"]
        answer: dict[str, Any] = {
            "datum_id": request["datum_id"],
            "logprobs": [None, *TEACHER.logprobs(ids)[1:].tolist()],
        }
        if top_k:
            answer["top"] = [
                None if row is None else [[int(t), float(row[t])] for t in (-row).argsort()[:top_k]]
                for row in TEACHER.rows(ids)
            ]
        found.append(answer)
    return found


def write(file: Path, values: list[Any]) -> Path:
    file.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in values))
    return file


@pytest.mark.parametrize("top_k", [0, 3])
def test_there_and_back_in_any_order(datums: Path, tmp_path: Path, top_k: int) -> None:
    cache = ScoreCache(tmp_path / "c")
    count = write_requests(datums, cache, "t", tmp_path / "r.jsonl", top_k=top_k)
    found = answers(tmp_path / "r.jsonl", top_k)
    assert count == len(found) == 8
    random.Random(0).shuffle(found)
    summary = read_answers(datums, cache, "t", write(tmp_path / "a", found), top_k=top_k)
    assert (summary.scored, summary.requests, summary.faults) == (8, 8, {})
    for row in iter_datums(datums):
        score = cache.get(row.datum_id, "t")
        assert score is not None
        expected = TEACHER.logprobs(row.datum.token_ids.tolist())
        assert np.array_equal(score.logprobs, expected, equal_nan=True)
        assert (score.top is not None) == bool(top_k)
    assert write_requests(datums, cache, "t", tmp_path / "r.jsonl", top_k=top_k) == 0


def test_what_does_not_fit_is_counted_and_not_taken(datums: Path, tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "c")
    write_requests(datums, cache, "t", tmp_path / "r.jsonl")
    a, b, c, d, e, f, g, h = answers(tmp_path / "r.jsonl")
    b["logprobs"] = b["logprobs"][1:]
    c["logprobs"][11] = None  # trained: prompts have ten tokens
    d["logprobs"][11] = 0.5
    other = {**e, "logprobs": [None, *[-1.0] * (len(e["logprobs"]) - 1)]}
    stranger = {**f, "datum_id": "f" * 32}
    bad = ["{torn", {"logprobs": []}, {**g, "logprobs": "none"}]
    lines = [a, a, b, c, d, e, other, e, stranger, *bad, h, ""]
    summary = read_answers(datums, cache, "t", write(tmp_path / "a", lines))
    assert summary.faults == {
        ScoreFault.WRONG_LENGTH: 1,
        ScoreFault.NOT_FINITE: 1,
        ScoreFault.POSITIVE: 1,
        ScoreFault.CONTRADICTED: 3,
        ScoreFault.UNKNOWN_DATUM: 1,
        ScoreFault.UNREADABLE: 3,
    }
    assert summary.scored == 2
    assert summary.repeated == 1
    assert summary.requests == summary.scored + summary.repeated + sum(summary.faults.values())
    assert summary.first_found[ScoreFault.CONTRADICTED].startswith("line 7")
    kept = {row.datum_id for row in iter_datums(datums)}
    assert {n for n in kept if cache.has(n, "t")} == {a["datum_id"], h["datum_id"]}


def test_a_missing_file_is_an_error(datums: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a file of answers"):
        read_answers(datums, ScoreCache(tmp_path / "c"), "t", tmp_path / "none")


def test_answers_shifted_by_one_are_not_taken(datums: Path, tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "c")
    write_requests(datums, cache, "t", tmp_path / "r.jsonl")
    found = answers(tmp_path / "r.jsonl")
    for answer in found:
        answer["logprobs"] = [*answer["logprobs"][1:], 0.0]
    summary = read_answers(datums, cache, "t", write(tmp_path / "a", found))
    assert (summary.scored, summary.faults) == (0, {ScoreFault.UNREADABLE: 8})


def test_candidates_that_are_no_ids_are_counted(datums: Path, tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "c")
    write_requests(datums, cache, "t", tmp_path / "r.jsonl", top_k=2)
    found = answers(tmp_path / "r.jsonl", 2)
    found[0]["top"][2] = [[2**31, -1.0]]
    found[1]["top"][2] = [["x", -1.0]]
    summary = read_answers(datums, cache, "t", write(tmp_path / "a", found), top_k=2)
    assert (summary.scored, summary.faults) == (6, {ScoreFault.UNREADABLE: 2})


def test_two_runs_may_add_to_one_cache(tmp_path: Path) -> None:
    one, other = ScoreCache(tmp_path / "c"), ScoreCache(tmp_path / "c")
    values = np.array([np.nan, -1.0])
    one.add("a", [("x" * 32, Score(values), 0)])
    other.add("b", [("y" * 32, Score(values), 0)])
    assert ScoreCache(tmp_path / "c").teachers() == {"a": 1, "b": 1}


def test_what_a_killed_run_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/.scores-00000-12ab.parquet.77.tmp").write_bytes(b"half")
    cache = ScoreCache(tmp_path / "c")
    cache.add("a", [("x" * 32, Score(np.array([np.nan, -1.0])), 0)])
    assert len(ScoreCache(tmp_path / "c")) == 1


def test_a_cache_read_out_of_order_gives_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = {f"{i:032d}": Score(np.r_[np.nan, -rng.exponential(1.0, 300)]) for i in range(60)}
    cache = ScoreCache(tmp_path / "c")
    names = list(scores)
    for begin in (0, 1):
        cache.add("t", [(name, scores[name], 0) for name in names[begin::2]])
    for name in reversed(names):
        found = ScoreCache.logprobs(cache, name, "t")
        assert found is not None
        assert np.array_equal(found, scores[name].logprobs, equal_nan=True)
