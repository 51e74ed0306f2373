"""The spans of one episode from `rollout_details`, by the contract's salvage rules.

A list that lost a turn says nothing about which turn, so the lists of an entry are trusted by
index only while nothing speaks against it; else the trajectory or the ids themselves decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wmo_distill.issues import Issue
from wmo_distill.records import SpanSource
from wmo_distill.sources.recorded import Call, Listed, Lists, Turn, Witness
from wmo_distill.tokenjson.rows import (
    MISSING_IDS,
    MISSING_LOGPROBS,
    IdRow,
    whole_row,
    whole_rows,
)
from wmo_distill.trials.alignment import place_by_length, place_completions
from wmo_distill.trials.lists import place_extra, whole_calls
from wmo_distill.trials.witness import after_turns, is_summarizer


@dataclass(frozen=True, slots=True)
class Placed:
    """The calls of one declared chat in their places, and the account of those that have none."""

    calls: Sequence[Call] = ()
    issues: tuple[Issue, ...] = ()
    found: int = 0
    proved: bool = False
    """Whether the calls were proved sound as a whole: each is taken as it is."""


def listed_calls(
    listed: Listed, *, salvage: bool = True, extra: bool = True
) -> tuple[list[Placed], SpanSource, tuple[Issue, ...]]:
    """(the chats of an episode recorded as parallel lists; where from; issues of the whole).

    The main chat is the first, and empty if need be.
    """
    witness, entries = listed.witness, listed.entries
    if not entries:
        chats, issues = _turn_chats(witness, salvage)
        return chats, SpanSource.TRAJECTORY, (*listed.absence, *issues)
    moved = bool(witness.summarizer_prompts) and is_summarizer(entries[0], witness)
    chats = [Placed()] * moved
    for lists in entries:
        turns = witness.turns if not chats else ()
        chats.append(_entry_calls(lists, turns, salvage=salvage, extra=extra))
    if chats[0].found or not salvage:
        return chats, SpanSource.RESULT, ()
    # Entry 0 holds no list at all (or there is none for the main chat).
    (main, *others), issues = _turn_chats(witness, salvage)
    source = SpanSource.TRAJECTORY if main.calls else SpanSource.RESULT
    chats[0] = replace(main, issues=(*chats[0].issues, *main.issues))
    return [*chats, *others], source, issues


def _turn_chats(witness: Witness, salvage: bool) -> tuple[list[Placed], tuple[Issue, ...]]:
    """The chats from the trajectories alone, where no lists hold them."""
    chats: list[Placed] = []
    for turns in [witness.turns, *witness.summarizers] if salvage else [()]:
        if any(_recorded(turn.completion) for turn in turns):
            calls = [Call(k, t.prompt, t.completion, t.logprobs) for k, t in enumerate(turns)]
            chats.append(Placed(calls, found=len(turns)))
        else:
            chats.append(Placed(issues=tuple(_no_evidence(len(turns))), found=len(turns)))
    evidence = any(chat.calls for chat in chats)
    return chats, (Issue.TOKENS_FROM_TRAJECTORY,) * evidence


def _entry_calls(lists: Lists, turns: Sequence[Turn], *, salvage: bool, extra: bool) -> Placed:
    issues = list(lists.issues)
    if not salvage:
        whole = whole_calls(lists)
        if whole is None:
            issues += [Issue.CALL_NOT_SALVAGED] * lists.n_calls
            return Placed(issues=tuple(issues), found=lists.n_calls)
        issues += place_extra(whole, lists, len(whole), extra)
        return Placed(whole, tuple(issues), len(whole), proved=True)
    calls, found, faults, placed = _salvaged(lists, turns)
    issues += faults
    completions = (*lists.completions, *(call.completion for call in calls))
    if found and not any(map(_recorded, completions)):
        return Placed(issues=(*issues, *_no_evidence(len(calls))), found=found)
    issues += place_extra(calls, lists, found if placed else 0, extra)
    return Placed(calls, tuple(issues), found)


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
    prompts = list(whole_rows(lists.prompts))
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
