"""The spans of one episode from `rollout_details`, by the contract's salvage rules.

A list that lost a turn says nothing about which turn, so the lists of an entry are trusted by
index only while nothing speaks against it; else the trajectory or the ids themselves decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wmo_distill.issues import Issue
from wmo_distill.records import SegmentInfo, SegmentKind, SpanSource
from wmo_distill.sources.recorded import Call, Listed, Lists, Turn, Witness
from wmo_distill.tokenjson.rows import (
    MISSING_IDS,
    MISSING_LOGPROBS,
    IdRow,
    whole_row,
)
from wmo_distill.tokens import TokenSpan
from wmo_distill.trials.alignment import place_by_length, place_completions
from wmo_distill.trials.calls import SpanChain, checked_logprobs
from wmo_distill.trials.lists import place_extra, whole_calls
from wmo_distill.trials.witness import after_turns, is_summarizer


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans of one episode and the account of its calls."""

    spans: tuple[TokenSpan, ...] = ()
    segments: tuple[SegmentInfo, ...] = (SegmentInfo(),)
    source: SpanSource = SpanSource.NONE
    issues: tuple[Issue, ...] = ()
    calls_found: int = 0
    main_calls: int = 0
    """Of the calls found, those of the main chat."""


def listed_spans(listed: Listed, *, salvage: bool = True, extra: bool = True) -> Spans:
    """Spans of every chat of an episode whose calls are recorded as parallel lists."""
    witness, entries = listed.witness, listed.entries
    if not entries:
        return trajectory_spans(witness, listed.absence, salvage=salvage)
    moved = bool(witness.summarizer_prompts) and is_summarizer(entries[0], witness)
    spans: list[TokenSpan] = []
    issues: list[Issue] = []
    found = 0
    main = 0
    for number, lists in enumerate(entries):
        segment = number + moved
        turns = witness.turns if segment == 0 else ()
        read = _entry_spans(lists, segment, turns, salvage=salvage, extra=extra)
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
    segments = _chats(len(entries) + moved)
    return Spans(tuple(spans), segments, source, tuple(issues), found, main)


def trajectory_spans(witness: Witness, issues: Sequence[Issue], *, salvage: bool) -> Spans:
    """The chats from the trajectories alone, where the result holds no token lists."""
    chats = [witness.turns, *witness.summarizers] if salvage else [()]
    spans: list[TokenSpan] = []
    told: list[Issue] = []
    evidence = False
    for segment, turns in enumerate(chats):
        if not any(_recorded(turn.completion) for turn in turns):
            told += _no_evidence(len(turns))
            continue
        evidence = True
        chain = SpanChain(segment)
        for index, turn in enumerate(turns):
            chain.add(Call(index, turn.prompt, turn.completion, turn.logprobs))
        spans += chain.spans
        told += chain.issues
    return Spans(
        tuple(spans),
        _chats(len(chats)),
        SpanSource.TRAJECTORY if spans else SpanSource.NONE,
        (*issues, *[Issue.TOKENS_FROM_TRAJECTORY] * evidence, *told),
        calls_found=sum(map(len, chats)),
        main_calls=len(chats[0]),
    )


def _chats(n: int) -> tuple[SegmentInfo, ...]:
    """The main chat, and after it those with which terminus-2 summarizes."""
    return (SegmentInfo(), *[SegmentInfo(SegmentKind.SUMMARIZER)] * (n - 1))


def _entry_spans(
    lists: Lists, segment: int, turns: Sequence[Turn], *, salvage: bool, extra: bool
) -> Spans:
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
            values, odd = checked_logprobs(values)
            issues += odd
            chain.link(call, whole_row(call.completion), values)
    else:
        calls, found, faults, placed = _salvaged(lists, turns)
        issues += faults
        completions = (*lists.completions, *(call.completion for call in calls))
        if found and not any(map(_recorded, completions)):
            issues += _no_evidence(len(calls))
            return Spans(issues=tuple(issues), calls_found=found)
        issues += place_extra(calls, lists, found if placed else 0, extra)
        for call in calls:
            chain.add(call)
    source = SpanSource.RESULT if chain.spans else SpanSource.NONE
    return Spans(
        tuple(chain.spans), source=source, issues=(*issues, *chain.issues), calls_found=found
    )


class _Salvaged(NamedTuple):
    calls: list[Call]
    found: int
    issues: Sequence[Issue] = ()
    placed: bool = True
    """Whether no prompt was lost, so that a call's index is its place among those found."""


def _salvaged(lists: Lists, turns: Sequence[Turn]) -> _Salvaged:
    """The calls that can be placed: by index, by the trajectory or by proof."""
    found = lists.n_calls
    if not found:
        return _Salvaged([], 0)
    issues: list[Issue] = []
    if not lists.aligned():
        # Without any completion there is nothing to misalign: a reason of its own.
        issues += [Issue.LISTS_MISALIGNED] * bool(lists.completions)
    elif found < len(turns):
        issues.append(Issue.TURNS_MISSING)
    else:
        return _Salvaged(_by_index(lists, 0), found)
    rest = after_turns(lists, turns)
    if rest is None:
        calls, faults = _by_proof(lists, 0)
        return _Salvaged(calls, found, issues + faults, len(lists.prompts) == found)
    calls = [Call(k, t.prompt, t.completion, t.logprobs) for k, t in enumerate(turns)]
    start = len(calls)
    if rest.aligned():
        more: list[Call] = _by_index(rest, start)
        faults = []
    else:
        more, faults = _by_proof(rest, start)
    return _Salvaged(
        [*calls, *more],
        max(found, start + rest.n_calls),
        [*issues, Issue.REBUILT_FROM_TRAJECTORY, *faults],
        len(rest.prompts) == rest.n_calls,
    )


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


def _no_evidence(n: int) -> list[Issue]:
    """What is said of calls none of which holds completion ids."""
    return [Issue.NO_COMPLETION_IDS, *[Issue.CALL_WITHOUT_EVIDENCE] * n] if n else []


def _recorded(row: IdRow) -> bool:
    """Whether a completion holds ids, or something in the place of ids."""
    return row.size > 0 or (row.delta is None and not row.missing)
