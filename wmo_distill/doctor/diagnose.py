"""What directories of trials hold, reported before a build: a sample is read, the rest counted."""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.doctor.advice import Advice, Needs, advise
from wmo_distill.doctor.setups import NOT_RECORDED, Setup, setup_of
from wmo_distill.engines.local import usable_cores
from wmo_distill.errors import ReadFault
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import LogprobMode, StopReason, TrialRecord
from wmo_distill.shards.writer import PartWriter
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.finding import discover
from wmo_distill.sources.harbor.agents import AgentKind
from wmo_distill.sources.harbor.discovery import surroundings
from wmo_distill.sources.registry import source_of
from wmo_distill.stats.rollout import SPANLESS_REASONS
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


class Diagnosis(BaseModel):
    """What `doctor` says; versions, agents and models count trials."""

    model_config = ConfigDict(frozen=True)

    trials: int
    unread: dict[str, str] = Field(default_factory=dict)
    """What could not be read, by the path of a trial or directory; of no other number."""
    jobs: int
    bytes: int
    """Size of the files that a build may read."""
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


def diagnose(paths: Sequence[str | os.PathLike[str]]) -> Diagnosis:
    """Look at every trial's config and read a sample of the trials; UsageError for a bad PATH."""
    found = discover(paths)
    unread = dict(found.unlisted)
    versions: dict[Path, str | None] = {}
    looked = [look for trial in found.trials if (look := _look(trial, versions, unread))]
    trials = [trial for trial, _, _ in looked]
    sizes = [size for _, size, _ in looked]
    setups = [setup for _, _, setup in looked]
    began = time.perf_counter()
    chosen, read = _read(trials, choose(sizes), unread)
    written = _written_bytes(_all(read))
    seconds = time.perf_counter() - began
    kinds = [setups[index].kind for index in chosen]
    sample = _sample(read, kinds, sum(sizes[index] for index in chosen))
    share = sample.bytes / sum(sizes) if sum(sizes) else 0.0
    return Diagnosis(
        trials=len(found.trials),
        unread=unread,
        jobs=len(_jobs(trials, setups)),
        bytes=sum(sizes),
        harbor=_counted(setup.harbor for setup in setups),
        agents=_counted(setup.agent for setup in setups),
        models=_counted(setup.model for setup in setups),
        sample=sample,
        advice=advise(_needs(trials, setups, chosen, read)),
        build_seconds=seconds / share / usable_cores() if share else None,
        shard_bytes=int(written / share) if share else None,
    )


def _look(
    trial: FoundTrial, versions: dict[Path, str | None], unread: dict[str, str]
) -> tuple[FoundTrial, int, Setup] | None:
    """A trial with its size and setup; None, and a line in `unread`, where it cannot be read."""
    try:
        if not trial.fault:
            size = source_of(trial.source).state(trial, None).bytes
            return trial, size, setup_of(trial, versions)
        unread[trial.path] = trial.fault
    except ReadFault as fault:
        unread[trial.path] = str(fault)
    return None


def _read(
    trials: Sequence[FoundTrial], chosen: Iterable[int], unread: dict[str, str]
) -> tuple[list[int], list[tuple[TrialRecord, ...]]]:
    """Which of the chosen trials could be read, and their records."""
    read = {}
    for index in chosen:
        try:
            read[index] = read_found(trials[index], BuildOptions()).records
        except ReadFault as fault:
            unread[trials[index].path] = str(fault)
    return list(read), list(read.values())


def _jobs(trials: Sequence[FoundTrial], setups: Sequence[Setup]) -> dict[object, set[AgentKind]]:
    """Which kinds of agents each job has: a directory, or the id that a server gave it."""
    jobs: dict[object, set[AgentKind]] = {}
    for trial, setup in zip(trials, setups, strict=True):
        key = trial.root.parent if surroundings(trial).job is not None else setup.job_id
        if key is not None:
            jobs.setdefault(key, set()).add(setup.kind)
    return jobs


def choose(sizes: Sequence[int]) -> list[int]:
    """Indices of a sample spread evenly over the trials, within the limits; one at the least."""
    step = max(1, -(-len(sizes) // SAMPLE_TRIALS))
    chosen: list[int] = []
    left = SAMPLE_BYTES
    for index in range(0, len(sizes), step):
        if sizes[index] <= left:
            chosen.append(index)
            left -= sizes[index]
    if not chosen and sizes:
        chosen = [min(range(len(sizes)), key=sizes.__getitem__)]
    return chosen


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
    records = _all(read)
    tokens = [sum(record.counts.output_tokens for record in trial) for trial in read]
    complete = [all(_scored(record) for record in trial) for trial in read]
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


def _scored(record: TrialRecord) -> bool:
    """Whether every sampled call of the main chat has its log-probabilities."""
    main = [span for span in record.spans if span.segment == 0 and span.sampled.size]
    return all(span.sampled_logprobs is not None for span in main)


def _reason(trial: Iterable[TrialRecord]) -> str:
    found = {issue for record in trial for issue in record.issues}
    return next((reason.value for reason in SPANLESS_REASONS if reason in found), NOT_RECORDED)


def _needs(
    trials: Sequence[FoundTrial],
    setups: Sequence[Setup],
    chosen: Sequence[int],
    read: Sequence[tuple[TrialRecord, ...]],
) -> Needs:
    """How many trials, or episodes that were read, lack what training needs.

    Trials whose agent samples no model lack nothing.
    """
    pairs = [(setups[index], trial) for index, trial in zip(chosen, read, strict=True)]
    trained = [(setup, trial) for setup, trial in pairs if setup.kind is not AgentKind.NO_MODEL]
    records = _all(trial for _, trial in trained)
    sampled = [record for record in records if record.counts.output_tokens]
    ran = _all(trial for setup, trial in trained if setup.kind is AgentKind.RECORDS)
    ran = [r for r in ran if r.stop_reason not in (StopReason.NOT_RUN, StopReason.CANCELLED)]
    asked = sampled or ran
    untempered = [record for record in asked if record.sampled_with.temperature is None]
    empty = [
        (setup, trial)
        for setup, trial in trained
        if not any(record.counts.output_tokens for record in trial)
    ]
    holding = {
        index
        for index, trial in zip(chosen, read, strict=True)
        if any(record.counts.output_tokens for record in trial)
    }
    unproven = [setup for index, setup in enumerate(setups) if index not in holding]
    untempered = [r for r in asked if r.sampled_with.temperature is None]
    jobs = {
        trial.root.parent: near.job
        for trial, near in zip(trials, map(surroundings, trials), strict=True)
        if near.job is not None
    }
    kinds = _jobs(trials, setups)
    return Needs(
        trials=len(trials),
        read=len(read),
        recording=sum(setup.kind is AgentKind.RECORDS for setup in setups),
        episodes=len(records),
        sampled=len(sampled),
        asked=len(asked),
        version_unknown=sum(
            any(Issue.RESULT_VERSION_UNKNOWN in record.issues for record in trial) for trial in read
        ),
        retries_unknown=sum(
            near.served is not None and not near.served.retries_known
            for near in map(surroundings, trials)
        ),
        not_collecting=sum(
            setup.kind is AgentKind.RECORDS and setup.collects is False for setup in setups
        ),
        without_recorder=sum(setup.kind is AgentKind.NEEDS_RECORDER for setup in unproven),
        unknown_agent=sum(
            setup.kind is AgentKind.UNKNOWN and setup.collects is False for setup in unproven
        ),
        silent=sum(
            bool(setup.collects) and any((record.n_episodes or 0) > 1 for record in trial)
            for setup, trial in empty
        ),
        without_logprobs=sum(not _scored(r) for r in sampled),
        temperature=sum(not r.sampled_with.temperature_not_sent for r in untempered),
        temperature_not_sent=sum(r.sampled_with.temperature_not_sent for r in untempered),
        logprob_mode=sum(r.sampled_with.logprob_mode == LogprobMode.UNKNOWN for r in sampled),
        policy_version=sum(r.sampled_with.policy_version is None for r in sampled),
        tokenizer=sum(r.sampled_with.tokenizer is None for r in sampled),
        unmeasured=sum(not record.measured for record in records),
        other_reward=sum(
            Issue.REWARD_KEY_MISSING in r.issues or Issue.REWARD_OUT_OF_RANGE in r.issues
            for r in records
        ),
        alone=sum(
            job is not None and job.n_attempts == 1 and kinds[root] != {AgentKind.NO_MODEL}
            for root, job in jobs.items()
        ),
        rewritten=sum(r.counts.fragments > 1 and not r.compactions for r in sampled),
        summarized=sum(bool(r.compactions) for r in sampled),
    )


def _all(read: Iterable[tuple[TrialRecord, ...]]) -> list[TrialRecord]:
    return [record for trial in read for record in trial]


def _counted(values: Iterable[str]) -> dict[str, int]:
    """Counts, the largest first."""
    counts = Counter(values)
    return {key: counts[key] for key in sorted(counts, key=lambda key: (-counts[key], key))}
