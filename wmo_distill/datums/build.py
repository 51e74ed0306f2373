"""Records to training sequences, with an account of every token that is not trained."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.breaks import Decode
from wmo_distill.datums.datum import Account, DatumStats, Drop, TrainDatum
from wmo_distill.datums.experts import sequence_experts
from wmo_distill.datums.merge import Fragment, merge
from wmo_distill.records import Completeness, TrialRecord
from wmo_distill.segment import Segment
from wmo_distill.tokens import TokenSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class DatumRules:
    """How records become datums; the defaults drop nothing."""

    context_budget: int | None = None
    max_datum_tokens: int | None = None
    purpose: Literal["rl", "sft"] = "rl"
    budget_rule: Literal["prompt", "sequence"] = "prompt"
    """What is compared with the budget: a call's prompt, or its prompt and completion."""
    drop: Literal["fragment", "record"] = "fragment"
    """What goes when a fragment is over a limit."""
    drop_stop_reasons: Collection[str] = ()
    subagents: bool = False
    allow_incomplete: bool = False
    """Keep episodes of which a call is known to be missing, in an RL build."""
    reopen: bool = False
    reference: bool = False
    """Train tokens whatever their log-probability; the word `context_overflow` drops a record."""
    routed_experts: bool = False
    """Keep which experts each token was routed to, where every call of a sequence tells."""
    decode: Decode | None = None

    @property
    def refuses_incomplete(self) -> bool:
        return self.purpose == "rl" and not self.allow_incomplete and not self.reference


def build_datums(
    records: Iterable[TrialRecord],
    *,
    context_budget: int | None = None,
    max_datum_tokens: int | None = None,
    rules: Literal["default", "reference"] = "default",
    purpose: Literal["rl", "sft"] = "rl",
    drop: Literal["fragment", "record"] = "fragment",
    budget_rule: Literal["prompt", "sequence"] = "prompt",
    drop_stop_reasons: Collection[str] = (),
    subagents: bool = False,
    allow_incomplete: bool = False,
    reopen: bool = False,
    routed_experts: bool = False,
    decode: Decode | None = None,
) -> tuple[list[TrainDatum], DatumStats]:
    """The datums of the records in order, and what became of every sampled token.

    `rules="reference"` is world-model-optimizer 0.2.0's builder: a record over a limit goes
    whole, its budget counts prompt and completion, and the word `context_overflow` drops it.
    """
    if rules == "reference":
        chosen = DatumRules(
            context_budget=context_budget,
            max_datum_tokens=max_datum_tokens,
            budget_rule="sequence",
            drop="record",
            reference=True,
        )
    else:
        chosen = DatumRules(
            context_budget=context_budget,
            max_datum_tokens=max_datum_tokens,
            purpose=purpose,
            budget_rule=budget_rule,
            drop=drop,
            drop_stop_reasons=drop_stop_reasons,
            subagents=subagents,
            allow_incomplete=allow_incomplete,
            reopen=reopen,
            routed_experts=routed_experts,
            decode=decode,
        )
    account = Account()
    datums = [datum for record in records for datum in record_datums(record, chosen, account)]
    return datums, account.stats()


def record_datums(record: TrialRecord, rules: DatumRules, account: Account) -> list[TrainDatum]:
    """The datums of one record; `account` grows by what became of it."""
    return chat_datums(record, record.chats, rules, account)


def chat_datums(
    record: TrialRecord, chats: Mapping[int, Segment], rules: DatumRules, account: Account
) -> list[TrainDatum]:
    """The datums of a record whose calls are `chats`."""
    account.records += 1
    wanted = {k: chat for k, chat in chats.items() if k == 0 or rules.subagents}
    sampled = sum(chat.n_sampled for chat in wanted.values())
    if not rules.reference:
        others = sum(chat.n_sampled for chat in chats.values()) - sampled
        account.drop_tokens(Drop.SUBAGENT, others)
    if rules.reference and record.stop_reason == "context_overflow":
        account.drop_record(Drop.OVERFLOW, sampled)
        return []
    if record.stop_reason in rules.drop_stop_reasons:
        account.drop_record(Drop.STOP_REASON, sampled)
        return []
    if not wanted:
        account.drop_record(Drop.SPANLESS)
        return []
    if rules.refuses_incomplete and record.completeness == Completeness.INCOMPLETE:
        account.drop_record(Drop.INCOMPLETE, sampled)
        return []
    fragments: list[tuple[int, Fragment]] = []
    last: Fragment | None = None
    for segment, chat in sorted(wanted.items()):
        merged = merge(
            chat,
            compactions=record.compactions if segment == 0 else (),
            reopen=rules.reopen,
            decode=rules.decode,
        )
        account.ties += merged.ties
        last = merged.last if segment == 0 else last
        fragments += [(segment, fragment) for fragment in merged.fragments]
    over = [_over(fragment, rules) for _, fragment in fragments]
    limit = Drop.OVERFLOW if Drop.OVERFLOW in over else Drop.OVERLONG
    if rules.drop == "record" and any(over):
        account.drop_record(limit, sampled)
        return []
    datums: list[TrainDatum] = []
    index = dict.fromkeys(wanted, 0)
    for (segment, fragment), reason in zip(fragments, over, strict=True):
        if reason is not None:
            account.drop_tokens(reason, fragment.sampled_tokens)
            continue
        datum = _datum(
            record, (segment, index[segment]), fragment, fragment is last, rules, account
        )
        if datum is not None:
            index[segment] += 1
            datums.append(datum)
    if datums:
        account.keep(datums)
    else:
        account.drop_record(limit if any(over) else Drop.SILENT)
    return datums


def _over(fragment: Fragment, rules: DatumRules) -> Drop | None:
    """Which limit a fragment is over; the budget comes first."""
    asked = fragment.size if rules.budget_rule == "sequence" else fragment.longest_prompt
    if rules.context_budget is not None and asked > rules.context_budget:
        return Drop.OVERFLOW
    trained = fragment.sampled_tokens > 0
    if rules.max_datum_tokens is not None and trained and fragment.size > rules.max_datum_tokens:
        return Drop.OVERLONG
    return None


def _datum(
    record: TrialRecord,
    place: tuple[int, int],
    fragment: Fragment,
    ends_chat: bool,
    rules: DatumRules,
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
    mask = sampled
    if rules.purpose == "rl" and not rules.reference:
        finite = np.isfinite(values)
        used = finite & (values > IMPLAUSIBLE_LOGPROB)
        if not used.all():
            lost = int(lengths[~present].sum())
            account.drop_tokens(Drop.NO_LOGPROBS, lost)
            account.drop_tokens(Drop.LOGPROB_NOT_FINITE, int((~finite).sum()) - lost)
            account.drop_tokens(Drop.LOGPROB_IMPLAUSIBLE, int((finite & ~used).sum()))
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
        break_cause=fragment.cause,
        break_position=fragment.position,
        routed_experts=sequence_experts([TokenSpan.of(chat, at) for at in calls], ids.size)
        if rules.routed_experts
        else None,
    )
