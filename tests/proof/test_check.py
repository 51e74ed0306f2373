"""`check-logprobs` names what was planted, and nothing where nothing was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.proof.chats import Turn, chat
from tests.proof.faults import PLANTED, STUDENT, datums, sampled, shifted
from tests.proof.lm import LanguageModel
from tests.proof.server import serve
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.records import LogprobMode
from wmo_distill.scorers.check import CheckReport, check_logprobs
from wmo_distill.scorers.verdict import Verdict
from wmo_distill.scorers.http import EchoScorer, Endpoint, SglangScorer, VllmScorer
from wmo_distill.scorers.scorer import Score, ScoreFault
from wmo_distill.tokens import Ids


class Direct:
    """The model without a server between, for many runs."""

    tokenizer = None

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def score(self, token_ids: Ids, top_k: int) -> Score:
        ids = token_ids.tolist()
        rows = self._model.rows(ids)
        top = [
            None
            if row is None
            else [(int(t), float(row[t])) for t in (-row).argsort(kind="stable")[:top_k]]
            for row in rows
        ]
        return Score(self._model.logprobs(ids), top)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_named(tmp_path: Path, name: str, seed: int) -> None:
    verdict, make = PLANTED[name]
    report = check_logprobs(datums(tmp_path, make(seed)), Direct(STUDENT))
    assert report.verdict is verdict, report
    if "temperature" in name:
        assert report.fitted is not None
        assert float(report.fitted.split()[1].rstrip(",")) == pytest.approx(0.7, abs=0.06)
    if name.startswith("top-k"):
        assert report.fitted == "temperature 1, top_k 20"
    if verdict is Verdict.SHIFTED:
        assert report.shift == (1 if name == "one late" else -1)


@pytest.mark.parametrize("drift", [0.15, 0.4])
def test_stale_weights_are_named(tmp_path: Path, drift: float) -> None:
    report = check_logprobs(datums(tmp_path, sampled(0)), Direct(STUDENT.moved(drift)))
    assert report.verdict is Verdict.WEIGHTS, report


@pytest.mark.parametrize(
    ("how", "said"),
    [
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


@pytest.mark.parametrize("part", range(4))
def test_two_hundred_clean_runs_raise_nothing(tmp_path: Path, part: int) -> None:
    for seed in range(50 * part, 50 * part + 50):
        chats = sampled(1000 + seed, 8, breaks=seed % 2 == 1)
        report = check_logprobs(datums(tmp_path / str(seed), chats), Direct(STUDENT))
        assert report.verdict is Verdict.AGREES, (seed, report)
        assert report.mean_abs_difference == 0.0


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
    assert report.verdict in (Verdict.UNTOLD, Verdict.AGREES)


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
