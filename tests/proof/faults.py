"""Faults of recorded log-probabilities, planted in chats of the model."""

import math
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.proof.chats import Turn, chat, dataset, record
from tests.proof.lm import Floats, LanguageModel
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
    """Chats that are the caller's to change."""
    return deepcopy(_sampled(seed, n, **how))


@cache
def _sampled(seed: int, n: int, **how: Any) -> list[list[Turn]]:
    rng = np.random.default_rng([77, seed])
    return [chat(STUDENT, rng, **how) for _ in range(n)]


def datums(
    place: Path, chats: list[list[Turn]], mode: LogprobMode = LogprobMode.RAW, **said: Any
) -> Path:
    sampling = Sampling(logprob_mode=mode, **said)
    records = [record(turns, n, sampled_with=sampling) for n, turns in enumerate(chats)]
    build_datum_shards(dataset(place / "shards", records), place / "datums")
    return place / "datums"


def changed(seed: int, change: Callable[[Floats], Any], **how: Any) -> list[list[Turn]]:
    """Chats whose recorded values went through a function, a turn at a time."""
    return [
        [Turn(t.prompt, t.sampled, [float(x) for x in change(np.array(t.logprobs))]) for t in turns]
        for turns in sampled(seed, **how)
    ]


def begun_otherwise(model: LanguageModel, seed: int, opening: list[int]) -> list[list[Turn]]:
    """The sampler saw `opening` (a BOS token, a system prompt) that the records lack."""
    rng = np.random.default_rng([78, seed])
    found = []
    for _ in range(30):
        history = rng.integers(0, model.vocabulary, 10).tolist()
        turns = []
        for _ in range(3):
            reply = model.sample([*opening, *history], 12, rng)
            turns.append(Turn(list(history), reply.ids, reply.logprobs))
            history = [*history, *reply.ids, *rng.integers(0, model.vocabulary, 4).tolist()]
        found.append(turns)
    return found


def some(seed: int, bad: int, change: Callable[[list[Turn]], list[Turn]]) -> list[list[Turn]]:
    """Sixteen chats of which the first few are changed."""
    chats = sampled(seed, 16)
    return [*map(change, chats[:bad]), *chats[bad:]]


def moved_on(seed: int) -> list[list[Turn]]:
    """New weights come in before the second or the third turn."""
    rng = np.random.default_rng([79, seed])
    newer = STUDENT.moved(0.5)
    found = []
    for _ in range(30):
        history = rng.integers(0, STUDENT.vocabulary, 10).tolist()
        turns = []
        at = int(rng.integers(1, 3))
        for number in range(3):
            reply = (newer if number >= at else STUDENT).sample(history, 12, rng)
            turns.append(Turn(list(history), reply.ids, reply.logprobs))
            history = [*history, *reply.ids, *rng.integers(0, 97, 4).tolist()]
        found.append(turns)
    return found


def neighbours(seed: int) -> list[list[Turn]]:
    """Each chat has the values of the next one."""
    chats = sampled(seed)
    return [
        [Turn(t.prompt, t.sampled, o.logprobs) for t, o in zip(turns, other, strict=True)]
        for turns, other in zip(chats, [*chats[1:], chats[0]], strict=True)
    ]


def jumbled(seed: int) -> list[list[Turn]]:
    rng = np.random.default_rng([80, seed])
    return changed(seed, rng.permutation)


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
    "min-p unlabelled": (Verdict.FILTERED, lambda s: sampled(s, min_p=0.05)),
    "min-p, recorded after it": (
        Verdict.PROCESSED,
        lambda s: sampled(s, min_p=0.05, mode="processed"),
    ),
    "0.6, top-p, top-k, recorded after them": (
        Verdict.PROCESSED,
        lambda s: sampled(s, temperature=0.6, top_p=0.95, top_k=20, mode="processed"),
    ),
    "repetition penalty": (Verdict.PENALTY, lambda s: sampled(s, repetition=1.4)),
    "repetition penalty, recorded after it": (
        Verdict.UNEXPLAINED,
        lambda s: sampled(s, repetition=1.4, mode="processed"),
    ),
    "presence penalty, recorded after it": (
        Verdict.UNEXPLAINED,
        lambda s: sampled(s, presence=1.0, tokens=24, mode="processed"),
    ),
    "base-10 logarithms": (Verdict.UNITS, lambda s: changed(s, lambda x: x / math.log(10.0))),
    "base-2 logarithms": (Verdict.UNITS, lambda s: changed(s, lambda x: x / math.log(2.0))),
    "flipped sign": (Verdict.UNITS, lambda s: changed(s, lambda x: -x)),
    "probabilities": (Verdict.UNITS, lambda s: changed(s, np.exp)),
    "all zeros": (Verdict.FILLER, lambda s: changed(s, lambda x: 0.0 * x)),
    "zeros here and there": (
        Verdict.UNEXPLAINED,
        lambda s: changed(s, lambda x: np.where(np.arange(x.size) % 4 == 0, 0.0, x)),
    ),
    "clipped at -2": (Verdict.UNEXPLAINED, lambda s: changed(s, lambda x: np.maximum(x, -2.0))),
    "whole numbers": (Verdict.UNEXPLAINED, lambda s: changed(s, np.round)),
    "summed up": (Verdict.UNEXPLAINED, lambda s: changed(s, np.cumsum)),
    "the mean of each turn": (
        Verdict.UNEXPLAINED,
        lambda s: changed(s, lambda x: 0.0 * x + x.mean()),
    ),
    "first tokens off": (
        Verdict.UNEXPLAINED,
        lambda s: changed(s, lambda x: np.where(np.arange(x.size) == 0, x - 1.5, x)),
    ),
    "jumbled in each turn": (Verdict.UNEXPLAINED, jumbled),
    "of the next chat": (Verdict.UNEXPLAINED, neighbours),
    "missing BOS": (Verdict.UNEXPLAINED, lambda s: begun_otherwise(STUDENT, s, [5])),
    "missing system prompt": (
        Verdict.UNEXPLAINED,
        lambda s: begun_otherwise(STUDENT, s, [5, 90, 17, 44, 3]),
    ),
    "one late in later turns": (
        Verdict.SHIFTED,
        lambda s: [[t[0], *shifted(t[1:], 1)] for t in sampled(s)],
    ),
    "new weights on the way": (Verdict.UNEXPLAINED, moved_on),
    "one chat in sixteen late": (
        Verdict.SOME_EPISODES,
        lambda s: some(s, 1, lambda turns: shifted(turns, 1)),
    ),
    "three chats in sixteen of zeros": (
        Verdict.SOME_EPISODES,
        lambda s: some(s, 3, lambda t: [Turn(x.prompt, x.sampled, [0.0] * 12) for x in t]),
    ),
}  # fmt: skip
