"""What directories of trials hold, reported before a build: a sample is read, the rest counted."""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.credentials import without_credentials
from wmo_distill.doctor.advice import Advice, advise
from wmo_distill.doctor.formats import HARBOR
from wmo_distill.doctor.needs import Read, all_of, has_logprobs, is_scored, jobs_of, lacks, needs_of
from wmo_distill.doctor.setups import NOT_RECORDED, OTHER, Setup, setup_of
from wmo_distill.engines.local import usable_cores
from wmo_distill.errors import ReadFault
from wmo_distill.limits import TooLarge
from wmo_distill.options import BuildOptions
from wmo_distill.records import Completeness, StopReason, TrialRecord
from wmo_distill.shards.writer import PartWriter
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.finding import discover
from wmo_distill.sources.harbor.agents import AgentKind
from wmo_distill.sources.places import AnyPaths, checked_sinks
from wmo_distill.sources.registry import source_of
from wmo_distill.stats.tally import SPANLESS_REASONS
from wmo_distill.trial import read_found

SAMPLE_TRIALS = 64
SAMPLE_BYTES = 256_000_000
NO_MODEL = "no model was sampled"


class Sample(BaseModel):
    """What the trials that were read hold; their tokens are those of the main chats."""

    model_config = ConfigDict(frozen=True)

    trials: int
    bytes: int
    """Size of the files of these trials that a build may read."""
    episodes: int
    with_logprobs: int
    """Trials in which every sampled token has its log-probability."""
    without_logprobs: int
    """Trials with sampled tokens of which some, or all, have none."""
    without_tokens: dict[str, int]
    """Trials without a sampled token, by the first reason."""
    measured: int
    """Episodes with a valid grade."""
    rewritten: int
    """Episodes with a call that does not extend the call before."""
    sampled_tokens: int
    stop_reasons: dict[str, int]
    issues: dict[str, int]


class Held(BaseModel):
    """What the trials of one format hold, and what they can train: episodes that were read."""

    model_config = ConfigDict(frozen=True)

    trials: int
    """Trials found, read or not."""
    episodes: int
    tokens: int
    """With a sampled token in the main chat: what `datums --purpose sft` trains."""
    logprobs: int
    """Of which every sampled token has its log-probability."""
    grade: int
    """With a valid grade."""
    ending: int
    """With a known ending."""
    policy_version: int
    rl: int
    """What RL can train: with a usable log-probability, a valid grade and no missing call."""


class Diagnosis(BaseModel):
    """What `doctor` says; versions, agents and models count trials of Harbor."""

    model_config = ConfigDict(frozen=True)

    trials: int
    """Directories, lines and rows that are trials, duplicates too."""
    duplicates: dict[str, str] = Field(default_factory=dict)
    """Trials of which a build writes no row, with the path of the one that has their id; of those
    whose id a search shows."""
    unread: dict[str, str] = Field(default_factory=dict)
    """What could not be read, by the path of a trial or directory; of no other number."""
    jobs: int
    bytes: int
    """Size of the files that a build may read."""
    formats: dict[str, Held]
    harbor: dict[str, int]
    """Trials by Harbor's version."""
    agents: dict[str, int]
    models: dict[str, int]
    sample: Sample
    advice: tuple[Advice, ...]
    build_seconds: float | None
    """Estimate for this machine's cores; None where nothing could be sampled."""
    shard_bytes: int | None
    """Estimated size of the dataset; None as above."""


def diagnose(paths: AnyPaths, sinks: str | os.PathLike[str] | None = None) -> Diagnosis:
    """Look at every trial's config and read a sample of the trials; UsageError for a bad PATH.

    `sinks` is the directory of token sinks that a build would be given.
    """
    options = BuildOptions(sinks=checked_sinks(None if sinks is None else Path(sinks)))
    found = discover(paths)
    unread = dict(found.unlisted)
    versions: dict[Path, str | None] = {}
    looked = [
        look
        for trial in found.trials
        if (look := _look(trial, versions, unread, options.sinks)) is not None
    ]
    trials = [trial for trial, _, _ in looked]
    sizes = [size for _, size, _ in looked]
    setups = [setup for _, _, setup in looked]
    began = time.perf_counter()
    by_index = _read(trials, choose(sizes, [t.source for t in trials]), options, unread)
    chosen, read = list(by_index), list(by_index.values())
    written = _written_bytes(all_of(read))
    seconds = time.perf_counter() - began
    kinds = [setups[index].kind for index in chosen]
    sample = _sample(read, kinds, sum(sizes[index] for index in chosen))
    by_format = {
        kind: _part(kind, trials, setups, by_index)
        for kind in _counted(trial.source for trial in trials)
    }
    share = sample.bytes / sum(sizes) if sum(sizes) else 0.0
    return Diagnosis(
        trials=len(found.trials),
        duplicates=_duplicates(found.trials),
        unread=unread,
        jobs=len(jobs_of(trials, setups)),
        bytes=sum(sizes),
        formats={kind: _held(*part) for kind, part in by_format.items()},
        harbor=_counted(setup.harbor for setup in setups if setup is not OTHER),
        agents=_counted(setup.agent for setup in setups if setup is not OTHER),
        models=_counted(setup.model for setup in setups if setup is not OTHER),
        sample=sample,
        advice=advise({kind: needs_of(*part) for kind, part in by_format.items()}),
        build_seconds=seconds / share / usable_cores() if share else None,
        shard_bytes=int(written / share) if share else None,
    )


def _duplicates(trials: Iterable[FoundTrial]) -> dict[str, str]:
    """Trials with the id of one before them in the order of paths, each with the path of that."""
    first: dict[str, str] = {}
    return {
        trial.path: first[trial.trial_id]
        for trial in trials
        if trial.trial_id and first.setdefault(trial.trial_id, trial.path) != trial.path
    }


def _look(
    trial: FoundTrial,
    versions: dict[Path, str | None],
    unread: dict[str, str],
    sinks: Path | None,
) -> tuple[FoundTrial, int, Setup] | None:
    """A trial with its size and setup; None, and a line in `unread`, where it cannot be read."""
    try:
        if not trial.fault:
            size = source_of(trial.source).state(trial, sinks).bytes
            return trial, size, setup_of(trial, versions) if trial.source == HARBOR else OTHER
        unread[trial.path] = trial.fault
    except ReadFault as fault:
        unread[trial.path] = str(fault)
    return None


def _read(
    trials: Sequence[FoundTrial],
    chosen: Iterable[int],
    options: BuildOptions,
    unread: dict[str, str],
) -> Read:
    """The records of the chosen trials that could be read."""
    read: dict[int, tuple[TrialRecord, ...]] = {}
    for index in chosen:
        try:
            read[index] = read_found(trials[index], options).records
        except (ReadFault, TooLarge) as fault:
            unread[trials[index].path] = str(fault)
    return read


def _part(
    kind: str, trials: Sequence[FoundTrial], setups: Sequence[Setup], read: Read
) -> tuple[Sequence[FoundTrial], Sequence[Setup], Read]:
    """The same of one format alone."""
    places = [index for index, trial in enumerate(trials) if trial.source == kind]
    return (
        [trials[index] for index in places],
        [setups[index] for index in places],
        {at: read[index] for at, index in enumerate(places) if index in read},
    )


def _held(trials: Sequence[FoundTrial], _: Sequence[Setup], read: Read) -> Held:
    records = all_of(read.values())
    sampled = [record for record in records if record.counts.output_tokens]
    return Held(
        trials=len(trials),
        episodes=len(records),
        tokens=len(sampled),
        logprobs=sum(map(is_scored, sampled)),
        grade=sum(record.measured for record in records),
        ending=sum(record.stop_reason is not StopReason.UNKNOWN for record in records),
        policy_version=sum(not lacks(record, "policy_version") for record in sampled),
        rl=sum(
            record.measured
            and record.completeness is not Completeness.INCOMPLETE
            and has_logprobs(record)
            for record in sampled
        ),
    )


def choose(sizes: Sequence[int], formats: Sequence[str] = ()) -> list[int]:
    """Indices of a sample spread evenly over the trials, within the limits.

    And, whatever its size, the smallest trial of each format that it would leave out: where
    `formats` is empty, of all.
    """
    step = max(1, -(-len(sizes) // SAMPLE_TRIALS))
    chosen: list[int] = []
    left = SAMPLE_BYTES
    for index in range(0, len(sizes), step):
        if sizes[index] <= left:
            chosen.append(index)
            left -= sizes[index]
    smallest: dict[str, int] = {}
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        smallest.setdefault(formats[index] if formats else "", index)
    seen = {formats[index] if formats else "" for index in chosen}
    return sorted(chosen + [index for kind, index in smallest.items() if kind not in seen])


def _written_bytes(records: Iterable[TrialRecord]) -> int:
    """The size of a part with these rows."""
    with tempfile.TemporaryDirectory() as directory:
        with PartWriter(Path(directory) / "sample.parquet") as part:
            for record in records:
                part.write(record)
        return part.info.bytes


def _sample(
    read: Sequence[tuple[TrialRecord, ...]], kinds: Sequence[AgentKind], size: int
) -> Sample:
    records = all_of(read)
    tokens = [sum(record.counts.output_tokens for record in trial) for trial in read]
    complete = [all(is_scored(record) for record in trial) for trial in read]
    pairs = list(zip(tokens, complete, strict=True))
    return Sample(
        trials=len(read),
        bytes=size,
        episodes=len(records),
        with_logprobs=sum(n > 0 and whole for n, whole in pairs),
        without_logprobs=sum(n > 0 and not whole for n, whole in pairs),
        without_tokens=_counted(
            NO_MODEL if kind is AgentKind.NO_MODEL else _reason(trial)
            for trial, kind, n in zip(read, kinds, tokens, strict=True)
            if not n
        ),
        measured=sum(record.measured for record in records),
        rewritten=sum(record.counts.fragments > 1 for record in records),
        sampled_tokens=sum(tokens),
        stop_reasons=_counted(str(record.stop_reason) for record in records),
        issues=_counted(issue.value for record in records for issue in record.issues),
    )


def _reason(trial: Iterable[TrialRecord]) -> str:
    found = {issue for record in trial for issue in record.issues}
    return next((reason.value for reason in SPANLESS_REASONS if reason in found), NOT_RECORDED)


def _counted(values: Iterable[str]) -> dict[str, int]:
    """Counts, the largest first."""
    counts = Counter(map(without_credentials, values))
    return {key: counts[key] for key in sorted(counts, key=lambda key: (-counts[key], key))}
