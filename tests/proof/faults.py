"""Faults of recorded log-probabilities, planted in chats of the model."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.proof.chats import Turn, chat, dataset, record
from tests.proof.lm import LanguageModel
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.records import LogprobMode, Sampling
from wmo_distill.scorers.verdict import Verdict

STUDENT = LanguageModel()


def shifted(turns: list[Turn], by: int) -> list[Turn]:
    return [Turn(t.prompt, t.sampled, list(np.roll(t.logprobs, by))) for t in turns]


def stripped(model: LanguageModel, rng: np.random.Generator) -> list[Turn]:
    """The server drops the first half of each earlier reply; the records hold all of it."""
    seen = rng.integers(0, model.vocabulary, 10).tolist()
    told = list(seen)
    turns = []
    for _ in range(3):
        reply = model.sample(seen, 12, rng)
        turns.append(Turn(list(told), reply.ids, reply.logprobs))
        more = rng.integers(0, model.vocabulary, 4).tolist()
        seen = [*seen, *reply.ids[6:], *more]
        told = [*told, *reply.ids, *more]
    return turns


def sampled(seed: int, n: int = 30, **how: Any) -> list[list[Turn]]:
    rng = np.random.default_rng([77, seed])
    return [chat(STUDENT, rng, **how) for _ in range(n)]


def datums(
    place: Path, chats: list[list[Turn]], mode: LogprobMode = LogprobMode.RAW, **said: Any
) -> Path:
    sampling = Sampling(logprob_mode=mode, **said)
    records = [record(turns, n, sampled_with=sampling) for n, turns in enumerate(chats)]
    build_datum_shards(dataset(place / "shards", records), place / "datums")
    return place / "datums"


PLANTED: dict[str, tuple[Verdict, Any]] = {
    "temperature unlabelled": (Verdict.TEMPERATURE, lambda s: sampled(s, temperature=0.7)),
    "temperature unlabelled, recorded after it": (
        Verdict.PROCESSED,
        lambda s: sampled(s, temperature=0.7, mode="processed"),
    ),
    "top-k unlabelled": (Verdict.FILTERED, lambda s: sampled(s, top_k=20)),
    "top-k, recorded after it": (
        Verdict.PROCESSED,
        lambda s: sampled(s, top_k=20, mode="processed"),
    ),
    "one late": (Verdict.SHIFTED, lambda s: [shifted(t, 1) for t in sampled(s)]),
    "one early": (Verdict.SHIFTED, lambda s: [shifted(t, -1) for t in sampled(s)]),
    "stripped thinking": (
        Verdict.TEMPLATE,
        lambda s: [stripped(STUDENT, rng) for rng in [np.random.default_rng(s)] for _ in range(30)],
    ),
    "other ids": (
        Verdict.TOKENIZER,
        lambda s: [
            [Turn([(i * 31 + 7) % 97 for i in t.prompt], [(i * 31 + 7) % 97 for i in t.sampled],
                  t.logprobs) for t in turns]
            for turns in sampled(s)
        ],
    ),
}  # fmt: skip
