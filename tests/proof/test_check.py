"""`check-logprobs` names what was planted, and nothing where nothing was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.proof.chats import Turn, chat, dataset, record
from tests.proof.direct import Direct
from tests.proof.faults import PLANTED, STUDENT, changed, datums, sampled, shifted
from tests.proof.lm import LanguageModel
from tests.proof.server import serve
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.records import LogprobMode, Sampling
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.check import check_logprobs
from wmo_distill.scorers.http import EchoScorer, Endpoint, SglangScorer, VllmScorer
from wmo_distill.scorers.options import Noise
from wmo_distill.scorers.report import CheckReport
from wmo_distill.scorers.scorer import ScoreFault
from wmo_distill.scorers.verdict import Verdict


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_named(tmp_path: Path, name: str) -> None:
    verdict, make = PLANTED[name]
    report = check_logprobs(datums(tmp_path, make(0)), Direct(STUDENT), concurrency=1)
    assert report.verdict is verdict, report
    assert report.verdict is not Verdict.UNEXPLAINED or report.clues
    if "temperature" in name:
        assert report.fitted is not None
        assert float(report.fitted.split()[1].rstrip(",")) == pytest.approx(0.7, abs=0.06)
    if name.startswith("top-k"):
        assert report.fitted == "temperature 1, top_k 20"
    if verdict is Verdict.SHIFTED:
        assert report.shift == (-1 if name == "one early" else 1)


@pytest.mark.parametrize("drift", [0.15, 0.4])
def test_stale_weights_are_named(tmp_path: Path, drift: float) -> None:
    report = check_logprobs(datums(tmp_path, sampled(0)), Direct(STUDENT.moved(drift)))
    assert report.verdict is Verdict.WEIGHTS, report


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, {}),
        ({"temperature": 0.7}, {"temperature": 0.7}),
        ({"temperature": 0.7, "mode": "processed"}, {"temperature": 0.7}),
        ({"top_k": 20, "mode": "processed"}, {"top_k": 20}),
        ({"top_k": 10}, {"top_k": 10}),
        ({"top_k": 1}, {"temperature": 0.0}),
    ],
)
def test_what_is_labelled_is_no_fault(
    tmp_path: Path, how: dict[str, Any], said: dict[str, Any]
) -> None:
    mode = LogprobMode(how.get("mode", "raw"))
    report = check_logprobs(datums(tmp_path, sampled(0, **how), mode, **said), Direct(STUDENT))
    assert report.verdict is Verdict.AGREES, report


def test_raw_records_called_processed_are_named(tmp_path: Path) -> None:
    chats = sampled(0, temperature=0.7)
    place = datums(tmp_path, chats, LogprobMode.PROCESSED, temperature=0.7)
    assert check_logprobs(place, Direct(STUDENT)).verdict is Verdict.RAW


def test_through_http(tmp_path: Path) -> None:
    place = datums(tmp_path, sampled(5, 8))
    with serve(STUDENT) as server:
        endpoint = Endpoint(server.url)
        reports: list[CheckReport] = [
            check_logprobs(place, scorer)
            for scorer in (VllmScorer(endpoint, "s"), SglangScorer(endpoint))
        ]
        assert [r.verdict for r in reports] == [Verdict.AGREES] * 2
        assert all(r.mean_abs_difference == 0.0 and r.tokens == 8 * 36 for r in reports)
        plain = check_logprobs(place, EchoScorer(endpoint, "s"), top_k=0)
        assert plain.verdict is Verdict.AGREES
    with serve(STUDENT.moved(0.3)) as server:
        report = check_logprobs(place, VllmScorer(Endpoint(server.url), "s"))
        assert report.verdict is Verdict.WEIGHTS


def test_sequences_that_cannot_be_scored_are_counted(tmp_path: Path) -> None:
    place = datums(tmp_path, sampled(6, 8))
    with serve(STUDENT, lambda number, ids: "400" if number <= 2 else None) as server:
        report = check_logprobs(place, VllmScorer(Endpoint(server.url), "s"), concurrency=1)
        assert report.faults == {ScoreFault.REFUSED: 2}
        assert report.sequences == 6
    with (
        serve(STUDENT, lambda number, ids: "400") as server,
        pytest.raises(DistillError, match="HTTP 400"),
    ):
        check_logprobs(place, VllmScorer(Endpoint(server.url), "s"))


def test_datums_without_logprobs_cannot_be_checked(tmp_path: Path) -> None:
    place = datums(tmp_path, [[]])
    with pytest.raises(UsageError, match="found none"):
        check_logprobs(place, Direct(STUDENT))


@pytest.mark.parametrize(("how", "said"), [({"top_k": 40, "mode": "processed"}, {"top_k": 40})])
def test_a_filter_wider_than_the_list_is_no_fault(
    tmp_path: Path, how: dict[str, Any], said: dict[str, Any]
) -> None:
    place = datums(tmp_path, sampled(0, **how), LogprobMode.PROCESSED, **said)
    assert check_logprobs(place, Direct(STUDENT)).verdict is Verdict.AGREES


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_a_few_tokens_name_no_fault_in_particular(tmp_path: Path, tokens: int) -> None:
    clean = datums(tmp_path / "clean", sampled(0, 1, turns=1, tokens=tokens))
    assert check_logprobs(clean, Direct(STUDENT)).verdict is Verdict.AGREES
    report = check_logprobs(clean, Direct(LanguageModel(seed=77)))
    assert report.verdict in (Verdict.UNEXPLAINED, Verdict.AGREES)


def test_noise_of_another_precision_is_no_fault(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noisy = [
        [Turn(t.prompt, t.sampled, [x + rng.normal(0, 0.03) for x in t.logprobs]) for t in turns]
        for turns in sampled(3)
    ]
    assert check_logprobs(datums(tmp_path, noisy), Direct(STUDENT)).verdict is Verdict.AGREES


def test_a_shift_is_named_where_a_sure_model_hides_it(tmp_path: Path) -> None:
    sure = LanguageModel(sharpness=40.0)
    rng = np.random.default_rng(1)
    chats = [chat(sure, rng, tokens=30) for _ in range(30)]
    report = check_logprobs(datums(tmp_path / "c", chats), Direct(sure))
    assert report.verdict is Verdict.AGREES
    late = [shifted(turns, 1) for turns in chats]
    report = check_logprobs(datums(tmp_path / "s", late), Direct(sure), tolerance=1.0)
    assert (report.verdict, report.shift) == (Verdict.SHIFTED, 1)


def test_mixed_versions_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    records = []
    for number in range(16):
        newer = number % 2 == 1
        turns = chat(STUDENT.moved(0.4) if newer else STUDENT, rng)
        said = Sampling(
            logprob_mode=LogprobMode.RAW,
            policy_version="v2" if newer else "v1",
            train_step=number % 2,
        )
        records.append(record(turns, number, sampled_with=said))
    build_datum_shards(dataset(tmp_path / "shards", records), tmp_path / "d")
    report = check_logprobs(tmp_path / "d", Direct(STUDENT))
    assert report.verdict is Verdict.MIXED_VERSIONS
    assert [one.part for one in report.by_version] == ["v1, step 0", "v2, step 1"]
    assert report.by_version[0].mean_abs_difference == 0.0
    assert any("v1, step 0, v2, step 1" in clue for clue in report.clues)


def test_one_bad_chat_is_named_and_listed_first(tmp_path: Path) -> None:
    chats = sampled(2, 16)
    chats[11] = shifted(chats[11], 1)
    report = check_logprobs(datums(tmp_path, chats), Direct(STUDENT))
    assert report.verdict is Verdict.SOME_EPISODES
    assert report.episodes == ["e11"]
    assert report.worst_episodes[0].part == "e11"
    assert len(report.worst_episodes) == 10


def test_rounded_values_are_said_and_allowed(tmp_path: Path) -> None:
    place = datums(tmp_path, changed(1, lambda x: np.round(x, 1)))
    report = check_logprobs(place, Direct(STUDENT), noise=Noise.FP32)
    assert report.verdict is Verdict.AGREES
    assert report.rounded_to == 0.1
    assert report.tolerance == pytest.approx(0.005 + 0.025)


def test_single_implausible_values_are_in_no_statistic(tmp_path: Path) -> None:
    chats = sampled(1, 8)
    chats[0][0].logprobs[3] = -1e16
    chats[1][0].logprobs[3] = -999.0
    report = check_logprobs(datums(tmp_path, chats), Direct(STUDENT))
    assert report.verdict is Verdict.AGREES
    assert report.mean_abs_difference <= 5.0 / report.tokens + 1e-12


def test_tails_are_those_of_the_values(tmp_path: Path) -> None:
    """The sums of the report by hand, over all recorded tokens."""
    chats = sampled(1, 8)
    newer = STUDENT.moved(0.3)
    report = check_logprobs(datums(tmp_path, chats), Direct(newer))
    d = []
    for turns in chats:
        for turn in turns:
            values = newer.logprobs([*turn.prompt, *turn.sampled])[len(turn.prompt) :]
            d += (np.array(turn.logprobs) - values).tolist()
    assert report.tokens == len(d)
    assert report.k3 == pytest.approx(np.mean(np.exp(np.negative(d)) - 1 + d))
    assert report.outside == pytest.approx(np.mean(np.abs(d) > np.log(2)))
    assert report.mean_abs_difference == pytest.approx(np.mean(np.abs(d)))
    assert sum(one.tokens for one in report.by_turn) == len(d)
    assert sum(one.tokens for one in report.by_position) == len(d)


def test_more_candidates_are_asked_for(tmp_path: Path) -> None:
    flat = LanguageModel(sharpness=1.0)
    rng = np.random.default_rng(3)
    chats = [chat(flat, rng, temperature=0.7, mode="processed") for _ in range(16)]
    place = datums(tmp_path, chats)
    report = check_logprobs(place, Direct(flat), top_k=5)
    assert report.verdict is Verdict.PROCESSED
    assert report.fitted == "temperature 0.7"
    assert report.top_k > 20
    refusing = check_logprobs(place, Direct(flat, most=5), top_k=20)
    assert refusing.verdict is Verdict.UNEXPLAINED
    assert refusing.top_k == 5
    assert any("too little mass" in one for one in (*refusing.clues, *refusing.cannot_tell))


def test_what_an_echo_cannot_tell_is_said(tmp_path: Path) -> None:
    place = datums(tmp_path, sampled(1, 8, temperature=0.7))
    report = check_logprobs(place, Direct(STUDENT), top_k=0)
    assert report.verdict is Verdict.AGREES
    assert any("no candidates" in one for one in report.cannot_tell)
    place = datums(tmp_path / "2", sampled(1, 8, temperature=0.7, mode="processed"))
    assert check_logprobs(place, Direct(STUDENT), top_k=0).verdict is Verdict.UNEXPLAINED


def test_stated_penalties_are_not_taken_for_granted(tmp_path: Path) -> None:
    chats = sampled(1, 16, repetition=1.5)
    said = {"sampling": '{"repetition_penalty":1.5}'}
    report = check_logprobs(datums(tmp_path / "raw", chats, **said), Direct(STUDENT))
    assert report.verdict is Verdict.AGREES
    assert any("repetition_penalty 1.5" in one for one in report.cannot_tell)
    after = datums(tmp_path / "p", chats, LogprobMode.PROCESSED, **said)
    assert check_logprobs(after, Direct(STUDENT)).verdict is Verdict.UNEXPLAINED


def test_values_before_filters_as_sglang_reports_them_are_named(tmp_path: Path) -> None:
    how = {"temperature": 0.7, "top_p": 0.9, "top_k": 20}
    chats = sampled(0, order="sglang", mode="tempered", **how)
    place = datums(tmp_path, chats, LogprobMode.PROCESSED, **how)
    assert check_logprobs(place, Direct(STUDENT)).verdict is Verdict.UNFILTERED


def test_a_null_in_the_context_costs_nothing(tmp_path: Path) -> None:
    place = datums(tmp_path, sampled(5, 8))
    gaps = Direct(STUDENT, null_at=(1, 2, 3))  # prompts have ten tokens
    report = check_logprobs(place, gaps, store=tmp_path / "kept", name="s")
    assert (report.verdict, report.sequences, report.faults) == (Verdict.AGREES, 8, {})
    kept = ScoreCache(tmp_path / "kept")
    row = next(iter_datums(place))
    values = kept.logprobs(row.datum_id, "s")
    assert values is not None
    assert np.flatnonzero(np.isnan(values)).tolist() == [0, 1, 2, 3]
    with pytest.raises(DistillError, match="not_finite: position 11"):
        check_logprobs(place, Direct(STUDENT, null_at=(11,)), sample=4)
