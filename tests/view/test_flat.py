"""The line of an episode's tokens, and what sequences say of them, read anew by pyarrow."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from tests.decoding.makers import byte_level, saved
from tests.shards.generated import RECORDS, lawful, write_dataset
from tests.view import data
from wmo_distill import build_datum_shards
from wmo_distill.datums.chats import chats_of
from wmo_distill.decoding import load
from wmo_distill.issues import Issue
from wmo_distill.records import Secret, TrialRecord
from wmo_distill.report.episode import calls_of
from wmo_distill.tokens import TokenSpan
from wmo_distill.view.answers import Answers
from wmo_distill.view.episode import tokens
from wmo_distill.view.flat import Flat, flat_of
from wmo_distill.view.index import MOST_ROWS
from wmo_distill.view.text import texts


def flat(record: TrialRecord) -> Flat:
    return flat_of(record, chats_of(record))


def whole(line: Flat, n: int) -> list[int]:
    """The prompt and completion of a call, put together from the line alone."""
    call = line.calls[n]
    before = whole(line, n - 1)[: call.kept] if call.kept else []
    return [*before, *line.ids[call.start : call.stop].tolist()]


@given(RECORDS)
def test_every_call_can_be_put_together_from_the_line(record: TrialRecord) -> None:
    line = flat(record)
    spans = sorted(record.spans, key=lambda span: (span.segment, span.call_index))
    assert [(call.segment, call.call_index) for call in line.calls] == [
        (span.segment, span.call_index) for span in spans
    ]
    for n, (call, span) in enumerate(zip(line.calls, spans, strict=True)):
        assert whole(line, n) == [*span.prompt_token_ids.tolist(), *span.sampled.tolist()]
        sampled = slice(call.sampled_at, call.stop)
        assert (
            line.sampled[call.start : call.stop].tolist()
            == [False] * (call.sampled_at - call.start) + [True] * span.sampled.size
        )
        if span.sampled_logprobs is not None:
            np.testing.assert_array_equal(line.logprobs[sampled], span.sampled_logprobs)
        assert (line.call[call.start : call.stop] == n).all()
    assert len(line) == (line.calls[-1].stop if line.calls else 0)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return data.real(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def answers(real: tuple[Path, Path]) -> Answers:
    return Answers(*real, load(data.TOKENIZER))


def is_nan(value: float | None) -> bool:
    return value is None or math.isnan(value)


def every(answers: Answers, episode: str) -> dict[str, list[Any]]:
    """The columns of all tokens of an episode, from slices of odd sizes."""
    found: dict[str, list[Any]] = {}
    size = answers.episode(episode)["tokens"]
    for start in range(0, size, 313):
        part = answers.tokens(episode, {"start": str(start), "stop": str(start + 313)})
        for name in ("ids", "sampled", "logprobs", "mask", "advantages", "teacher_logprobs",
            "rescored_logprobs", "call", "sequence"):  # fmt: skip
            default = [None] * (min(size, start + 313) - start)
            found.setdefault(name, []).extend(np.asarray(part.get(name, default)).tolist())
    return found


def test_what_sequences_say_is_what_pyarrow_reads(
    real: tuple[Path, Path], answers: Answers
) -> None:
    """Each sequence, as its row has it, is found at its calls, and all trained tokens are."""
    rows = pq.read_table(real[1] / "parts").to_pylist()
    assert len(rows) == 50
    compared = 0
    for row in rows:
        about = answers.episode(row["episode_id"])
        line = every(answers, row["episode_id"])
        (number,) = [
            n for n, one in enumerate(about["sequences"])
            if (one["segment"], one["fragment_index"]) == (row["segment"], row["fragment_index"])
        ]  # fmt: skip
        assert about["sequences"][number]["matched"]
        seen = set()
        for call in about["calls"]:
            for at in range(call["start"], call["stop"]):
                if line["sequence"][at] != number:
                    continue
                k = call["kept"] + at - call["start"]
                seen.add(k)
                assert line["ids"][at] == row["token_ids"][k]
                assert line["mask"][at] == row["loss_mask"][k]
                for mine, theirs in (
                    ("advantages", "advantages"),
                    ("teacher_logprobs", "teacher_logprobs"),
                    ("rescored_logprobs", "rescored_logprobs"),
                ):
                    value = line[mine][at]
                    wanted = row[theirs][k] if row[theirs] is not None else None
                    assert value == wanted or (
                        wanted is None and (value is None or math.isnan(value))
                    )
                if row["loss_mask"][k]:
                    assert line["logprobs"][at] == row["sampled_logprobs"][k]
                    compared += 1
        assert {k for k, trained in enumerate(row["loss_mask"]) if trained} <= seen
    assert compared == sum(sum(row["loss_mask"]) for row in rows) > 10_000


def test_one_call_recorded_twice_is_in_one_sequence_each(tmp_path: Path) -> None:
    """Two calls with the same ids: of two sequences that are alike, each call has its own."""
    twice = (
        TokenSpan(0, [1, 2], [3, 4], [-1.0, -2.0]),
        TokenSpan(1, [1, 2], [3, 4], [-1.0, -2.0]),
        TokenSpan(2, [1, 2], [3, 4], [-1.0, -2.5]),
        TokenSpan(3, [1, 2, 3, 4, 5], [6], [-0.5]),
    )
    write_dataset(tmp_path / "out", [[lawful("a", spans=twice), lawful("b")]])
    build_datum_shards(tmp_path / "out", tmp_path / "datums")
    line = every(Answers(tmp_path / "out", tmp_path / "datums"), "a")
    assert line["ids"] == [1, 2, 3, 4, 3, 4, 3, 4, 5, 6]
    assert line["sequence"] == [0, 0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert line["mask"] == [False, False, True, True, True, True, True, True, False, True]


def test_sequences_of_other_rows_are_not_taken(tmp_path: Path) -> None:
    other = (TokenSpan(0, [1, 2], [3, 9], [-1.0, -2.0]),)
    write_dataset(tmp_path / "out", [[lawful("a")]])
    write_dataset(tmp_path / "other", [[lawful("a", spans=other)]])
    build_datum_shards(tmp_path / "other", tmp_path / "datums")
    about = Answers(tmp_path / "out", tmp_path / "datums").episode("a")
    assert about["datums_of_other_rows"]
    assert [one["matched"] for one in about["sequences"]] == [False]


def test_breaks_are_those_of_datums(real: tuple[Path, Path], answers: Answers) -> None:
    wanted = Counter(
        (row["episode_id"], row["break_cause"])
        for row in pq.read_table(real[1] / "parts").to_pylist()
        if row["break_cause"]
    )
    found = Counter(
        (row["episode_id"], call["cause"])
        for row in answers.episodes({"n": str(MOST_ROWS)})["rows"]
        for call in answers.episode(row["episode_id"])["calls"]
        if call["cause"]
    )
    assert wanted.total() == 8
    assert wanted <= found


def test_text_in_slices_is_text_as_a_whole(answers: Answers) -> None:
    """A character of several ids is whole wherever the slices are cut."""
    decoder = load(data.TOKENIZER)
    for row in answers.episodes({"n": "5", "where": "n_calls > 0"})["rows"]:
        line = answers._dataset.read(lambda o, r=row: answers._episode(o, r["episode_id"])).flat
        known, kinds = texts(decoder, line, 0, len(line))
        for size in (1, 7, 500):
            pieces = [
                texts(decoder, line, a, min(len(line), a + size))
                for a in range(0, min(len(line), 900), size)
            ]
            assert [text for piece, _ in pieces for text in piece][:900] == known[:900]
            assert [kind for _, piece in pieces for kind in piece][:900] == kinds[:900]


def test_a_break_has_one_cause_wherever_it_is_shown(tmp_path: Path) -> None:
    """`head` as one id and letter by letter: only a tokenizer shows that it is the same text."""
    word, letters = 2025, [71, 68, 64, 67]
    spans = (TokenSpan(0, [64], [64, word]), TokenSpan(1, [64, 64, *letters, 65], [66]))
    write_dataset(tmp_path / "out", [[record := lawful("a", spans=spans)]])
    for decoder, cause in ((None, "past_stop"), (load(data.TOKENIZER), "retokenized")):
        answers = Answers(tmp_path / "out", None, decoder, trusted=True)
        assert [call["cause"] for call in answers.episode("a")["calls"]] == [None, cause]
        assert [call.cause for call in calls_of(record, decoder)] == [None, cause]
    doubted = Answers(tmp_path / "out", None, load(saved(byte_level(), tmp_path)))
    assert [call["cause"] for call in doubted.episode("a")["calls"]] == [None, "past_stop"]


def test_tokens_of_a_secret_are_marked() -> None:
    record = lawful(
        "a",
        spans=(TokenSpan(0, [1, 2, 3], [4]), TokenSpan(1, [1, 2, 3, 4, 5], [6, 7])),
        secrets=(Secret(0, 1, "rule", 2, 6, masked=True),),
        issues=(Issue.SECRET_FOUND,),
    )
    # the call's own ids are 5 6 7 at 4..7; what it keeps was marked with the calls before
    assert flat(record).masked.tolist() == [False, False, True, True, True, True, False]
    assert tokens(flat(record), 0, 2, None).get("masked") is None


def test_the_least_likely_tokens() -> None:
    call = TokenSpan(0, [1], [2, 3, 4, 5], [-1.0, -7.0, float("nan"), -3.0])
    assert flat(lawful("a", spans=(call,))).unlikely(2) == [2, 4]
    assert flat(lawful("a", spans=(call,))).unlikely(9) == [2, 4, 1]
