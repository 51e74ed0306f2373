"""Records to training sequences, with an account of every token that is not trained."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from wmo_distill.counts import by_segment
from wmo_distill.datums.datum import Account, DatumStats, Drop, TrainDatum
from wmo_distill.datums.experts import sequence_experts
from wmo_distill.datums.merge import Fragment, merge
from wmo_distill.datums.options import BudgetRule, DatumOptions, DropUnit
from wmo_distill.records import Completeness, TrialRecord
from wmo_distill.tokens import IMPLAUSIBLE_LOGPROB, NO_IDS


def build_datums(
    records: Iterable[TrialRecord],
    options: DatumOptions | None = None,
    *,
    rules: Literal["default", "reference"] = "default",
    **changes: Any,
) -> tuple[list[TrainDatum], DatumStats]:
    """The datums of the records in order, and what became of every sampled token.

    `changes` are fields of `DatumOptions`; those that choose records are for datum shards alone.
    `rules="reference"` is world-model-optimizer 0.2.0's builder: a record over a limit goes
    whole, its budget counts prompt and completion, and the word `context_overflow` drops it.
    """
    options = DatumOptions.of(options, **changes)
    if rules == "reference":
        options = DatumOptions(
            context_budget=options.context_budget,
            max_datum_tokens=options.max_datum_tokens,
            budget_rule=BudgetRule.SEQUENCE,
            drop=DropUnit.RECORD,
            reference=True,
        )
    account = Account()
    datums = [datum for record in records for datum in record_datums(record, options, account)]
    return datums, account.stats()


def record_datums(record: TrialRecord, options: DatumOptions, account: Account) -> list[TrainDatum]:
    """The datums of one record; `account` grows by what became of it."""
    account.records += 1
    segments = by_segment(record.spans)
    wanted = {k: calls for k, calls in segments.items() if k == 0 or options.subagents}
    sampled = sum(span.sampled.size for calls in wanted.values() for span in calls)
    if not options.reference:
        others = [calls for k, calls in segments.items() if k not in wanted]
        account.drop_tokens(
            Drop.SUBAGENT, sum(span.sampled.size for calls in others for span in calls)
        )
    if options.reference and record.stop_reason == "context_overflow":
        account.drop_record(Drop.OVERFLOW, sampled)
        return []
    if record.stop_reason in options.drop_stop_reasons:
        account.drop_record(Drop.STOP_REASON, sampled)
        return []
    if not wanted:
        account.drop_record(Drop.SPANLESS)
        return []
    if options.refuses_incomplete and record.completeness == Completeness.INCOMPLETE:
        account.drop_record(Drop.INCOMPLETE, sampled)
        return []
    fragments: list[tuple[int, Fragment]] = []
    last: Fragment | None = None
    for segment, calls in sorted(wanted.items()):
        merged = merge(
            calls,
            compactions=record.compactions if segment == 0 else (),
            reopen=options.reopen,
            decode=options.decode,
        )
        account.ties += merged.ties
        last = merged.last if segment == 0 else last
        fragments += [(segment, fragment) for fragment in merged.fragments]
    over = [_over(fragment, options) for _, fragment in fragments]
    limit = Drop.OVERFLOW if Drop.OVERFLOW in over else Drop.OVERLONG
    if options.drop == "record" and any(over):
        account.drop_record(limit, sampled)
        return []
    datums: list[TrainDatum] = []
    index = dict.fromkeys(wanted, 0)
    for (segment, fragment), reason in zip(fragments, over, strict=True):
        if reason is not None:
            account.drop_tokens(reason, fragment.sampled_tokens)
            continue
        datum = _datum(record, segment, index[segment], fragment, options, account)
        if datum is not None:
            datum = replace(datum, ends_chat=True) if fragment is last else datum
            index[segment] += 1
            datums.append(datum)
    if datums:
        account.keep(datums)
    else:
        account.drop_record(limit if any(over) else Drop.SILENT)
    return datums


def _over(fragment: Fragment, options: DatumOptions) -> Drop | None:
    """Which limit a fragment is over; the budget comes first."""
    asked = fragment.size if options.budget_rule == "sequence" else fragment.longest_prompt
    if options.context_budget is not None and asked > options.context_budget:
        return Drop.OVERFLOW
    trained = fragment.sampled_tokens > 0
    if (
        options.max_datum_tokens is not None
        and trained
        and fragment.size > options.max_datum_tokens
    ):
        return Drop.OVERLONG
    return None


def _datum(
    record: TrialRecord,
    segment: int,
    index: int,
    fragment: Fragment,
    options: DatumOptions,
    account: Account,
) -> TrainDatum | None:
    """A fragment as a datum, None if nothing in it is trained."""
    ids = fragment.token_ids() if fragment.pieces else NO_IDS
    mask = np.zeros(ids.size, np.bool_)
    logprobs = np.zeros(ids.size, np.float64)
    strict = options.purpose == "rl" and not options.reference
    for start, (sampled, recorded) in zip(fragment.starts, fragment.runs, strict=True):
        place = slice(start, start + sampled.size)
        if recorded is None:
            if strict:
                account.drop_tokens(Drop.NO_LOGPROBS, sampled.size)
                continue
            mask[place], logprobs[place] = True, np.nan
        elif strict:
            finite = np.isfinite(recorded)
            used = finite & (recorded > IMPLAUSIBLE_LOGPROB)
            account.drop_tokens(Drop.LOGPROB_NOT_FINITE, int(sampled.size - finite.sum()))
            account.drop_tokens(Drop.LOGPROB_IMPLAUSIBLE, int(finite.sum() - used.sum()))
            mask[place], logprobs[place] = used, np.where(used, recorded, 0.0)
        else:
            mask[place], logprobs[place] = True, recorded
    if not mask.any():
        return None
    experts = sequence_experts(fragment.calls, ids.size) if options.routed_experts else None
    return TrainDatum(
        trial_name=record.trial_name,
        step_name=record.step_name,
        episode_id=record.episode_id,
        segment=segment,
        fragment_index=index,
        token_ids=ids,
        loss_mask=mask,
        sampled_logprobs=logprobs,
        call_starts=tuple(fragment.starts),
        call_lengths=tuple(sampled.size for sampled, _ in fragment.runs),
        finish_reasons=tuple(fragment.finish_reasons),
        break_cause=fragment.cause,
        break_position=fragment.position,
        routed_experts=experts,
    )
