"""One recorded call to a span: what of it can be used, and what is wrong with the rest."""

from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB, Ids, Logprobs, common_prefix
from wmo_distill.issues import Issue
from wmo_distill.segment import Coded, Segment
from wmo_distill.sources.recorded import Call
from wmo_distill.tokenjson.rows import IdRow, ids_between, whole_row
from wmo_distill.tokens import TokenSpan, spans_of
from wmo_distill.trials.cutting import cut_call

# Rounding makes a log-probability of a sure token a little positive; more is a fault upstream.
POSITIVE = 1e-3


@dataclass(slots=True)
class SpanChain:
    """Builds the chat of one segment from its kept calls, each coded against the one before."""

    segment: int
    issues: list[Issue] = field(default_factory=list)
    _calls: list[Coded] = field(default_factory=list)
    _chat: Segment | None = None
    _row: IdRow | None = None
    """The prompt before."""
    is_unbroken: bool = True
    """Whether every prompt extends all of the call before."""

    @property
    def chat(self) -> Segment:
        """The calls kept so far, at least one."""
        if self._chat is None or len(self._chat) < len(self._calls):
            self._chat = Segment.of(self.segment, self._calls)
        return self._chat

    @property
    def spans(self) -> list[TokenSpan]:
        """The same as views."""
        return spans_of(self.chat) if self._calls else []

    def add(self, call: Call) -> bool:
        """Keep a call as a span, or say why it is dropped; whether it was kept."""
        fault = prompt_fault(call.prompt)
        if fault is not None:
            self.issues.append(fault)
            return False
        sampled, logprobs, issues = usable(call)
        self.issues += issues
        self.link(call, sampled, logprobs)
        return True

    def add_proved(self, call: Call) -> bool:
        """Keep a call whose rows are known to be sound, an empty prompt too."""
        assert call.logprobs.values is not None
        values, odd = checked_logprobs(call.logprobs.values)
        self.issues += odd
        self.link(call, whole_row(call.completion), values)
        return True

    def link(self, call: Call, sampled: Ids | None, logprobs: Logprobs | None) -> None:
        """Append a span; its prefix is the longest one shared with the span before."""
        call, cut = cut_call(call)
        self.issues += cut
        row = call.prompt
        assert row.delta is not None
        before = self._row
        if before is not None and row.before is before:
            shared, delta = row.shared, row.delta
        else:
            whole = whole_row(row)
            assert whole is not None
            shared, delta = 0, whole
        prefix = 0
        if before is not None:
            known = before.size
            prefix = shared + common_prefix(ids_between(before, shared, row.size), delta)
            answer = self._calls[-1].sampled_token_ids
            if prefix == known and answer is not None:
                prefix += common_prefix(answer, delta[prefix - shared :])
                known += answer.size
            self.is_unbroken &= prefix == known
        self._row = row
        self._calls.append(
            Coded(
                call.call_index,
                prefix,
                delta[prefix - shared :],
                sampled,
                logprobs,
                finish_reason=call.finish_reason,
                extra=call.extra,
                versions=self._versions(call, sampled),
                sampling=call.sampling,
                used=call.used,
            )
        )

    def _versions(self, call: Call, sampled: Ids | None) -> tuple[tuple[str, int], ...] | None:
        """The call's runs of policy versions, None with an issue where they cannot be."""
        if call.versions is None:
            return None
        starts = [start for _, start in call.versions]
        size = 0 if sampled is None else sampled.size
        if not size:
            return None
        if starts[:1] == [0] and starts == sorted(set(starts)) and starts[-1] < size:
            return call.versions
        self.issues.append(Issue.VALUE_DAMAGED)
        return None


def prompt_fault(row: IdRow) -> Issue | None:
    """Why what the completion was conditioned on is unknown, None if it is known."""
    if row.delta is None:
        return Issue.PROMPT_MISSING if row.missing else Issue.PROMPT_DAMAGED
    return None if row.size else Issue.PROMPT_EMPTY


def usable(call: Call) -> tuple[Ids | None, Logprobs | None, list[Issue]]:
    """The sampled ids and log-probabilities that can be trusted, and what is wrong with others."""
    row = call.completion
    if row.delta is None:
        issue = Issue.COMPLETION_MISSING if row.missing else Issue.COMPLETION_DAMAGED
        return None, None, [issue]
    sampled = whole_row(row)
    assert sampled is not None
    values = call.logprobs.values
    if values is None and not call.logprobs.missing:
        return sampled, None, [Issue.LOGPROBS_DAMAGED]
    if values is None or values.size == 0:
        if sampled.size:
            return sampled, None, [Issue.LOGPROBS_MISSING]
        return sampled, values, []
    if values.size != sampled.size:
        return sampled, None, [Issue.LOGPROBS_LENGTH]
    values, issues = checked_logprobs(values)
    return sampled, values, issues


def checked_logprobs(values: Logprobs) -> tuple[Logprobs, list[Issue]]:
    """(the values with NaN for each that is not finite, what is odd about them).

    All finite values are kept: an odd one is said, and left to who uses it.
    """
    if not values.size:
        return values, []
    issues: list[Issue] = []
    least, most = np.minimum.reduce(values), np.maximum.reduce(values)
    if not (isfinite(least) and isfinite(most)):
        finite = np.isfinite(values)
        issues = [Issue.LOGPROB_NOT_FINITE] * int(values.size - finite.sum())
        values = np.where(finite, values, np.nan)
        least, most = np.fmin.reduce(values), np.fmax.reduce(values)
    elif values.size > 1 and least == most == 0:
        issues.append(Issue.LOGPROBS_ALL_ZERO)
    if most > POSITIVE:
        issues.append(Issue.LOGPROB_POSITIVE)
    if least <= IMPLAUSIBLE_LOGPROB:
        issues += [Issue.LOGPROB_IMPLAUSIBLE] * int((values <= IMPLAUSIBLE_LOGPROB).sum())
    return values, issues
