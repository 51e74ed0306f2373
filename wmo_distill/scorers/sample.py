"""The sequences that a check takes, and the episodes and policy versions that they are of."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.scorers.compared import comparable


def episode_names(rows: list[DatumRow]) -> list[str]:
    """The episode ids of the sample, each once, in order."""
    return list(dict.fromkeys(map(episode_name, rows)))


def episode_name(row: DatumRow) -> str:
    return str(row.datum.episode_id)


def version_names(rows: list[DatumRow]) -> list[str]:
    """The policy versions and training steps of the sample, each once, sorted."""
    return sorted({one for one in map(version_name, rows) if one})


def version_name(row: DatumRow) -> str:
    """The row's policy version and training step, empty where neither is recorded."""
    version, step = row.policy_version, row.train_step
    parts = [] if version is None else [str(version)]
    parts += [] if step is None else [f"step {step}"]
    return ", ".join(parts)


def sampled_rows(rows: Iterator[DatumRow], n: int, seed: int) -> list[DatumRow]:
    """n rows with a trained, recorded token, each as likely as any other, in their order."""
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, DatumRow]] = []
    seen = 0
    for number, row in enumerate(rows):
        if row.datum.token_ids.size < 2 or not comparable(row).any():
            continue
        seen += 1
        if len(kept) < n:
            kept.append((number, _own(row)))
        elif (place := int(rng.integers(0, seen))) < n:
            kept[place] = number, _own(row)
    return [row for _, row in sorted(kept, key=lambda one: one[0])]


def _own(row: DatumRow) -> DatumRow:
    """The row with arrays of its own: views would keep its whole row group in memory."""
    datum = row.datum
    own = replace(
        datum,
        token_ids=datum.token_ids.copy(),
        loss_mask=datum.loss_mask.copy(),
        sampled_logprobs=datum.sampled_logprobs.copy(),
        advantages=None,
        teacher_logprobs=None,
        routed_experts=None,
    )
    return replace(row, datum=own)
