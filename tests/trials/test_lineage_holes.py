"""Calls that nobody recorded, as the tokens of the others show them."""

import pytest

from tests.trials.toy_chats import (
    ASSISTANT,
    END,
    NEWLINE,
    OPEN,
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
from wmo_distill.records import SpanSource
from wmo_distill.sources.evidence import Evidence, Identity
from wmo_distill.tokenjson.rows import DAMAGED_IDS, id_row
from wmo_distill.trials.placing import placed_spans


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_call_that_nobody_recorded_is_a_hole(missing: int) -> None:
    chat = Chat(10)
    calls = []
    for k in range(5):
        calls.append(chat.ask(100 + k))
        chat.goes_on(60 + k)
    del calls[missing]
    spans = placed(recorded(calls))
    assert (segments(spans), spans.holes) == ([[0, 1, 2, 3]], 1)


def test_a_dropped_call_is_no_hole() -> None:
    chat = Chat(10)
    calls = []
    for k in range(3):
        calls.append(chat.ask(100 + k))
        chat.goes_on(60 + k)
    rows = recorded(calls)
    rows[1] = rows[1]._replace(prompt=DAMAGED_IDS)
    rows[2] = rows[2]._replace(prompt=id_row(calls[2][0]))
    evidence = Evidence(identity=Identity(), calls=rows, call_source=SpanSource.CAPTURE)
    spans = placed_spans(evidence)
    assert (spans.holes, spans.issues) == (0, (Issue.PROMPT_DAMAGED,))


def test_answers_that_were_stripped_or_tokenized_anew_are_no_holes() -> None:
    """Each prompt holds the answers before it in other tokens, as templates rewrite thinking."""
    system = turn(SYSTEM, 10)
    turns = [system, turn(USER, 50)]
    calls = []
    for k in range(4):
        calls.append((prompt(*turns), [90, 91, 100 + k, END]))
        turns += [turn(ASSISTANT, 100 + k), turn(USER, 60 + k)]
    spans = placed(recorded(calls))
    assert (segments(spans), spans.holes, spans.issues) == ([[0, 1, 2, 3]], 0, ())


def test_a_hole_among_rewritten_answers() -> None:
    turns = [turn(SYSTEM, 10), turn(USER, 50)]
    calls = []
    for k in range(4):
        calls.append((prompt(*turns), [90, 91, 100 + k, END]))
        turns += [turn(ASSISTANT, 100 + k), turn(USER, 60 + k)]
    del calls[1]
    assert placed(recorded(calls)).holes == 1


def test_a_history_before_the_first_call_proves_nothing() -> None:
    chat = Chat(10)
    chat.history = prompt(turn(SYSTEM, 10), turn(USER, 50), turn(ASSISTANT, 51), turn(USER, 52))
    calls = [chat.ask(100)]
    chat.goes_on(60)
    calls.append(chat.ask(101))
    spans = placed(recorded(calls))
    assert (spans.holes, spans.issues) == (0, (Issue.HISTORY_BEFORE_FIRST_CALL,))


def test_without_a_common_end_nothing_can_be_proved() -> None:
    spans = placed(recorded([([7, 8], [9]), ([7, 8, 9, 10], [11])]))
    assert spans.issues == (Issue.HOLE_UNPROVABLE,)


def test_two_answers_that_were_passed_over_show_no_hole() -> None:
    chat = Chat(10)
    calls = [(list(chat.history), [110, END]), chat.ask(100)]
    chat.goes_on(60)
    calls.append(chat.ask(101))
    chat.goes_on(61)
    calls += [(list(chat.history), [111, END]), chat.ask(102)]
    chat.goes_on(62)
    spans = placed(recorded([*calls, chat.ask(103)]))
    assert (segments(spans), spans.holes) == ([[1, 2, 4, 5], [0, 3]], 0)


def test_an_ordinary_word_is_no_header() -> None:
    """Answers end with an id that prompts do not hold, as a tool call's end in harmony."""
    call_end, tool = 8, 9
    first = [OPEN, USER, 50, END, OPEN, ASSISTANT]
    answer = [100, call_end]
    second = [*first, *answer, OPEN, tool, 80, ASSISTANT, 81, END, OPEN, ASSISTANT]
    spans = placed(recorded([(first, answer), (second, [101, END])]))
    assert spans.holes == 0


def test_one_common_id_proves_nothing() -> None:
    """The prompts end alike in a line break alone."""
    one, two = [OPEN, USER, 50, NEWLINE], [OPEN, USER, 50, NEWLINE, 100, NEWLINE, 60, NEWLINE]
    spans = placed(recorded([(one, [100]), (two, [101])]))
    assert spans.holes == 0
    assert Issue.HOLE_UNPROVABLE in spans.issues


def test_a_break_where_the_first_message_ends_with_the_header() -> None:
    """Without a system message, and with a header of one id, as DeepSeek has it."""
    begin = 9
    first = [begin, USER, 50, ASSISTANT]
    second = [begin, USER, 50, ASSISTANT, 102, END, USER, 60, ASSISTANT]
    spans = placed(recorded([(first, [100, 101, END]), (second, [100, END])]))
    assert segments(spans) == [[0, 1]]
