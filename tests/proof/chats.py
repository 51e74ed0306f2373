"""Chats sampled from a model, and datasets of them, without files between."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.proof.lm import LanguageModel
from wmo_distill.records import LogprobMode, Sampling, StopReason, TrialRecord
from wmo_distill.shards.manifest import DATASET, LedgerInfo, LedgerTotals, Manifest
from wmo_distill.shards.writer import PartWriter
from wmo_distill.tokens import TokenSpan


@dataclass(frozen=True)
class Turn:
    """One call as a sampler would record it."""

    prompt: list[int]
    sampled: list[int]
    logprobs: list[float]


def chat(
    model: LanguageModel,
    rng: np.random.Generator,
    *,
    turns: int = 3,
    tokens: int = 12,
    breaks: bool = False,
    **how: Any,
) -> list[Turn]:
    """Turns that extend each other; with `breaks` some drop or rewrite what came before.

    `how` goes to the model's `sample`.
    """
    history = rng.integers(0, model.vocabulary, 10).tolist()
    found = []
    for _ in range(turns):
        n = int(rng.integers(0, tokens)) if breaks else tokens
        sampled = model.sample(history, n, rng, **how)
        found.append(Turn(list(history), sampled.ids, sampled.logprobs))
        more = rng.integers(0, model.vocabulary, int(rng.integers(1, 6))).tolist()
        kept = [*history, *sampled.ids]
        kind = rng.integers(0, 5) if breaks else 0
        if kind == 1:  # thinking is stripped
            kept = [*history, *sampled.ids[len(sampled.ids) // 2 :]]
        elif kind == 2:  # the history is edited
            kept[int(rng.integers(0, len(kept)))] = int(rng.integers(0, model.vocabulary))
        elif kind == 3:  # a summary stands in for it
            kept = rng.integers(0, model.vocabulary, 8).tolist()
        history = [*kept, *more]
    return found


def record(turns: list[Turn], number: int, **changes: Any) -> TrialRecord:
    """A record of a chat."""
    return TrialRecord(
        episode_id=f"e{number}",
        trial_id=f"e{number}",
        trial_name=f"t{number}",
        artifact_dir=f"t{number}",
        group_id=f"g{number // 4}",
        reward=float(number % 2),
        reward_valid=True,
        passed=bool(number % 2),
        stop_reason=StopReason.SUBMITTED,
        spans=tuple(TokenSpan(i, t.prompt, t.sampled, t.logprobs) for i, t in enumerate(turns)),
        **{"sampled_with": Sampling(logprob_mode=LogprobMode.RAW), **changes},
    )


def dataset(out: Path, records: list[TrialRecord]) -> Path:
    """The records as shards."""
    (out / "parts").mkdir(parents=True)
    with PartWriter(out / "parts/part-00000.parquet") as part:
        for one in records:
            part.write(one)
    DATASET.write(
        out,
        Manifest(
            parent="/",
            inputs=[],
            options={},
            parts=[part.info],
            ledger=LedgerInfo(rows=0, bytes=0, sha256=""),
            totals=LedgerTotals(),
            dataset_hash="",
        ),
    )
    return out
