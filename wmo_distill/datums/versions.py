"""Which weights sampled which tokens of a sequence, and how many training steps ago."""

import json
from collections.abc import Iterable, Iterator, Sequence
from operator import methodcaller
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wmo_distill.datums.merge import Fragment
from wmo_distill.records import Sampling, TrialRecord
from wmo_distill.segment import Segment, Versions
from wmo_distill.shards.scan import iter_batches

_COLUMNS = ("episode_id", "attempt", "train_step", "policy_versions")


def sequence_versions(
    fragment: Fragment, starts: NDArray[np.int32], policy_version: str | None
) -> Versions | None:
    """Runs of one policy version over a sequence: (version, position of its first sampled token).

    `starts` holds where each call's sampled ids begin. None where no call has versions of its own,
    so that the row's `policy_version` says it, and where a call's is not known.
    """
    chat = fragment.chat
    calls = fragment.of_calls(np.arange(len(chat)))
    if not any(chat.versions[at] for at in calls.tolist()):
        return None
    runs: list[tuple[str, int]] = []
    for at, start in zip(calls.tolist(), starts.tolist(), strict=True):
        if not chat.sampled(at).size:
            continue
        own = chat.versions[at] or (((policy_version, 0),) if policy_version is not None else None)
        if own is None:
            return None
        runs += [(version, start + offset) for version, offset in own]
    kept = [run for before, run in zip([None, *runs], runs, strict=False) if not _same(before, run)]
    return tuple(kept)


def oldest_step(fragment: Fragment, row: Sampling) -> int | None:
    """The training step of the oldest weights that sampled in a sequence; None where not known."""
    chat = fragment.chat
    calls = [at for at in fragment.of_calls(np.arange(len(chat))).tolist() if chat.sampled(at).size]
    steps = [step for found in _steps(chat, calls, row) for step in found]
    known = [step for step in steps if step is not None]
    return min(known) if known and len(known) == len(steps) else None


def newest_step(records: Iterable[TrialRecord]) -> int | None:
    """The newest training step of any call; None where no call has one."""
    return max(
        (
            step
            for record in records
            for step in steps_of(
                record.sampled_with.train_step,
                record.sampled_with.policy_versions,
                [sampling for chat in record.chats.values() for sampling in chat.sampling],
            )
        ),
        default=None,
    )


def newest_step_of(source: Path) -> int | None:
    """The same for a dataset, without reading its tokens."""
    columns = [*_COLUMNS, "spans.list.element.sampling"]
    steps = (
        step
        for row in iter_batches(source, columns, methodcaller("to_pylist"))
        for step in steps_of(
            row["train_step"], row["policy_versions"], [span["sampling"] for span in row["spans"]]
        )
    )
    return max(steps, default=None)


def steps_of(
    step: int | None, versions: Iterable[str], samplings: Sequence[str | None]
) -> list[int]:
    """The steps that a row names: its own, those of its calls, or its versions as numbers."""
    if step is not None or not samplings:
        return [] if step is None else [step]
    own = [found for found in map(_recorded_step, samplings) if found is not None]
    return own or [found for found in map(step_of, versions) if found is not None]


def step_of(version: str | None) -> int | None:
    """A policy version that is a whole number, as a training step."""
    return int(version) if version and version.isascii() and version.isdecimal() else None


def _steps(chat: Segment, calls: Iterable[int], row: Sampling) -> Iterator[list[int | None]]:
    """For each call the steps of its runs: the row's, its own, or its versions as numbers."""
    for at in calls:
        own = _recorded_step(chat.sampling[at])
        versions = chat.versions[at]
        if row.train_step is not None or own is not None:
            yield [own if row.train_step is None else row.train_step]
        elif versions:
            yield [step_of(version) for version, _ in versions]
        else:
            yield [step_of(row.policy_version)]


def _recorded_step(sampling: str | None) -> int | None:
    """The `train_step` among a call's own sampling values, which are JSON."""
    value = None if sampling is None else json.loads(sampling).get("train_step")
    return value if type(value) is int else None


def _same(before: tuple[str, int] | None, run: tuple[str, int]) -> bool:
    return before is not None and before[0] == run[0]
