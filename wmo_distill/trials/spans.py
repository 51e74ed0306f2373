"""The spans of one episode from `rollout_details`, by the contract's salvage rules.

A list that lost a turn says nothing about which turn, so the lists of an entry are trusted by
index only while nothing speaks against it; else the trajectory or the ids themselves decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmo_distill.issues import Issue
from wmo_distill.records import SegmentKind, SpanSource
from wmo_distill.sources.rows import (
    MISSING_IDS,
    MISSING_LOGPROBS,
    IdRow,
    LogprobRow,
    whole_row,
)
from wmo_distill.tokens import TokenSpan
from wmo_distill.trials.alignment import place_by_length, place_completions
from wmo_distill.trials.calls import Call, SpanChain
from wmo_distill.trials.lists import Lists, entry_lists, place_extra, whole_calls


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans of one episode and the account of its calls."""

    spans: tuple[TokenSpan, ...] = ()
    kinds: tuple[SegmentKind, ...] = (SegmentKind.MAIN,)
    source: SpanSource = SpanSource.NONE
    issues: tuple[Issue, ...] = ()
    calls_found: int = 0
    main_calls: int = 0
    """Of the calls found, those of the main chat."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a trajectory step records of its call."""

    prompt: IdRow = MISSING_IDS
    completion: IdRow = MISSING_IDS
    logprobs: LogprobRow = MISSING_LOGPROBS


@dataclass(frozen=True, slots=True)
class Witness:
    """What the trajectory knows: its turns with ids, and the first prompts of its summarizers."""

    turns: Sequence[Turn] = ()
    summarizer_prompts: Sequence[IdRow] = ()


ABSENT = object()
"""Stands for a `rollout_details` key that is not there."""


def episode_spans(
    details: Any, witness: Witness, *, salvage: bool = True, extra: bool = True
) -> Spans:
    """Spans of every segment of an episode whose `rollout_details` are `details`."""
    if not isinstance(details, list) or not details:
        return trajectory_spans(witness, _absence(details), salvage=salvage)
    moved = bool(witness.summarizer_prompts) and _is_summarizer(details[0], witness)
    spans: list[TokenSpan] = []
    issues: list[Issue] = []
    found = 0
    main = 0
    for number, entry in enumerate(details):
        segment = number + moved
        turns = witness.turns if segment == 0 else ()
        read = _entry_spans(entry, segment, turns, salvage=salvage, extra=extra)
        if segment == 0:
            main = read.calls_found
        spans += read.spans
        issues += read.issues
        found += read.calls_found
    source = SpanSource.RESULT if spans else SpanSource.NONE
    if not main and salvage:
        # Entry 0 holds no list at all (or there is none for the main chat).
        rebuilt = trajectory_spans(witness, (), salvage=salvage)
        spans = [*rebuilt.spans, *spans]
        issues += rebuilt.issues
        found += rebuilt.calls_found
        main = rebuilt.calls_found
        source = SpanSource.TRAJECTORY if rebuilt.spans else source
    kinds = (SegmentKind.MAIN,) + (SegmentKind.SUBAGENT,) * (len(details) - 1 + moved)
    return Spans(tuple(spans), kinds, source, tuple(issues), found, main)


def trajectory_spans(witness: Witness, issues: Sequence[Issue], *, salvage: bool) -> Spans:
    """The main chat from the trajectory alone, where the result holds no token lists."""
    turns = witness.turns if salvage else ()
    if not any(_has_ids(turn.completion) for turn in turns):
        return Spans(issues=tuple(issues))
    chain = SpanChain(0)
    for index, turn in enumerate(turns):
        chain.add(Call(index, turn.prompt, turn.completion, turn.logprobs))
    return Spans(
        tuple(chain.spans),
        source=SpanSource.TRAJECTORY if chain.spans else SpanSource.NONE,
        issues=(*issues, Issue.TOKENS_FROM_TRAJECTORY, *chain.issues),
        calls_found=len(turns),
        main_calls=len(turns),
    )


def _entry_spans(
    entry: Any, segment: int, turns: Sequence[Turn], *, salvage: bool, extra: bool
) -> Spans:
    lists = entry_lists(entry)
    issues = list(lists.issues)
    chain = SpanChain(segment)
    if not salvage:
        calls = whole_calls(lists)
        if calls is None:
            issues += [Issue.CALL_NOT_SALVAGED] * lists.n_calls
            return Spans(issues=tuple(issues), calls_found=lists.n_calls)
        found = len(calls)
        issues += place_extra(calls, lists, found, extra)
        for call in calls:
            values = call.logprobs.values
            assert values is not None
            finite = np.isfinite(values)
            issues += [Issue.LOGPROB_NOT_FINITE] * int(values.size - finite.sum())
            chain.link(call, whole_row(call.completion), np.where(finite, values, np.nan))
    else:
        calls, found, faults = _salvaged(lists, turns)
        issues += faults
        if not any(_recorded(call.completion) for call in calls) and found:
            issues += [Issue.NO_COMPLETION_IDS]
            issues += [Issue.CALL_WITHOUT_EVIDENCE] * len(calls)
            return Spans(issues=tuple(issues), calls_found=found)
        issues += place_extra(calls, lists, found, extra)
        for call in calls:
            chain.add(call)
    source = SpanSource.RESULT if chain.spans else SpanSource.NONE
    return Spans(
        tuple(chain.spans), source=source, issues=(*issues, *chain.issues), calls_found=found
    )


def _salvaged(lists: Lists, turns: Sequence[Turn]) -> tuple[list[Call], int, list[Issue]]:
    """(calls that can be placed, calls found, issues): index, trajectory or proof."""
    found = lists.n_calls
    if not found:
        return [], 0, []
    issues: list[Issue] = []
    if not lists.aligned():
        # Without any completion there is nothing to misalign: a reason of its own.
        issues += [Issue.LISTS_MISALIGNED] * bool(lists.completions)
    elif found < len(turns):
        issues.append(Issue.TURNS_MISSING)
    else:
        return _by_index(lists, 0), found, []
    rest = _after_turns(lists, turns)
    if rest is None:
        calls, faults = _by_proof(lists, 0)
        return calls, found, issues + faults
    calls = [Call(k, t.prompt, t.completion, t.logprobs) for k, t in enumerate(turns)]
    start = len(calls)
    if rest.aligned():
        more: list[Call] = _by_index(rest, start)
        faults = []
    else:
        more, faults = _by_proof(rest, start)
    found = max(found, start + rest.n_calls)
    return [*calls, *more], found, [*issues, Issue.REBUILT_FROM_TRAJECTORY, *faults]


def _by_index(lists: Lists, start: int) -> list[Call]:
    return [
        Call(
            start + k,
            lists.prompts[k],
            lists.completions[k],
            lists.logprobs[k] if lists.logprobs else MISSING_LOGPROBS,
        )
        for k in range(lists.n_calls)
    ]


def _by_proof(lists: Lists, start: int) -> tuple[list[Call], list[Issue]]:
    """The calls before the first completion that cannot be placed; the others are dropped."""
    if not lists.prompts:
        return [], [Issue.PROMPT_MISSING] * lists.n_calls
    prompts = [whole_row(row) for row in lists.prompts]
    placed = place_completions(prompts, [whole_row(row) for row in lists.completions])
    completion_of = {k: j for j, k in enumerate(placed) if k is not None}
    end = len(prompts)
    if None in placed:
        end = max(completion_of, default=-1) + 1
    ids = {k: lists.completions[j] for k, j in completion_of.items()}
    # A row of log-probabilities exists only for a call that sampled something.
    bearing = [k for k in sorted(ids) if ids[k].size]
    rows = lists.logprobs
    places = place_by_length(
        [ids[k].size for k in bearing],
        [-1 if row.values is None else row.values.size for row in rows],
    )
    logprobs = {bearing[k]: rows[j] for j, k in enumerate(places) if k is not None}
    calls = [
        Call(
            start + k,
            lists.prompts[k],
            ids.get(k, MISSING_IDS),
            logprobs.get(k, MISSING_LOGPROBS),
        )
        for k in range(end)
    ]
    issues = [Issue.ALIGNED_BY_PROOF] if completion_of else []
    return calls, issues + [Issue.CALL_UNPLACED] * (lists.n_calls - end)


def _after_turns(lists: Lists, turns: Sequence[Turn]) -> Lists | None:
    """What the lists hold beyond the trajectory's last turn; None where the two disagree."""
    if not turns:
        return None
    sampled = [turn for turn in turns if _has_ids(turn.completion)]
    prompts = [turn.prompt for turn in turns if _has_ids(turn.prompt)]
    completions = [turn.completion for turn in sampled]
    logprobs = [turn.logprobs for turn in sampled if _has_values(turn.logprobs)]
    if not (
        _starts_with(lists.prompts, prompts)
        and _starts_with(lists.completions, completions)
        and len(lists.logprobs) >= len(logprobs)
        and all(map(_same_values, lists.logprobs, logprobs))
    ):
        return None
    return Lists(
        lists.prompts[len(prompts) :],
        lists.completions[len(completions) :],
        lists.logprobs[len(logprobs) :],
        {},
        [],
    )


def _starts_with(rows: Sequence[IdRow], first: Sequence[IdRow]) -> bool:
    return len(rows) >= len(first) and all(map(_same_ids, rows, first))


def _same_ids(a: IdRow, b: IdRow) -> bool:
    left, right = whole_row(a), whole_row(b)
    return left is not None and right is not None and np.array_equal(left, right)


def _same_values(a: LogprobRow, b: LogprobRow) -> bool:
    """Equal numbers; null, NaN and infinity are one and the same, "not recorded"."""
    if a.values is None or b.values is None or a.values.size != b.values.size:
        return False
    left = np.where(np.isfinite(a.values), a.values, np.nan)
    right = np.where(np.isfinite(b.values), b.values, np.nan)
    return np.array_equal(left, right, equal_nan=True)


def _absence(details: Any) -> tuple[Issue, ...]:
    if details is ABSENT:
        return (Issue.DETAILS_MISSING,)
    if details is None:
        return (Issue.DETAILS_NULL,)
    return (Issue.DETAILS_EMPTY if isinstance(details, list) else Issue.DETAILS_DAMAGED,)


def first_prompt_is(entry: Any, turns: Sequence[Turn]) -> bool:
    """Whether an entry's first prompt is that of the first turn."""
    prompts = entry.get("prompt_token_ids") if isinstance(entry, dict) else None
    if not isinstance(prompts, list) or not prompts or not turns:
        return False
    return _same_ids(prompts[0], turns[0].prompt)


def _is_summarizer(entry: Any, witness: Witness) -> bool:
    """Whether entry 0 is a summarizer's chat: the main chat recorded nothing before it."""
    prompts = entry.get("prompt_token_ids") if isinstance(entry, dict) else None
    if not isinstance(prompts, list) or not prompts or first_prompt_is(entry, witness.turns):
        return False
    return any(_same_ids(prompts[0], row) for row in witness.summarizer_prompts)


def _recorded(row: IdRow) -> bool:
    """Whether a completion holds ids, or something in the place of ids."""
    return row.size > 0 or (row.delta is None and not row.missing)


def _has_ids(row: IdRow) -> bool:
    return row.size > 0


def _has_values(row: LogprobRow) -> bool:
    return row.values is not None and row.values.size > 0
