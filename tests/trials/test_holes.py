"""Calls taken out of conversations, under the chat templates of well-known models."""

import time
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trials.templates import TEMPLATES, Message, ids_of
from tests.trials.test_lineage import Chat, placed, recorded, segments
from wmo_distill.arrays import NO_IDS
from wmo_distill.issues import Issue
from wmo_distill.segment import Coded, Segment
from wmo_distill.trials.holes import header_of, starts_of

Calls = list[tuple[list[int], list[int]]]

# Before an answer of the history they write one id at most, which may as well be a word.
UNPROVABLE = {"deepseek r1", "mistral"}


def conversation(
    name: str, observations: list[str], *, halves: bool = False, compacted: int | None = None
) -> Calls:
    """A call before each observation and one after the last.

    `halves`: the harness hands each answer back as two messages. `compacted`: which observation
    the harness puts right after the first messages, without those between.
    """
    template, known = TEMPLATES[name], dict[str, int]()
    messages: list[Message] = [("system", "", "be terse"), ("user", "", "do it now")]
    calls = []
    for k, seen in enumerate([*observations, ""]):
        asked = ids_of(template.prompt(messages), known)
        thinking, text = f"hmm t{k} so", f"ans{k} is x{k}"
        calls.append((asked, ids_of(template.answer(thinking, text), known)))
        said = [f"ans{k} is", f"x{k}"] if halves else [text]
        messages += [("assistant", thinking, part) for part in said]
        if k == compacted:
            del messages[2:]
        role = "tool" if template.keeps and k != 3 else "user"
        messages.append((role, "", seen))
    return calls


def plain(n: int) -> list[str]:
    return [f"obs {k} o{k}" for k in range(n)]


def without_some(calls: Calls) -> Iterator[tuple[int, Calls]]:
    """(how many are missing, the rest); the first and the last call leave no trace."""
    for n in range(len(calls) - 1):
        for gone in combinations(range(1, len(calls) - 1), n):
            yield n, [call for k, call in enumerate(calls) if k not in gone]


@pytest.mark.parametrize("name", TEMPLATES)
def test_calls_taken_out_are_seen_or_it_is_said_that_they_cannot_be(name: str) -> None:
    for missing, calls in without_some(conversation(name, plain(6))):
        spans = placed(recorded(calls))
        unprovable = Issue.HOLE_UNPROVABLE in spans.issues
        assert unprovable is (name in UNPROVABLE), missing
        assert spans.holes == (0 if unprovable else missing)


# GLM ends no message with an id of its own, so that a quote is like an answer.
@pytest.mark.parametrize("name", sorted({*TEMPLATES} - {"glm 4.5, no thinking"}))
def test_an_observation_that_quotes_the_header_is_no_answer(name: str) -> None:
    """Some tokenizers give the text of a special token its id."""
    quote = f"see {TEMPLATES[name].header} there"
    calls = conversation(name, ["obs 0", quote, "obs 2"])
    assert placed(recorded(calls)).holes == 0


@pytest.mark.parametrize("name", ["chatml", "qwen 3", "qwen 3, no thinking", "llama 3", "harmony"])
def test_an_answer_handed_back_in_halves_is_one(name: str) -> None:
    for missing, calls in without_some(conversation(name, plain(5), halves=True)):
        assert placed(recorded(calls)).holes == missing


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_history_begun_anew_is_no_hole(name: str) -> None:
    """After a compaction the first messages are followed by another."""
    spans = placed(recorded(conversation(name, plain(5), compacted=2)))
    assert spans.holes == 0


def test_a_history_begun_anew_alone_shows_no_place_of_an_answer() -> None:
    first, *_, last = conversation("chatml", plain(2), compacted=1)
    spans = placed(recorded([first, last]))
    assert (spans.holes, spans.issues) == (0, (Issue.HOLE_UNPROVABLE,))


def test_an_example_in_the_first_prompt_is_seen_where_less_is_written_before_it() -> None:
    calls = conversation("qwen 3, no thinking", plain(4))[2:]
    assert Issue.HISTORY_BEFORE_FIRST_CALL in placed(recorded(calls)).issues


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.lists(st.integers(0, 2), max_size=4),
                  st.lists(st.integers(0, 2), max_size=3)),
        min_size=1, max_size=9,
    ),
    st.integers(0, 3),
)  # fmt: skip
def test_the_nearest_prompt_that_is_kept_is_the_one_that_a_search_finds(
    calls: list[tuple[int, list[int], list[int]]], less: int
) -> None:
    """One look at all calls against a search back from each."""
    history: list[int] = []
    coded, shares, sizes = [], [], []
    for at, (kept, new, sampled) in enumerate(calls):
        shares.append(min(kept, len(history)))
        prompt = history[: shares[-1]] + new
        sizes.append(len(prompt))
        history = prompt + sampled
        coded.append(
            (
                at,
                shares[-1],
                np.array(new, np.int32),
                np.array(sampled, np.int32),
                None,
                None,
                None,
                None,
                None,
                None,
            )
        )

    def searched(k: int) -> tuple[int, int] | None:
        shared = shares[k]
        for j in range(k - 1, -1, -1):
            if sizes[j] - less <= shared and sizes[j] - less < sizes[k]:
                return j, min(shared, sizes[j])
            shared = min(shared, sizes[j], shares[j])
        return None

    chat = Segment.of(0, coded)
    found = [start and (start.call, start.shared) for start in starts_of(chat, less, shorter=True)]
    assert found == [searched(k) for k in range(len(calls))]


@pytest.mark.parametrize("empty", [1, 2])
def test_a_prompt_asked_again_after_an_empty_answer_hides_no_header(empty: int) -> None:
    """It adds nothing to the prompt before; other chats and holes are seen all the same."""
    main, sub = Chat(10), Chat(11)
    calls = []
    for k in range(4):
        if k == 2:
            calls += [(list(main.history), [])] * empty
        calls.append(main.ask(100 + k))
        main.goes_on(60 + k)
    calls.append(sub.ask(110))
    spans = placed(recorded(calls))
    assert segments(spans)[:2] == [[0, 1, empty + 2, empty + 3], [empty + 4]]
    assert Issue.HOLE_UNPROVABLE not in spans.issues
    missing = placed(recorded(calls[:1] + calls[2:]))
    assert missing.holes == 1


def test_a_prompt_asked_again_and_again_takes_linear_time() -> None:
    """The end of each prompt is made of the end of the one before, not of all before."""
    calls = [Coded(k, 5, NO_IDS, NO_IDS) for k in range(1, 6_000)]
    first, last = np.arange(5, dtype=np.int32), np.array([9, 3, 4], np.int32)
    chat = Segment.of(0, [Coded(0, 0, first, NO_IDS), *calls, Coded(6_000, 3, last, NO_IDS)])
    began = time.process_time()
    assert header_of([chat]).tolist() == [3, 4]
    assert time.process_time() - began < 5
