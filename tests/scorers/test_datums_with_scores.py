"""Datums whose advantages come from a teacher's cached scores."""

from pathlib import Path

import numpy as np
import pytest

from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from wmo_distill.arrays import Ids
from wmo_distill.datums.advantages import attach_advantages
from wmo_distill.datums.dataset import DatumRow, iter_datums
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.verify import verify_datums
from wmo_distill.errors import UsageError
from wmo_distill.records import TrialRecord
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.run import plan_scores, score_datums
from wmo_distill.scorers.scorer import Score, ScoreFault
from wmo_distill.tokens import TokenSpan

TEACHER = LanguageModel(seed=9)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(2)
    place = tmp_path_factory.mktemp("taught")
    chats = [chat(LanguageModel(), rng, breaks=n % 2 == 0) for n in range(10)]
    return dataset(place / "shards", [record(turns, n) for n, turns in enumerate(chats)])


@pytest.fixture(scope="module")
def cache(shards: Path) -> ScoreCache:
    """Scores of all sequences but one."""
    build_datum_shards(shards, shards.parent / "plain")
    cache = ScoreCache(shards.parent / "cache")
    rows = list(iter_datums(shards.parent / "plain"))
    scores = [
        (row.datum_id, Score(TEACHER.logprobs(row.datum.token_ids.tolist())), 0) for row in rows
    ]
    cache.add("t", scores[:3])
    cache.add("t", scores[4:])
    return cache


def built(shards: Path, out: Path, cache: ScoreCache, options: DatumOptions) -> list[DatumRow]:
    build_datum_shards(shards, out, options, scores=cache)
    return list(iter_datums(out))


@pytest.mark.parametrize(
    "options",
    [
        DatumOptions(teacher="t"),
        DatumOptions(teacher="t", clip=0.5, center=True, beta=0.3),
        DatumOptions(teacher="t", teacher_discount=0.9, center=True),
        DatumOptions(teacher="t", advantages="centered", clip=2.0, beta=0.1),
    ],
)
def test_the_shards_hold_what_the_library_gives(
    shards: Path, cache: ScoreCache, tmp_path: Path, options: DatumOptions
) -> None:
    rewards = DatumOptions(advantages=options.advantages)
    build_datum_shards(shards, tmp_path / "rewards", rewards)
    plain = [row.datum for row in iter_datums(tmp_path / "rewards")]
    lists = [TEACHER.logprobs(datum.token_ids.tolist()) for datum in plain]
    lists[3] = np.zeros(0)
    wanted, stats = attach_advantages(
        plain,
        lists,
        clip=options.clip,
        center=options.center,
        beta=options.beta,
        discount=options.teacher_discount,
    )
    rows = built(shards, tmp_path / "d", cache, options)
    assert len(rows) == len(plain) == len(wanted) + 1
    assert rows[3].datum.advantages is None
    assert rows[3].datum.teacher_logprobs is None
    assert rows[3].teacher is None
    scored = rows[:3] + rows[4:]
    for row, one in zip(scored, wanted, strict=True):
        assert row.datum.advantages is not None
        assert one.advantages is not None
        assert row.datum.advantages.tolist() == pytest.approx(one.advantages.tolist(), abs=1e-12)
        assert row.teacher == "t"
        told = TEACHER.logprobs(row.datum.token_ids.tolist())
        assert row.datum.teacher_logprobs is not None
        assert np.array_equal(row.datum.teacher_logprobs, told, equal_nan=True)
    assert stats.mismatch_drops == 1
    if options.center:
        trained = [row.datum.advantages[row.datum.loss_mask] for row in scored]
        assert float(np.concatenate(trained).mean()) == pytest.approx(0.0, abs=1e-12)
    if options.advantages != "none":
        assert stats.reward_mean is not None


def test_an_unknown_teacher_and_half_an_order_are_refused(
    shards: Path, cache: ScoreCache, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"found 'x'; the cache holds t"):
        build_datum_shards(shards, tmp_path / "d", DatumOptions(teacher="x"), scores=cache)
    with pytest.raises(UsageError, match="both or neither"):
        build_datum_shards(shards, tmp_path / "d", DatumOptions(teacher="t"))
    with pytest.raises(UsageError, match="--clip: expected --scores"):
        build_datum_shards(shards, tmp_path / "d", DatumOptions(clip=1.0))
    assert not (tmp_path / "d").exists()


def test_the_students_rescored_values_stand_next_to_the_recorded_ones(
    shards: Path, cache: ScoreCache, tmp_path: Path
) -> None:
    """Without an effect on anything else; a sequence that was not re-scored has none."""
    summary = build_datum_shards(shards, tmp_path / "d", DatumOptions(rescored="t"), rescored=cache)
    plain = list(iter_datums(shards.parent / "plain"))
    rows = list(iter_datums(tmp_path / "d"))
    assert summary.rescored == len(rows) - 1
    for number, (row, before) in enumerate(zip(rows, plain, strict=True)):
        assert row.datum.token_ids.tolist() == before.datum.token_ids.tolist()
        assert row.datum.advantages is None
        assert row.datum.teacher_logprobs is None
        found = row.datum.rescored_logprobs
        if number == 3:
            assert found is None
            continue
        assert found is not None
        wanted = TEACHER.logprobs(row.datum.token_ids.tolist())
        assert np.array_equal(found, wanted, equal_nan=True)
    assert verify_datums(tmp_path / "d") == []


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [("t", False, "both or neither"), (None, True, "both or neither"), ("x", True, "holds t")],
)
def test_rescored_needs_a_cache_and_a_name(
    shards: Path, cache: ScoreCache, tmp_path: Path, name: str | None, given: bool, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        build_datum_shards(
            shards, tmp_path, DatumOptions(rescored=name), rescored=cache if given else None
        )


class Gaps:
    """A teacher that gives no number at some positions."""

    tokenizer = None

    def __init__(self, at: list[int]) -> None:
        self.at, self.calls = at, 0

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        self.calls += 1
        values = TEACHER.logprobs(token_ids.tolist())
        values[self.at] = np.nan
        return Score(values)

    async def close(self) -> None:
        pass


def test_a_null_in_the_context_refuses_no_sequence(shards: Path, tmp_path: Path) -> None:
    """Only trained tokens need a number: prompts have ten tokens."""
    build_datum_shards(shards, tmp_path / "d")
    kept = ScoreCache(tmp_path / "c")
    teacher = Gaps([2, 5])
    done = score_datums(tmp_path / "d", kept, teacher, "t")
    assert (done.scored, done.faults) == (done.sequences, {})
    again = ScoreCache(tmp_path / "c")  # a gap is a null on disk
    plan = plan_scores(tmp_path / "d", again, "t")
    assert (plan.cached, plan.requests) == (done.scored, 0)
    rows = built(shards, tmp_path / "out", again, DatumOptions(teacher="t"))
    for row in rows:
        datum = row.datum
        assert datum.advantages is not None
        assert datum.teacher_logprobs is not None
        assert np.flatnonzero(np.isnan(datum.teacher_logprobs)).tolist() == [0, 2, 5]
        wanted = TEACHER.logprobs(datum.token_ids.tolist()) - datum.sampled_logprobs
        mask = datum.loss_mask
        assert datum.advantages[mask].tolist() == wanted[mask].tolist()


def test_a_null_at_a_trained_token_is_a_fault(shards: Path, tmp_path: Path) -> None:
    build_datum_shards(shards, tmp_path / "d")
    first = next(iter_datums(tmp_path / "d")).datum
    at = int(np.flatnonzero(first.loss_mask)[0])
    kept = ScoreCache(tmp_path / "c")
    done = score_datums(tmp_path / "d", kept, Gaps([at]), "t", attempts=1, wait=0.0)
    assert done.faults[ScoreFault.NOT_FINITE] >= 1
    assert done.scored + done.faults[ScoreFault.NOT_FINITE] == done.sequences


def test_rows_of_the_same_ids_with_other_masks(shards: Path, tmp_path: Path) -> None:
    """A score that lacks what another row trains is asked for again, and used where it fits."""
    ids = list(range(12))
    first = TrialRecord(
        episode_id="a", spans=(TokenSpan(0, ids[:10], ids[10:], [-1.0, -1.0]),), group_id="g"
    )
    second = TrialRecord(
        episode_id="b", spans=(TokenSpan(0, ids[:6], ids[6:], [-1.0] * 6),), group_id="g"
    )
    dataset(tmp_path / "s", [first, second])
    build_datum_shards(tmp_path / "s", tmp_path / "d")
    assert len({row.datum_id for row in iter_datums(tmp_path / "d")}) == 1
    kept = ScoreCache(tmp_path / "c")
    assert score_datums(tmp_path / "d", kept, Gaps([7]), "t").scored == 1
    made = built(tmp_path / "s", tmp_path / "out", kept, DatumOptions(teacher="t"))
    assert [row.datum.advantages is not None for row in made] == [True, False]
    whole = Gaps([])
    assert score_datums(tmp_path / "d", kept, whole, "t").scored == 1
    assert whole.calls == 1
    made = built(tmp_path / "s", tmp_path / "out2", kept, DatumOptions(teacher="t"))
    assert all(row.datum.advantages is not None for row in made)
