"""One trial directory to its records: the only place where sources and decisions meet."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import ReadTrial, ScoreCell, SegmentInfo, TrialRecord
from wmo_distill.sources.harbor.ctrf import read_tests
from wmo_distill.sources.harbor.rewards import read_rewards
from wmo_distill.sources.harbor.trajectory import (
    Trajectory,
    read_trajectory,
)
from wmo_distill.sources.run_trace import read_run_trace
from wmo_distill.trials.cells import PlacedCell, apply_cells
from wmo_distill.trials.completeness import CallEvidence, account_of, requests_of, summaries_of
from wmo_distill.trials.ending import (
    EpisodeEvidence,
    RaisedException,
    episode_count,
    raised_exception,
    reference_stop_reason,
    stop_reason,
    turn_cap,
)
from wmo_distill.trials.episode_tokens import from_sink, own_spans
from wmo_distill.trials.episodes import (
    EpisodePlace,
    TrialDocuments,
    episode_places,
    place_issues,
    read_documents,
)
from wmo_distill.trials.grade import GradeEvidence, grade, trial_reward, trial_reward_valid
from wmo_distill.trials.identity import episode_trace, group_id, identity_columns, trial_times
from wmo_distill.trials.sampling import sampling_of
from wmo_distill.trials.values import Values, at

if TYPE_CHECKING:
    from wmo_distill.sources.harbor.discovery import FoundTrial


def read_trial_dir(
    found: "FoundTrial", options: BuildOptions, cells: Sequence[ScoreCell] = ()
) -> ReadTrial:
    """The records of one trial directory, one an episode, graded by `cells` where given."""
    files = TrialFiles(found.root)
    trial = read_documents(files, extra=options.extra)
    values = Values()
    job = found.job
    columns = _identity(trial, found, values)
    columns |= trial_times(trial.result, values)
    columns["artifact_dir"] = found.path
    columns["group_expected"] = None if job is None else job.n_attempts
    read = [
        _read_episode(trial, episode, columns, options, values) for episode in episode_places(trial)
    ]
    records = [record for record, _, _ in read]
    naive = [Issue.TIME_WITHOUT_ZONE] * values.naive
    if shared := (*trial.issues, *values.issues, *naive):
        records[0] = replace(records[0], issues=tuple(sorted((*records[0].issues, *shared))))
    return ReadTrial(
        records=apply_cells(_unique(records), cells) if cells else tuple(_unique(records)),
        calls_found=sum(calls for _, calls, _ in read),
        slow_reads=trial.slow_reads + sum(slow for _, _, slow in read),
    )


def read_identity(found: "FoundTrial") -> tuple[str | None, str]:
    """(trial_id, trial_name) as the trial's records have them, from its documents alone."""
    trial = read_documents(TrialFiles(found.root), extra=False)
    columns = _identity(trial, found, Values())
    return columns["trial_id"], columns["trial_name"]


def missing_trial(placed: PlacedCell) -> ReadTrial:
    """The record of a cell whose directory is not there."""
    cell = placed.cell
    step = "" if cell.step_name is None else f"/{cell.step_name}"
    record = TrialRecord(
        episode_id=f"path:{placed.name}{step}",
        trial_name=placed.name,
        step_name=cell.step_name,
        artifact_dir=placed.name,
        group_id=group_id([None] * 7),
        infra_failed=True,
        segments=(SegmentInfo(),),
        issues=(Issue.DIRECTORY_MISSING,),
    )
    return ReadTrial(records=apply_cells([record], [cell]), calls_found=0)


def _identity(trial: TrialDocuments, found: "FoundTrial", values: Values) -> dict[str, Any]:
    job = None if found.job is None else found.job.name
    if found.served is not None:
        job = values.text(at(trial.config, "job_id"))
    columns = identity_columns(
        trial.result,
        trial.config,
        directory=found.path.rsplit("/", 1)[-1],
        job=job,
        values=values,
    )
    if found.served is not None and columns["regrade_of"] is None:
        columns["regrade_of"] = found.served.retry_of
    return {**columns, "job": job}


def _read_episode(
    trial: TrialDocuments,
    episode: EpisodePlace,
    columns: dict[str, Any],
    options: BuildOptions,
    of_trial: Values,
) -> tuple[TrialRecord, int, int]:
    """(record, calls found, slow reads); that a time has no zone is said once, `of_trial`."""
    files, recorded, values = trial.files, episode.recorded, Values()
    agent_result = at(recorded, "agent_result")
    agent_dir = episode.directory("agent")
    trajectory = read_trajectory(files, agent_dir, unread=True)
    own = own_spans(trial, episode, agent_dir, trajectory, options)
    sink, spans = from_sink(trial, episode, options)
    sink_issues = () if sink is None or spans is not None else sink.issues
    found = 0 if sink is None or spans is not None else sink.lines
    spans = spans or own
    sampled_with, sampling_issues = sampling_of(
        trial.config,
        options.declare,
        {} if sink is None else sink.sampling,
        trajectory.agent,
    )
    cap, cap_known, cap_issues = _cap(trial, options)
    trace = read_run_trace(files, episode.root) if sink is not None else None
    evidence = EpisodeEvidence(
        readable=trial.result is not None,
        exception=_exception(trial, episode, values),
        n_episodes=episode_count(agent_result),
        cap=cap,
        cap_known=cap_known,
        trajectory=trajectory,
        recorded_turns=spans.main_calls,
        trace=trace,
    )
    account = account_of(
        CallEvidence(
            spans=spans,
            steps=trajectory.steps,
            sink_calls=() if sink is None or spans is own else sink.calls,
            n_episodes=evidence.n_episodes,
            summaries=summaries_of(agent_result, len(trajectory.compactions)),
            requests=requests_of(agent_result),
            phase=at(recorded, "agent_execution"),
        )
    )
    ending = stop_reason(evidence)
    graded = grade(
        GradeEvidence(
            verifier_result=at(recorded, "verifier_result"),
            exceptions=episode.exceptions,
            recorded_valid=None if episode.step_index is not None else at(recorded, "reward_valid"),
            readable=trial.result is not None,
            reward_files=read_rewards(files, episode.directory("verifier")),
            tests=read_tests(files, episode.directory("verifier")),
        ),
        options,
    )
    whole_reward, whole_valid = graded.reward, graded.reward_valid
    if episode.step_index is not None:
        whole_reward = trial_reward(at(trial.result, "verifier_result"), options)
        whole_valid = trial_reward_valid(trial.result)
    taken = {
        **columns,
        **episode_trace(recorded, values),
        "step_name": None if episode.step_index is None else _step_name(recorded, values),
        "reference_stop_reason": values.text(reference_stop_reason(evidence)),
        "exception_type": values.text(evidence.exception and evidence.exception.type),
        "n_episodes": values.integer(evidence.n_episodes),
        "max_turns": values.integer(cap),
    }
    of_trial.naive |= values.naive
    issues = (
        *spans.issues,
        *account.issues,
        *sink_issues,
        *(() if trace is None else trace.issues),
        *trajectory.issues,
        *ending.issues,
        *graded.issues,
        *sampling_issues,
        *cap_issues,
        *place_issues(trial, episode),
        *values.issues,
    )
    record = TrialRecord(
        **taken,
        episode_id=columns["trial_id"] or f"path:{columns['artifact_dir']}",
        step_index=episode.step_index,
        sampled_with=sampled_with,
        reward=graded.reward,
        rewards=graded.rewards,
        trial_reward=whole_reward,
        trial_reward_valid=whole_valid,
        passed=graded.passed,
        reward_valid=graded.reward_valid,
        infra_failed=graded.infra_failed,
        tests=graded.tests,
        note=graded.note,
        stop_reason=ending.stop_reason,
        completion=ending.completion,
        spans=spans.spans,
        segments=spans.segments,
        span_source=spans.source,
        completeness=account.completeness,
        issues=tuple(sorted(issues)),
        compactions=_compactions(trajectory),
    )
    return record, spans.calls_found + account.lost + found, trajectory.slow_reads


def _step_name(step: Any, values: Values) -> str | None:
    return values.text(at(step, "step_name")) or None


def _exception(
    trial: TrialDocuments, episode: EpisodePlace, values: Values
) -> RaisedException | None:
    for info in episode.exceptions:
        raised = raised_exception(
            info,
            episode.recorded,
            agent_result=isinstance(at(episode.recorded, "agent_result"), dict),
            copied=isinstance(at(trial.config, "source_trial"), dict),
        )
        if raised is not None:
            return raised
        if info is not None:  # a type that is no string: as if nothing had been raised
            values.issues.append(Issue.VALUE_DAMAGED)
    return None


def _cap(trial: TrialDocuments, options: BuildOptions) -> tuple[int | None, bool, list[Issue]]:
    """(cap used, whether it is known, issues)."""
    recorded, known = turn_cap(trial.config)
    if options.max_turns is None:
        return recorded, known, [] if known else [Issue.MAX_TURNS_UNKNOWN]
    differs = recorded is not None and recorded != options.max_turns
    return options.max_turns, True, [Issue.MAX_TURNS_CONFLICT] if differs else []


def _compactions(trajectory: Trajectory) -> tuple[int, ...]:
    """The call_index of the first call after each compaction; steps without ids are no calls."""
    calls = [step.has_ids for step in trajectory.steps]
    if any(calls):
        return tuple(dict.fromkeys(sum(calls[:index]) for index in trajectory.compactions))
    return trajectory.compactions


def _unique(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Records whose episode ids are told apart by step, by its index where names repeat."""
    seen: set[str] = set()
    unique = []
    for record in records:
        if record.step_index is not None:
            name = record.step_name
            episode_id = f"{record.episode_id}/{record.step_index if name is None else name}"
            if episode_id in seen:
                episode_id += f"#{record.step_index}"
            record = replace(record, episode_id=episode_id)
        seen.add(record.episode_id)
        unique.append(record)
    return unique
