"""Records to training sequences, with an account of every token that is not trained."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.datum import Account, DatumStats, Drop, TrainDatum
from wmo_distill.datums.experts import sequence_experts
from wmo_distill.datums.merge import Fragment, merge
from wmo_distill.datums.options import BudgetRule, DatumOptions, DropUnit
from wmo_distill.datums.versions import newest_step, oldest_step, sequence_versions
from wmo_distill.records import Completeness, TrialRecord
from wmo_distill.segment import Segment
from wmo_distill.tokens import TokenSpan

# Of a record that lost all of its sequences, the first of these reasons is the record's.
_LIMITS = (Drop.OVERFLOW, Drop.OVERLONG, Drop.STALE, Drop.STEP_UNKNOWN)


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
    newest: int | None = None
    if options.max_staleness is not None:
        records = list(records)
        newest = newest_step(records)
    account = Account()
    datums = [
        datum for record in records for datum in record_datums(record, options, account, newest)
    ]
    return datums, account.stats()


def record_datums(
    record: TrialRecord, options: DatumOptions, account: Account, newest: int | None = None
) -> list[TrainDatum]:
    """The datums of one record; `account` grows by what became of it."""
    return chat_datums(record, record.chats, options, account, newest)


def chat_datums(
    record: TrialRecord,
    chats: Mapping[int, Segment],
    options: DatumOptions,
    account: Account,
    newest: int | None = None,
) -> list[TrainDatum]:
    """The datums of a record whose calls are `chats`; `newest` is the newest training step."""
    account.records += 1
    refused = {k: _refused(record, k, chat, options) for k, chat in chats.items()}
    wanted = {k: chat for k, chat in chats.items() if refused[k] is None}
    sampled = sum(chat.n_sampled for chat in wanted.values())
    if not options.reference:
        for k, reason in refused.items():
            if reason is not None:
                account.drop_tokens(reason, chats[k].n_sampled)
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
    for segment, chat in sorted(wanted.items()):
        merged = merge(
            chat,
            compactions=record.compactions if segment == 0 else (),
            reopen=options.reopen,
            decode=options.decode,
        )
        account.ties += merged.ties
        last = merged.last if segment == 0 else last
        fragments += [(segment, fragment) for fragment in merged.fragments]
    over = [_limit(record, segment, one, options, newest) for segment, one in fragments]
    limit = next((reason for reason in _LIMITS if reason in over), Drop.SILENT)
    if options.drop == "record" and any(over):
        account.drop_record(limit, sampled)
        return []
    datums: list[TrainDatum] = []
    index = dict.fromkeys(wanted, 0)
    for (segment, fragment), reason in zip(fragments, over, strict=True):
        if reason is not None:
            account.drop_tokens(reason, fragment.sampled_tokens)
            continue
        datum = _datum(
            record, (segment, index[segment]), fragment, fragment is last, options, account
        )
        if datum is not None:
            index[segment] += 1
            datums.append(datum)
    if datums:
        account.keep(datums)
    else:
        account.drop_record(limit)
    return datums


def _refused(
    record: TrialRecord, segment: int, chat: Segment, options: DatumOptions
) -> Drop | None:
    """Why a chat is not trained as a whole."""
    ours = segment == 0 or options.subagents
    if options.reference:
        return None if ours else Drop.SUBAGENT
    if segment < len(record.segments) and not record.segments[segment].trainable:
        return Drop.NOT_TRAINABLE
    if segment and all(used is False for used in chat.used):
        return Drop.SUPERSEDED
    return None if ours else Drop.SUBAGENT


def _limit(
    record: TrialRecord, segment: int, fragment: Fragment, options: DatumOptions, newest: int | None
) -> Drop | None:
    """Which limit a fragment is over; without a token to train it is over that of prompts alone."""
    reason = _over(fragment, options) or _stale(fragment, record, options, newest)
    if reason in (None, Drop.OVERFLOW):
        return reason
    datum = _datum(record, (segment, 0), fragment, False, options, Account())
    return None if datum is None else reason


def _stale(
    fragment: Fragment, record: TrialRecord, options: DatumOptions, newest: int | None
) -> Drop | None:
    if options.max_staleness is None or not fragment.sampled_tokens:
        return None
    oldest = oldest_step(fragment, record.sampled_with)
    if oldest is None or newest is None:
        return Drop.STEP_UNKNOWN
    return Drop.STALE if newest - oldest > options.max_staleness else None


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


def _no_secret(
    record: TrialRecord, segment: int, fragment: Fragment, size: int
) -> NDArray[np.bool_]:
    """False at the tokens of secrets that are not to be trained.

    A fragment begins with the whole sequence of each of its calls, so their positions are its own.
    """
    clear = np.ones(size, bool)
    hidden = [one for one in record.secrets if one.masked and one.segment == segment]
    if hidden:
        calls = set(fragment.of_calls(fragment.chat.call_index).tolist())
        for one in hidden:
            if one.call_index in calls:
                clear[one.start : one.stop] = False
    return clear


def _datum(
    record: TrialRecord,
    place: tuple[int, int],
    fragment: Fragment,
    ends_chat: bool,
    options: DatumOptions,
    account: Account,
) -> TrainDatum | None:
    """A fragment as a datum, None if nothing in it is trained."""
    chat, (ids, sampled, sizes) = fragment.chat, fragment.tokens()
    lengths = sizes[1::2]
    present = fragment.of_calls(chat.sampled_logprobs.present)
    values = fragment.of_tokens(chat.sampled_logprobs)
    if not present.all():
        known = np.repeat(present, lengths)
        spread = np.full(known.size, np.nan)
        spread[known] = values
        values = spread
    used = _no_secret(record, place[0], fragment, ids.size)[sampled]
    account.drop_tokens(Drop.SECRET, int((~used).sum()))
    if options.purpose == "rl" and not options.reference:
        known, finite = np.repeat(present, lengths), np.isfinite(values)
        plausible = finite & (values > IMPLAUSIBLE_LOGPROB)
        for reason, lost in (
            (Drop.NO_LOGPROBS, ~known),
            (Drop.LOGPROB_NOT_FINITE, known & ~finite),
            (Drop.LOGPROB_IMPLAUSIBLE, finite & ~plausible),
        ):
            account.drop_tokens(reason, int((used & lost).sum()))
        used &= plausible
    mask = sampled
    if not used.all():
        mask = sampled.copy()
        mask[sampled] = used
        values = values[used]
    logprobs = np.zeros(ids.size, np.float64)
    logprobs[mask] = values
    if not mask.any():
        return None
    calls = fragment.of_calls(np.arange(len(chat)))
    return TrainDatum(
        trial_name=record.trial_name,
        step_name=record.step_name,
        episode_id=record.episode_id,
        segment=place[0],
        fragment_index=place[1],
        token_ids=ids,
        loss_mask=mask,
        sampled_logprobs=logprobs,
        call_starts=tuple(np.cumsum(sizes)[::2][lengths > 0].tolist()),
        call_lengths=tuple(lengths[lengths > 0].tolist()),
        finish_reasons=tuple(chat.finish_reason[at] for at in calls[lengths > 0].tolist()),
        ends_chat=ends_chat,
        versions=sequence_versions(
            fragment, np.cumsum(sizes)[::2], record.sampled_with.policy_version
        ),
        break_cause=fragment.cause,
        break_position=fragment.position,
        routed_experts=sequence_experts([TokenSpan.of(chat, at) for at in calls], ids.size)
        if options.routed_experts
        else None,
    )
