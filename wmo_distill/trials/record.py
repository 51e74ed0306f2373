"""The evidence of a trial's episodes to its records: where all decisions meet."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wmo_distill.credentials import without_credentials
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import ReadTrial, ScoreCell, SegmentInfo, TrialRecord
from wmo_distill.sources.evidence import EndingEvidence, Evidence, Identity, Times
from wmo_distill.sources.values import Values, group_id, group_of
from wmo_distill.trials.cells import apply_cells
from wmo_distill.trials.completeness import account_of
from wmo_distill.trials.cutting import cut_record
from wmo_distill.trials.ending import reference_stop_reason, stop_reason
from wmo_distill.trials.grade import grade, trial_reward, trial_reward_valid
from wmo_distill.trials.placing import placed_spans
from wmo_distill.trials.sampling import sampling_of


def trial_records(
    kind: str, episodes: Sequence[Evidence], options: BuildOptions, cells: Sequence[ScoreCell] = ()
) -> ReadTrial:
    """The records of one trial of the source `kind`, one an episode, graded by `cells` if given."""
    read = [_record(kind, evidence, options) for evidence in episodes]
    records = _unique([record for record, _ in read])
    graded = apply_cells(records, cells) if cells else records
    return ReadTrial(
        records=tuple(map(cut_record, graded)),
        calls_found=sum(calls for _, calls in read),
        slow_reads=sum(evidence.slow_reads for evidence in episodes),
        state=next((evidence.state for evidence in episodes), None),
    )


def missing_trial(name: str, cell: ScoreCell) -> ReadTrial:
    """The record of a cell whose directory `name` is not there."""
    step = "" if cell.step_name is None else f"/{cell.step_name}"
    record = TrialRecord(
        episode_id=f"path:{name}{step}",
        trial_name=name,
        step_name=cell.step_name,
        artifact_dir=name,
        group_id=group_id([None] * 7),
        infra_failed=True,
        segments=(SegmentInfo(),),
        issues=(Issue.DIRECTORY_MISSING,),
    )
    graded = apply_cells([record], [cell])
    return ReadTrial(records=tuple(map(cut_record, graded)), calls_found=0)


def _record(kind: str, evidence: Evidence, options: BuildOptions) -> tuple[TrialRecord, int]:
    """(the record of one episode, the calls found)."""
    spans = placed_spans(evidence, salvage=options.salvage, extra=options.extra)
    sampled_with, sampling_issues = sampling_of(evidence.sampling, options.declare, spans.spans)
    ending_of, cap_issues = _capped(evidence.ending, options)
    ending_of = replace(ending_of, recorded_turns=spans.main_calls)
    account = account_of(evidence, spans)
    ending = stop_reason(ending_of)
    graded = grade(evidence.grade, options)
    whole_reward, whole_valid = graded.reward, graded.reward_valid
    if evidence.trial_grade is not None:
        whole_reward = trial_reward(evidence.trial_grade, options)
        whole_valid = trial_reward_valid(evidence.trial_grade)
    values = Values()
    identity = evidence.identity
    raised = ending_of.exception
    columns: dict[str, Any] = {
        **_columns(identity),
        **_columns(evidence.times),
        "group_id": group_of(kind, identity.group_id, identity.artifact_dir),
        "reference_stop_reason": values.text(reference_stop_reason(ending_of)),
        "exception_type": values.text(None if raised is None else raised.type),
        "n_episodes": values.integer(ending_of.n_episodes),
        "max_turns": values.integer(ending_of.cap),
    }
    issues = (
        *spans.issues,
        *account.issues,
        *ending.issues,
        *graded.issues,
        *sampling_issues,
        *cap_issues,
        *evidence.issues,
        *values.issues,
    )
    record = TrialRecord(
        **columns,
        format=kind,
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
        issues=tuple(sorted(i for i in issues if spans.spans or i != Issue.TEXT_MASKED)),
        compactions=ending_of.compactions,
    )
    return record, spans.calls_found + account.lost + evidence.unreadable_calls


def _columns(values: Identity | Times) -> dict[str, object]:
    return {name: getattr(values, name) for name in values.__slots__}


def _capped(
    evidence: EndingEvidence, options: BuildOptions
) -> tuple[EndingEvidence, tuple[Issue, ...]]:
    """The evidence with the cap that is used: the caller's, else the recorded one."""
    if options.max_turns is None:
        return evidence, () if evidence.cap_known else (Issue.MAX_TURNS_UNKNOWN,)
    differs = evidence.cap is not None and evidence.cap != options.max_turns
    used = replace(evidence, cap=options.max_turns, cap_known=True)
    return used, (Issue.MAX_TURNS_CONFLICT,) if differs else ()


def _unique(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Records with their episode ids, kept apart by step, by its index where names repeat."""
    seen: set[str] = set()
    unique = []
    for record in records:
        whole = record.trial_id
        episode_id = without_credentials(whole) if whole else f"path:{record.artifact_dir}"
        if record.step_index is not None:
            name = record.step_name
            episode_id += f"/{record.step_index if name is None else without_credentials(name)}"
            if episode_id in seen:
                episode_id += f"#{record.step_index}"
        seen.add(episode_id)
        unique.append(replace(record, episode_id=episode_id))
    return unique
