"""Calls, fragments and tokens of an episode's spans."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wmo_distill.tokens import TokenSpan


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Totals of one episode's spans; all but `subagent_tokens` speak of segment 0."""

    n_calls: int
    fragments: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    prompt_tokens: int
    subagent_tokens: int
    expansion: float | None


def count_tokens(spans: Sequence[TokenSpan]) -> TokenCounts:
    """A fragment is a run of calls whose prompts each extend all of the call before."""
    main: list[int] = []
    subagent = 0
    for segment, calls in by_segment(spans).items():
        lengths: list[int] = []
        before: TokenSpan | None = None
        for span in calls:
            prefix_len, _ = span.delta(before)
            if before is not None and prefix_len == before.sequence_len:
                lengths[-1] = span.sequence_len
            else:
                lengths.append(span.sequence_len)
            before = span
        if segment == 0:
            main = lengths
        else:
            subagent += sum(lengths)
    first = [span for span in spans if span.segment == 0]
    output = sum(span.sampled.size for span in first)
    total, longest = sum(main), max(main, default=0)
    return TokenCounts(
        n_calls=len(first),
        fragments=len(main),
        input_tokens=total - output,
        output_tokens=output,
        total_tokens=total,
        prompt_tokens=sum(span.prompt_len for span in first),
        subagent_tokens=subagent,
        expansion=total / longest if longest else None,
    )


def by_segment(spans: Iterable[TokenSpan]) -> dict[int, list[TokenSpan]]:
    """Spans of each segment, in the order given."""
    segments: dict[int, list[TokenSpan]] = defaultdict(list)
    for span in spans:
        segments[span.segment].append(span)
    return dict(segments)
