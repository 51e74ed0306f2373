"""The statistics of world-model-optimizer 0.2.0 over any objects with a record's attributes.

Its rates are 0.0 over nothing, and every stop reason but `submitted` counts as a scaffold loss.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Graded(Protocol):
    """What the statistics look at in a record."""

    @property
    def passed(self) -> bool | None: ...
    @property
    def infra_failed(self) -> bool | None: ...
    @property
    def stop_reason(self) -> str | None: ...
    @property
    def tests(self) -> Any: ...
    @property
    def spans(self) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class ReferenceRolloutStats:
    """Counts and rates under the reference's names."""

    trials: int
    trials_with_spans: int
    solve_rate: float
    graded_solve_rate: float
    graded_trials: int
    raw_solve_rate: float
    executed_trials: int
    infra_failed_trials: int
    empty_span_trials: int
    truncated_spans: int
    truncated_span_trials: int
    stop_reason_counts: dict[str, int]
    scaffold_loss_rate: float


@dataclass(frozen=True, slots=True)
class PolicyHealth:
    """An entropy proxy in nats a sampled token, and sampled tokens an episode with spans."""

    episodes: int
    sampled_tokens: int
    entropy_per_token: float | None
    mean_generation_tokens: float | None


@dataclass(frozen=True, slots=True)
class Billing:
    """Tokens to pay for: each once, prompts read again from a cache, and sampled ones."""

    unique_tokens: int
    cached_tokens: int
    sampled_tokens: int


def reference_rollout_stats(
    records: Iterable[Graded], max_tokens: int | None = None
) -> ReferenceRolloutStats:
    """The reference's answer; a call of at least `max_tokens` sampled tokens is truncated."""
    every = list(records)
    executed = [record for record in every if not record.infra_failed]
    scores = [
        record.tests.passed / record.tests.resolved
        for record in executed
        if record.tests is not None and record.tests.resolved
    ]
    at_cap = [_calls_at_cap(record, max_tokens) for record in every]
    stops = Counter(
        "unknown" if record.stop_reason is None else str(record.stop_reason) for record in every
    )
    known = sum(stops.values()) - stops["unknown"]
    with_spans = sum(bool(record.spans) for record in every)
    return ReferenceRolloutStats(
        trials=len(every),
        trials_with_spans=with_spans,
        solve_rate=_share(sum(record.passed is True for record in executed), len(executed)),
        graded_solve_rate=_share(sum(scores), len(scores)),
        graded_trials=len(scores),
        raw_solve_rate=_share(sum(record.passed is True for record in every), len(every)),
        executed_trials=len(executed),
        infra_failed_trials=len(every) - len(executed),
        empty_span_trials=len(every) - with_spans,
        truncated_spans=sum(at_cap),
        truncated_span_trials=sum(n > 0 for n in at_cap),
        stop_reason_counts={word: stops[word] for word in sorted(stops) if stops[word]},
        scaffold_loss_rate=_share(known - stops["submitted"], known),
    )


def policy_health(records: Iterable[Graded]) -> PolicyHealth:
    """Over the records with spans; None where nothing was sampled."""
    episodes = [record for record in records if record.spans]
    spans = [span for record in episodes for span in record.spans]
    sampled = sum(len(_ids(span)) for span in spans)
    if not sampled:
        return PolicyHealth(len(episodes), 0, None, None)
    total = sum(
        float(np.sum(np.asarray(span.sampled_logprobs, np.float64)))
        for span in spans
        if span.sampled_logprobs is not None
    )
    return PolicyHealth(len(episodes), sampled, (0.0 - total) / sampled, sampled / len(episodes))


def billing(records: Iterable[Graded]) -> Billing:
    """A fragment's tokens are paid once; what a record's prompts hold beyond that is cached."""
    unique = cached = sampled = 0
    for record in records:
        paid = _unique_tokens(record.spans)
        prompts = sum(len(span.prompt_token_ids) for span in record.spans)
        unique += paid
        cached += max(0, prompts - paid)
        sampled += sum(len(_ids(span)) for span in record.spans)
    return Billing(unique, cached, sampled)


def _unique_tokens(spans: Sequence[Any]) -> int:
    """The tokens of the last call of each run of calls that extend each other."""
    total = 0
    running: list[int] | NDArray[Any] = []
    for span in spans:
        prompt = span.prompt_token_ids
        if not len(running) or not _starts_with(prompt, running):
            total += len(running)
        if isinstance(prompt, np.ndarray):
            running = np.concatenate([prompt, np.asarray(_ids(span), prompt.dtype)])
        else:
            running = [*prompt, *_ids(span)]
    return total + len(running)


def _starts_with(prompt: Any, running: Any) -> bool:
    head = prompt[: len(running)]
    if isinstance(head, np.ndarray) or isinstance(running, np.ndarray):
        return bool(np.array_equal(head, running))
    return list(head) == list(running)


def _calls_at_cap(record: Graded, max_tokens: int | None) -> int:
    if max_tokens is None:
        return 0
    return sum(len(_ids(span)) >= max_tokens for span in record.spans)


def _ids(span: Any) -> Sequence[int]:
    ids = span.sampled_token_ids
    return () if ids is None else ids


def _share(numerator: float, denominator: int) -> float:
    return numerator / denominator if denominator else 0.0
