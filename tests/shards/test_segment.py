"""A chat in flat arrays: what its views say, and what it costs to hand it on."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.effort import examples
from wmo_distill.records import TrialRecord
from wmo_distill.segment import Coded, Segment
from wmo_distill.tokens import TokenSpan, chat_of, chats_of, spans_of

from .generated import RECORDS, all_spans, contents, long_chat

generated = settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])


@generated
@given(RECORDS)
def test_a_pickled_record_is_the_same(record: TrialRecord) -> None:
    again = pickle.loads(pickle.dumps(record))
    assert contents(again) == contents(record)
    assert again.counts == record.counts
    assert not any(span.prompt_token_ids.flags.writeable for span in again.spans)


@pytest.mark.parametrize("turns", [200, 400])
def test_a_pickled_record_is_linear_in_its_tokens(turns: int) -> None:
    """250 ids a turn, half of them sampled: 4 bytes an id, 8 a log-probability."""
    record = TrialRecord(spans=long_chat(turns, 125))
    assert [span.prompt_token_ids.size for span in record.spans][-1] > 249 * (turns - 1)
    size = len(pickle.dumps(record))
    assert 2000 * turns < size < 2100 * turns + 4000
    assert len(pickle.dumps(replace(record, note="x" * 100))) < size + 200


def test_a_span_pickled_alone_carries_its_whole_prompt_and_no_other_call() -> None:
    last = long_chat(200, 125)[-1]
    (chat,) = chats_of(long_chat(200, 125)).values()
    alone = pickle.loads(pickle.dumps(TokenSpan.of(chat, 199)))
    assert alone == last
    assert len(pickle.dumps(TokenSpan.of(chat, 0))) < 4000


@generated
@given(all_spans())
def test_extends_and_prompts_are_those_of_the_ids(spans: tuple[TokenSpan, ...]) -> None:
    for chat in chats_of(spans).values():
        history: list[int] = []
        own = [span for span in spans if span.segment == chat.number]
        for at, (span, extends) in enumerate(zip(own, chat.extends.tolist(), strict=True)):
            prompt = span.prompt_token_ids.tolist()
            assert chat.prompt(at).tolist() == prompt
            assert extends == bool(history and history == prompt[: len(history)])
            history = prompt + span.sampled.tolist()


def test_prompts_of_a_clean_chat_share_one_array() -> None:
    chat = chat_of(long_chat(30, 10))
    prompts = [span.prompt_token_ids for span in spans_of(chat)]
    assert all(np.shares_memory(prompts[1], prompt) for prompt in prompts[1:])
    assert all(not prompt.flags.writeable for prompt in prompts)


def test_calls_of_one_chat_are_not_coded_again() -> None:
    chat = chat_of(long_chat(3, 4))
    assert chat_of(spans_of(chat)) is chat
    part = chat_of(spans_of(chat)[1:])
    assert part is not chat
    assert [len(part.suffix(at)) for at in range(2)] == [12, 4]


def test_another_number_of_log_probabilities_is_refused() -> None:
    wrong = Coded(7, 0, np.array([1], np.int32), np.array([2, 3], np.int32), np.array([-1.0]))
    with pytest.raises(ValueError, match="call 7: 2 sampled ids but 1 log-probabilities"):
        Segment.of(0, [wrong])
    with pytest.raises(ValueError, match="call 0: 0 sampled ids but 1 log-probabilities"):
        TokenSpan(0, [1], None, [-1.0])
