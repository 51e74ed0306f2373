"""Chats of a toy template, and what is made of their calls."""

from collections.abc import Sequence
from typing import Any

from wmo_distill.records import SpanSource
from wmo_distill.sources.evidence import Evidence, Identity
from wmo_distill.sources.recorded import Call
from wmo_distill.tokenjson.rows import id_row, logprob_row, shared_rows
from wmo_distill.trials.placing import Spans, placed_spans

OPEN, END, NEWLINE, SYSTEM, USER, ASSISTANT = range(1, 7)


HEADER = [NEWLINE, OPEN, ASSISTANT]


def turn(role: int, *text: int) -> list[int]:
    return [OPEN, role, *text, END]


def prompt(*turns: list[int]) -> list[int]:
    """Turns, each on its line, and the header of the answer to come."""
    joined: list[int] = []
    for one in turns:
        joined += [*([NEWLINE] if joined else []), *one]
    return joined + HEADER


class Chat:
    """A policy's chat as it really was; `ask` samples, `goes_on` adds what the harness says."""

    def __init__(self, system: int) -> None:
        self.history = prompt(turn(SYSTEM, system), turn(USER, 50))

    def ask(self, *text: int) -> tuple[list[int], list[int]]:
        asked, sampled = list(self.history), [*text, END]
        self.history = asked + sampled
        return asked, sampled

    def goes_on(self, *text: int) -> None:
        self.history = [*self.history, NEWLINE, *turn(USER, *text), *HEADER]


def recorded(calls: Sequence[tuple[list[int], list[int]]], **more: Any) -> list[Call]:
    rows = shared_rows([id_row(asked) for asked, _ in calls])
    return [
        Call(k, row, id_row(sampled), logprob_row([-0.5] * len(sampled)), **more)
        for k, (row, (_, sampled)) in enumerate(zip(rows, calls, strict=True))
    ]


def placed(calls: Sequence[Call], **more: Any) -> Spans:
    evidence = Evidence(identity=Identity(), calls=calls, call_source=SpanSource.CAPTURE, **more)
    spans = placed_spans(evidence)
    dropped = sum(issue.drops_call for issue in spans.issues)
    assert spans.calls_found == len(spans.spans) + dropped == len(calls)
    assert {span.segment for span in spans.spans} <= set(range(len(spans.segments)))
    by_index = {call.call_index: call for call in calls}
    for span in spans.spans:
        call = by_index[span.call_index]
        assert span.prompt_token_ids.tolist() == _ids(call.prompt)
        assert span.sampled_token_ids is not None
        assert span.sampled_token_ids.tolist() == _ids(call.completion)
    return spans


def _ids(row: Any) -> list[int]:
    from wmo_distill.tokenjson.rows import whole_row

    found = whole_row(row)
    return [] if found is None else found.tolist()


def segments(spans: Spans) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in spans.segments]
    for span in spans.spans:
        found[span.segment].append(span.call_index)
    return found
