"""How many trials, or episodes that were read, lack what training needs."""

from collections.abc import Iterable, Mapping, Sequence

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.doctor.advice import Needs
from wmo_distill.doctor.setups import OTHER, Setup
from wmo_distill.issues import Issue
from wmo_distill.records import LogprobMode, StopReason, TrialRecord
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.harbor.agents import AgentKind
from wmo_distill.sources.harbor.discovery import surroundings

Read = Mapping[int, tuple[TrialRecord, ...]]
"""The records of the trials that were read, by the trials' places."""


def needs_of(trials: Sequence[FoundTrial], setups: Sequence[Setup], read: Read) -> Needs:
    """How many trials, or episodes that were read, lack what training needs.

    Trials whose agent samples no model lack nothing.
    """
    pairs = [(setups[index], trial) for index, trial in read.items()]
    trained = [(setup, trial) for setup, trial in pairs if setup.kind is not AgentKind.NO_MODEL]
    records = all_of(trial for _, trial in trained)
    sampled = [record for record in records if record.counts.output_tokens]
    ran = all_of(trial for setup, trial in trained if setup.kind is AgentKind.RECORDS)
    ran = [r for r in ran if r.stop_reason not in (StopReason.NOT_RUN, StopReason.CANCELLED)]
    asked = sampled or ran
    empty = [
        (setup, trial)
        for setup, trial in trained
        if not any(record.counts.output_tokens for record in trial)
    ]
    holding = {
        index
        for index, trial in read.items()
        if any(record.counts.output_tokens for record in trial)
    }
    unproven = [setup for index, setup in enumerate(setups) if index not in holding]
    untempered = [r for r in asked if lacks(r, "temperature")]
    jobs = {
        trial.root.parent: near.job
        for trial, near in zip(trials, map(surroundings, trials), strict=True)
        if near.job is not None
    }
    kinds = jobs_of(trials, setups)
    return Needs(
        trials=len(trials),
        read=len(read),
        recording=sum(setup.kind is AgentKind.RECORDS for setup in setups),
        episodes=len(records),
        sampled=len(sampled),
        asked=len(asked),
        version_unknown=sum(
            any(Issue.RESULT_VERSION_UNKNOWN in record.issues for record in trial)
            for trial in read.values()
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
        unexplained=sum(setup.collects is None and setup is not OTHER for setup, _ in empty),
        without_tokens=len(records) - len(sampled),
        without_logprobs=sum(not is_scored(r) for r in sampled),
        temperature=sum(not r.sampled_with.temperature_not_sent for r in untempered),
        temperature_not_sent=sum(r.sampled_with.temperature_not_sent for r in untempered),
        filters=sum(lacks(r, "top_p") or lacks(r, "top_k") for r in sampled),
        logprob_mode=sum(lacks(r, "logprob_mode") for r in sampled),
        policy_version=sum(lacks(r, "policy_version") for r in sampled),
        train_step=sum(lacks(r, "train_step") for r in sampled),
        tokenizer=sum(lacks(r, "tokenizer") for r in sampled),
        ending=sum(record.stop_reason is StopReason.UNKNOWN for record in records),
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


def jobs_of(trials: Sequence[FoundTrial], setups: Sequence[Setup]) -> dict[object, set[AgentKind]]:
    """Which kinds of agents each job has: a directory, or the id that a server gave it."""
    jobs: dict[object, set[AgentKind]] = {}
    for trial, setup in zip(trials, setups, strict=True):
        key = trial.root.parent if surroundings(trial).job is not None else setup.job_id
        if key is not None:
            jobs.setdefault(key, set()).add(setup.kind)
    return jobs


def lacks(record: TrialRecord, name: str) -> bool:
    """Whether no record says this value of the sampling; one that varies between calls is said."""
    sampled = record.sampled_with
    if getattr(sampled, name) not in (None, LogprobMode.UNKNOWN):
        return False
    return (
        not sampled.policy_versions
        if name == "policy_version"
        else not any(f'"{name}"' in (span.sampling or "") for span in record.spans)
    )


def is_scored(record: TrialRecord) -> bool:
    """Whether every sampled call of the main chat has its log-probabilities."""
    main = [span for span in record.spans if span.segment == 0 and span.sampled.size]
    return all(span.sampled_logprobs is not None for span in main)


def has_logprobs(record: TrialRecord) -> bool:
    """Whether a sampled token of the main chat has a log-probability that a loss can use."""
    return any(
        bool((span.sampled_logprobs > IMPLAUSIBLE_LOGPROB).any())  # False for NaN
        for span in record.spans
        if span.segment == 0 and span.sampled_logprobs is not None
    )


def all_of(read: Iterable[tuple[TrialRecord, ...]]) -> list[TrialRecord]:
    return [record for trial in read for record in trial]
