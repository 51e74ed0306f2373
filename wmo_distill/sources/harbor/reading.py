"""One trial directory to the evidence of its episodes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.evidence import (
    CallCounters,
    EndingEvidence,
    Evidence,
    Exceptional,
    GradeEvidence,
    Identity,
    RewardFiles,
    RunTrace,
    TestsReport,
    Times,
)
from wmo_distill.sources.harbor.arguments import sampling_evidence
from wmo_distill.sources.harbor.calls import episode_calls
from wmo_distill.sources.harbor.discovery import Surroundings, surroundings
from wmo_distill.sources.harbor.episodes import (
    EpisodeFiles,
    EpisodePlace,
    TrialDocuments,
    episode_places,
    place_issues,
    read_documents,
)
from wmo_distill.sources.harbor.identity import episode_times, identity_of, trial_times
from wmo_distill.sources.harbor.trajectory import Trajectory
from wmo_distill.sources.run_trace import read_run_trace
from wmo_distill.sources.values import Values, at, moment, zoned_time

_NO_FILES, _NO_TESTS = RewardFiles(), TestsReport()


def read_evidence(found: FoundTrial, options: BuildOptions) -> list[Evidence]:
    """The evidence of each episode of a trial; what concerns them all is said with the first."""
    trial = read_documents(TrialFiles(found.root), extra=options.extra)
    values = Values()
    near = surroundings(found)
    places = episode_places(trial)
    said = EpisodeFiles(trial.files, Counter(place.root for place in places))
    identity = _identity(trial, found, near, values)
    times = trial_times(trial.result, values)
    read = [_episode(trial, place, said, identity, times, options, values) for place in places]
    if places[0].step_index is not None:
        whole = trial_grade(trial.result)
        read = [replace(evidence, trial_grade=whole) for evidence in read]
    naive = [Issue.TIME_WITHOUT_ZONE] * values.naive
    first = replace(
        read[0],
        issues=(*read[0].issues, *trial.issues, *values.issues, *naive),
        slow_reads=read[0].slow_reads + trial.slow_reads,
    )
    return [first, *read[1:]]


def _identity(
    trial: TrialDocuments, found: FoundTrial, near: Surroundings, values: Values
) -> Identity:
    job = None if near.job is None else near.job.name
    if near.served is not None:
        job = values.text(at(trial.config, "job_id"))
    identity = identity_of(
        trial.result,
        trial.config,
        directory=found.path.rsplit("/", 1)[-1],
        job=job,
        values=values,
    )
    if near.served is not None and identity.regrade_of is None:
        identity = replace(identity, regrade_of=near.served.retry_of)
    expected = None if near.job is None else near.job.n_attempts
    return replace(identity, artifact_dir=found.path, group_expected=expected)


def _episode(
    trial: TrialDocuments,
    place: EpisodePlace,
    said: EpisodeFiles,
    identity: Identity,
    times: Times,
    options: BuildOptions,
    of_trial: Values,
) -> Evidence:
    """One episode; that a time has no zone is said once, `of_trial`."""
    files, recorded, values = trial.files, place.recorded, Values()
    trajectory, rewards, tests = said.at(place)
    calls = episode_calls(trial, place, place.directory("agent"), trajectory, options)
    trace = read_run_trace(files, place.root) if calls.in_use else None
    exceptions = _exceptions(trial, place, values)
    is_step = place.step_index is not None
    if is_step:
        name = values.text(at(recorded, "step_name")) or None
        identity = replace(identity, step_name=name, step_index=place.step_index)
    grade = grade_evidence(
        at(recorded, "verifier_result"),
        exceptions,
        None if is_step else at(recorded, "reward_valid"),
        readable=trial.result is not None,
        reward_files=rewards,
        tests=tests,
    )
    times = episode_times(recorded, times, values)
    of_trial.naive |= values.naive
    return Evidence(
        identity=identity,
        calls=calls.calls,
        listed=calls.listed,
        call_source=calls.source,
        call_issues=calls.issues,
        unreadable_calls=calls.unreadable,
        counters=_counters(recorded, trajectory),
        sampling=sampling_evidence(trial.config, calls.sampling, trajectory.agent),
        ending=_ending(trial, recorded, exceptions, trajectory, trace),
        grade=grade,
        times=times,
        issues=(
            *calls.unused_issues,
            *(() if trace is None else trace.issues),
            *trajectory.issues,
            *place_issues(trial, place),
            *values.issues,
        ),
        slow_reads=trajectory.slow_reads,
    )


def _exceptions(
    trial: TrialDocuments, place: EpisodePlace, values: Values
) -> tuple[Exceptional, ...]:
    """The recorded exceptions that concern an episode, the one that decides first."""
    recorded = place.recorded
    raised = [
        exception_of(
            info,
            recorded,
            agent_result=isinstance(at(recorded, "agent_result"), dict),
            copied=isinstance(at(trial.config, "source_trial"), dict),
        )
        for info in place.exceptions
        if info is not None
    ]
    # A type that is no string counts as if nothing had been raised.
    for one in raised:
        if one.type is not None:
            break
        values.issues.append(Issue.VALUE_DAMAGED)
    return tuple(raised)


def exception_of(info: Any, timings: Any, *, agent_result: bool, copied: bool) -> Exceptional:
    """From an `exception_info`.

    `timings` is the trial or step that holds the phases; `copied`: the rollout is another trial's.
    """
    kind = at(info, "exception_type")
    valid = at(info, "policy", "has_valid_reward")
    return Exceptional(
        type=kind if isinstance(kind, str) else None,
        occurred_at=zoned_time(at(info, "occurred_at")),
        verifier_started_at=zoned_time(at(timings, "verifier", "started_at")),
        agent_ran=copied or isinstance(at(timings, "agent_execution"), dict),
        agent_result=agent_result,
        reward_valid=valid if isinstance(valid, bool) else None,
    )


def _counters(recorded: Any, trajectory: Trajectory) -> CallCounters:
    """How many calls the harness counted.

    Not every version counts its summaries: at least those that the trajectory shows.
    """
    metadata = at(recorded, "agent_result", "metadata")
    summaries = at(metadata, "summarization_count")
    answered = at(metadata, "api_request_times_msec")
    return CallCounters(
        n_episodes=episode_count(at(recorded, "agent_result")),
        summaries=max(len(trajectory.compactions), summaries if type(summaries) is int else 0),
        requests=len(answered) if isinstance(answered, list) else None,
        began=moment(at(recorded, "agent_execution", "started_at")),
        ended=moment(at(recorded, "agent_execution", "finished_at")),
    )


def _ending(
    trial: TrialDocuments,
    recorded: Any,
    exceptions: Sequence[Exceptional],
    trajectory: Trajectory,
    trace: RunTrace | None,
) -> EndingEvidence:
    cap, known = turn_cap(trial.config)
    return EndingEvidence(
        readable=trial.result is not None,
        exception=next((one for one in exceptions if one.type is not None), None),
        n_episodes=episode_count(at(recorded, "agent_result")),
        cap=cap,
        cap_known=known,
        steps=trajectory.steps,
        steps_complete=trajectory.complete,
        reference_submitted=trajectory.reference_submitted,
        trace=trace,
        compactions=_compactions(trajectory),
    )


def episode_count(agent_result: Any) -> int | None:
    """metadata.n_episodes, None unless it is an integer."""
    value = at(agent_result, "metadata", "n_episodes")
    return value if type(value) is int else None


def turn_cap(config: Any) -> tuple[int | None, bool]:
    """(cap, whether it is known) from a trial's config; (None, True): it ran without a cap."""
    if not isinstance(config, dict):
        return None, False
    for key in ("agent", "kwargs"):
        config = config.get(key)
        if not isinstance(config, dict):
            return None, config is None
    for key in ("max_turns", "max_episodes", "episodes"):
        value = config.get(key)
        if value is not None:
            return (value, True) if type(value) is int else (None, False)
    return None, True


def _compactions(trajectory: Trajectory) -> tuple[int, ...]:
    """The call_index of the first call after each compaction; steps without ids are no calls."""
    calls = list(accumulate((step.has_ids for step in trajectory.steps), initial=0))
    if calls[-1]:
        return tuple(dict.fromkeys(calls[index] for index in trajectory.compactions))
    return trajectory.compactions


def grade_evidence(
    verifier_result: Any,
    raised: Sequence[Exceptional],
    valid: Any,
    *,
    readable: bool,
    reward_files: RewardFiles = _NO_FILES,
    tests: TestsReport = _NO_TESTS,
) -> GradeEvidence:
    """What a result, or one of its steps, says of its grade; `valid` is its `reward_valid`."""
    rewards, issues = recorded_rewards(verifier_result)
    return GradeEvidence(
        rewards=rewards,
        reward_issues=issues if readable else (),
        exceptions=raised,
        recorded_valid=valid if isinstance(valid, bool) else None,
        readable=readable,
        reward_files=reward_files,
        tests=tests,
    )


def trial_grade(result: Any) -> GradeEvidence:
    """The aggregate grade of a multi-step trial: one bad step spoils it."""
    steps = at(result, "step_results")
    recorded = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    infos = [at(result, "exception_info"), *(step.get("exception_info") for step in recorded)]
    return grade_evidence(
        at(result, "verifier_result"),
        [exception_of(i, result, agent_result=True, copied=False) for i in infos if i is not None],
        at(result, "reward_valid"),
        readable=isinstance(result, dict),
    )


def recorded_rewards(verifier_result: Any) -> tuple[dict[str, object], tuple[Issue, ...]]:
    """The result's own rewards by name, empty where it holds none, with why."""
    if verifier_result is None:
        return {}, (Issue.REWARDS_MISSING,)
    rewards = verifier_result.get("rewards") if isinstance(verifier_result, dict) else False
    if isinstance(rewards, dict) and rewards:
        return rewards, ()
    damaged = rewards is not None and not isinstance(rewards, dict)
    faults = (Issue.VALUE_DAMAGED,) if damaged else ()
    return {}, (Issue.REWARDS_MISSING, *faults)
