"""Chats distinguished by their tokens alone, answers passed over, and calls that nobody recorded.

A toy chat template: a turn is OPEN role text END. Its header is NEWLINE OPEN ASSISTANT.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.trials.toy_chats import (
    ASSISTANT,
    END,
    SYSTEM,
    USER,
    Chat,
    placed,
    prompt,
    recorded,
    segments,
    turn,
)
from wmo_distill.issues import Issue
from wmo_distill.records import SegmentInfo, SegmentKind
from wmo_distill.sources.recorded import CallStatus
from wmo_distill.tokenjson.rows import id_row

WORDS = range(100, 120)


def answered(asked: list[int], *text: int) -> list[int]:
    return [*asked, *text, END]


def test_one_chat_is_one_segment() -> None:
    chat = Chat(10)
    calls = []
    for k in range(4):
        calls.append(chat.ask(100 + k))
        chat.goes_on(60 + k)
    spans = placed(recorded(calls))
    assert segments(spans) == [[0, 1, 2, 3]]
    assert (spans.issues, spans.holes) == ((), 0)


def test_two_chats_in_turn_are_two_segments() -> None:
    main, sub = Chat(10), Chat(11)
    calls = []
    for k in range(3):
        for chat in (main, sub):
            calls.append(chat.ask(100 + k))
            chat.goes_on(60 + k)
    spans = placed(recorded(calls))
    assert segments(spans) == [[0, 2, 4], [1, 3, 5]]
    assert [info.kind for info in spans.segments] == [SegmentKind.MAIN, SegmentKind.SUBAGENT]
    assert (spans.issues, spans.holes) == ((), 0)


def test_a_rewritten_history_is_the_same_chat_broken() -> None:
    chat = Chat(10)
    calls = [chat.ask(100)]
    chat.goes_on(60)
    calls.append(chat.ask(101))
    summary = prompt(turn(SYSTEM, 10), turn(USER, 70, 71))
    calls.append((summary, [102, END]))
    spans = placed(recorded(calls))
    assert segments(spans) == [[0, 1, 2]]
    assert (spans.issues, spans.holes) == ((), 0)


def test_two_chats_with_one_first_message_side_by_side_are_unclear() -> None:
    one, two = Chat(10), Chat(10)
    two.history = prompt(turn(SYSTEM, 10), turn(USER, 51))
    calls = []
    for k in range(2):
        for chat in (one, two):
            calls.append(chat.ask(100 + k))
            chat.goes_on(60 + k)
    spans = placed(recorded(calls))
    assert segments(spans) == [[0, 2], [1, 3]]
    assert spans.issues == (Issue.LINEAGE_UNCLEAR,)


def test_an_answer_that_was_asked_for_again_is_kept_apart() -> None:
    chat = Chat(10)
    passed = (list(chat.history), [110, END])
    used = chat.ask(100)
    chat.goes_on(60)
    spans = placed(recorded([passed, used, chat.ask(101)]))
    assert segments(spans) == [[1, 2], [0]]
    assert [span.used for span in spans.spans] == [None, None, False]
    assert spans.issues == (Issue.SUPERSEDED,)
    assert spans.main_calls == 2


def test_of_two_last_answers_the_later_one_is_used() -> None:
    chat = Chat(10)
    first = chat.ask(100)
    chat.goes_on(60)
    asked = list(chat.history)
    spans = placed(recorded([first, (asked, [101, END]), (asked, [102, END])]))
    assert segments(spans) == [[0, 2], [1]]
    assert sorted(spans.issues) == sorted([Issue.AMBIGUOUS_LAST_CALL, Issue.SUPERSEDED])


def test_declared_chats_are_as_declared() -> None:
    """Two chats that the tokens would join."""
    main, twin = Chat(10), Chat(10)
    calls = [main.ask(100), twin.ask(101)]
    rows = [
        call._replace(lineage=name)
        for call, name in zip(recorded(calls), ("main", "sub"), strict=True)
    ]
    infos = {"main": SegmentInfo(), "sub": SegmentInfo(SegmentKind.SUBAGENT, "helper", None, False)}
    spans = placed(rows, lineages=infos)
    assert segments(spans) == [[0], [1]]
    assert spans.segments == tuple(infos.values())


def test_the_same_key_twice() -> None:
    chat = Chat(10)
    calls = recorded([chat.ask(100)] * 3)
    one, two, other = (call._replace(key="a") for call in calls)
    other = other._replace(completion=id_row([101, END]))
    spans = placed([one, two, other])
    assert sorted(spans.issues) == sorted(
        [Issue.DUPLICATE, Issue.CALL_CONFLICT, Issue.AMBIGUOUS_LAST_CALL, Issue.SUPERSEDED]
    )
    assert len(spans.spans) == 2


@pytest.mark.parametrize("status", [CallStatus.FAILED, CallStatus.CANCELLED])
def test_a_call_without_an_answer_is_counted(status: CallStatus) -> None:
    chat = Chat(10)
    calls = recorded([chat.ask(100), (list(chat.history), [])])
    spans = placed([calls[0], calls[1]._replace(status=status)])
    assert (len(spans.spans), spans.issues) == (1, (Issue.CALL_FAILED,))


def test_a_broken_stream_is_not_trained() -> None:
    chat = Chat(10)
    cut = (list(chat.history), [110])
    calls = recorded([cut, chat.ask(100)])
    spans = placed([calls[0]._replace(status=CallStatus.CUT), calls[1]])
    assert segments(spans) == [[1], [0]]
    assert spans.spans[1].used is False


def test_a_broken_stream_at_the_end_of_a_chat_is_not_trained() -> None:
    chat = Chat(10)
    calls = [chat.ask(100)]
    chat.goes_on(60)
    first, last = recorded([*calls, (list(chat.history), [110])])
    spans = placed([first, last._replace(status=CallStatus.CUT)])
    assert segments(spans) == [[0], [1]]
    assert spans.spans[1].used is False


def test_only_broken_streams() -> None:
    calls = recorded([([7, 8], [9]), ([10, 11, 12], [13])])
    spans = placed([call._replace(status=CallStatus.CUT) for call in calls])
    assert segments(spans) == [[], [0, 1]]


def test_versions_that_cannot_be_are_an_issue() -> None:
    chat = Chat(10)
    (call,) = recorded([chat.ask(100, 101)])
    whole, late, long = (("a", 0), ("b", 2)), (("a", 1),), (("a", 0), ("b", 3))
    for versions, kept in ((whole, True), (late, False), (long, False)):
        spans = placed([call._replace(versions=versions)])
        assert (spans.spans[0].versions == versions) is kept
        assert (Issue.VALUE_DAMAGED in spans.issues) is not kept


@settings(max_examples=examples(100))
@given(st.data())
def test_random_conversations_fall_apart_as_they_were(data: st.DataObject) -> None:
    """Several chats with their own first messages, in any interleaving, some calls missing."""
    chats = [Chat(10 + k) for k in range(data.draw(st.integers(1, 3)))]
    calls: list[tuple[list[int], list[int]]] = []
    owner: list[int] = []
    lost = 0
    for k in range(data.draw(st.integers(2, 10))):
        which = data.draw(st.integers(0, len(chats) - 1))
        said = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
        call = chats[which].ask(*said)
        chats[which].goes_on(60 + k)
        # The first call of each chat stays: what comes before it is history.
        if which in owner and data.draw(st.integers(0, 3)) == 0:
            lost += 1
            continue
        calls.append(call)
        owner.append(which)
    last = {which: max(k for k, o in enumerate(owner) if o == which) for which in set(owner)}
    spans = placed(recorded(calls))
    expected: dict[int, list[int]] = {}
    for k, which in enumerate(owner):
        expected.setdefault(which, []).append(k)
    assert segments(spans) == list(expected.values())
    seen = sum(
        len(np.flatnonzero(np.array(calls[last[which]][0]) == ASSISTANT)) - len(ks)
        for which, ks in expected.items()
    )
    if len({tuple(asked) for asked, _ in calls}) > 1:
        assert spans.holes == seen <= lost
    for a, b in pairwise(spans.spans):
        assert a.segment < b.segment or a.call_index < b.call_index
