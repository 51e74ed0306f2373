"""AReaL's unshifted sequences as Parquet, and the tensors that its workflows return."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.datums.versions import step_of
from wmo_distill.exporters.target import Grouping, Place, Target, measured_reward, trained

Row = Mapping[str, Any]

NO_VERSION = -1
"""Of a token that no recorded weights sampled."""

_LARGEST = np.iinfo(np.int32).max
_IDS, _FLOATS = pa.list_(pa.int32()), pa.list_(pa.float32())
SFT_SCHEMA = pa.schema([("input_ids", _IDS), ("loss_mask", _IDS)])
SCHEMA = pa.schema(
    [
        *SFT_SCHEMA,
        ("logprobs", _FLOATS),
        ("versions", _IDS),
        ("rewards", pa.float32()),
        ("group", pa.int64()),
        ("episode", pa.int64()),
        ("episode_id", pa.string()),
    ]
)


def tensor_row(row: DatumRow, place: Place) -> Row:
    """Log-probabilities off-mask are 0.0, as AReaL fills them; `versions` null if not recorded."""
    return {
        **supervised_row(row, place),
        "logprobs": np.where(trained(row), row.datum.sampled_logprobs, 0.0).astype(np.float32),
        "versions": _versions(row),
        "rewards": measured_reward(row),
        "group": place.group,
        "episode": place.episode,
        "episode_id": row.datum.episode_id,
    }


def supervised_row(row: DatumRow, place: Place) -> Row:
    """The two columns that AReaL's supervised trainer collates."""
    return {
        "input_ids": row.datum.token_ids.astype(np.int32),
        "loss_mask": trained(row).astype(np.int32),
    }


def _versions(row: DatumRow) -> NDArray[np.int32] | None:
    """The train step of the weights that sampled, else their version if it is a whole number."""
    if row.datum.versions is not None and row.train_step is None:
        return _runs(row)
    version = row.train_step
    if version is None:
        version = step_of(row.policy_version)
    if version is None or not 0 <= version <= _LARGEST:
        return None
    return np.where(trained(row), version, NO_VERSION).astype(np.int32)


def _runs(row: DatumRow) -> NDArray[np.int32] | None:
    """The versions of a sequence that several weights sampled, at its trained tokens."""
    runs = row.datum.versions or ()
    steps = [step_of(version) for version, _ in runs]
    known = [step for step in steps if step is not None and step <= _LARGEST]
    if len(known) < len(runs):
        return None
    starts = [start for _, start in runs]
    at = np.searchsorted(starts, np.arange(row.datum.token_ids.size), side="right") - 1
    return np.where(trained(row), np.array(known)[at], NO_VERSION).astype(np.int32)


def areal_trajectories(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A dict of tensors for each group, as grouped workflows return and `PPOActor` takes.

    input_ids, loss_mask, versions int32, logprobs float32 and attention_mask bool, all [sequences,
    longest], padded on the right with 0; rewards float32 [sequences]. `versions` are left out
    unless every row has them. Group normalization cuts the batch in runs of a fixed `group_size`:
    give it groups of that many sequences.
    """
    import torch

    names = {"input_ids": np.int32, "loss_mask": np.int32, "logprobs": np.float32}
    if all(row["versions"] is not None for row in rows):
        names["versions"] = np.int32
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    trajectories = []
    for members in groups.values():
        sizes = np.array([len(row["input_ids"]) for row in members])
        present = np.arange(sizes.max()) < sizes[:, None]
        arrays = {name: np.zeros(present.shape, kind) for name, kind in names.items()}
        for name, array in arrays.items():
            array[present] = np.concatenate([np.asarray(row[name]) for row in members])
        arrays["attention_mask"] = present
        arrays["rewards"] = np.array([row["rewards"] for row in members], np.float32)
        trajectories.append({name: torch.from_numpy(array) for name, array in arrays.items()})
    return trajectories


TARGETS = (
    Target(
        name="areal",
        about="AReaL sequences as Parquet",
        convert=tensor_row,
        purpose="rl",
        grouping=Grouping.FIXED,
        schema=SCHEMA,
        needs_reward=True,
    ),
    Target(
        name="areal-sft",
        about="AReaL input_ids and loss_mask as Parquet, for supervised training",
        convert=supervised_row,
        purpose="sft",
        schema=SFT_SCHEMA,
    ),
)
