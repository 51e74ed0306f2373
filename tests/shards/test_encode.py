"""Records to rows and back."""

import math
from dataclasses import replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from wmo_distill.records import GradedTests, Sampling, SegmentInfo, TrialRecord
from wmo_distill.shards import digest
from wmo_distill.shards.columns import IDS, TEXTS
from wmo_distill.shards.decode import decode
from wmo_distill.shards.digest import row_digest
from wmo_distill.shards.encode import encode, row_values
from wmo_distill.shards.schema import (
    COLUMNS,
    REWARDS,
    SCHEMA,
    SECRETS,
    SEGMENTS,
    SPANS,
    TESTS,
    Group,
)
from wmo_distill.tokens import TokenSpan

from .generated import RECORDS, contents, long_chat

generated = settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])


@generated
@given(st.lists(RECORDS, max_size=4))
def test_decode_of_encode_is_the_same(records: list[TrialRecord]) -> None:
    table = encode(records)
    table.validate(full=True)
    assert table.schema.equals(SCHEMA, check_metadata=True)
    assert [contents(r) for r in decode(table)] == [contents(r) for r in records]


@generated
@given(st.lists(RECORDS, min_size=2, max_size=5), st.data())
def test_any_slice_decodes_to_its_rows(records: list[TrialRecord], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(records)))
    length = data.draw(st.integers(0, len(records) - start))
    rows = list(decode(encode(records).slice(start, length)))
    assert [contents(r) for r in rows] == [contents(r) for r in records[start : start + length]]


@generated
@given(RECORDS)
def test_no_column_is_null_that_must_not_be(record: TrialRecord) -> None:
    table = encode([record])
    for field in SCHEMA:
        if not field.nullable:
            assert table.column(field.name).null_count == 0


@generated
@given(RECORDS)
def test_spans_are_coded_against_the_span_before(record: TrialRecord) -> None:
    before: dict[int, list[int]] = {}
    for span, row in zip(record.spans, encode([record])["spans"].to_pylist()[0], strict=True):
        history = before.get(span.segment, [])
        prompt = history[: row["prefix_len"]] + row["prompt_suffix"]
        assert prompt == span.prompt_token_ids.tolist()
        shared = sum(1 for _ in iter_equal(history, prompt))
        assert row["prefix_len"] == shared
        before[span.segment] = prompt + (row["sampled_token_ids"] or [])


def iter_equal(a: list[int], b: list[int]) -> Any:
    for x, y in zip(a, b, strict=False):
        if x != y:
            return
        yield x


@generated
@given(RECORDS, RECORDS)
def test_digests_tell_rows_apart(a: TrialRecord, b: TrialRecord) -> None:
    (again,) = decode(encode([a]))
    assert row_digest(again) == row_digest(a)
    assert (row_digest(a) == row_digest(b)) == (contents(a) == contents(b))


@settings(max_examples=examples(50))
@given(RECORDS)
def test_a_digest_does_not_depend_on_its_pieces(record: TrialRecord) -> None:
    at_once = row_digest(record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "_PIECE", 0)
        assert row_digest(record) == at_once


def test_digest_sees_every_column() -> None:
    """Each field changed alone changes the digest."""
    base = TrialRecord(spans=(TokenSpan(0, [1, 2], [3], [-0.5]),))
    digests = {row_digest(base)}
    changes: list[dict[str, Any]] = [
        {"note": "x"},
        {"reward": 0.0},
        {"reward": -0.0},
        {"passed": False},
        {"rewards": {"a": math.nan}},
        {"sampled_with": Sampling(top_k=1)},
        {"spans": (TokenSpan(0, [1, 2], [3], None),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [-0.25]),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [math.nan]),)},
        {"spans": (TokenSpan(0, [1, 2], None),)},
        {"spans": (TokenSpan(0, [1, 2], [], []),)},
        {"spans": (TokenSpan(0, [1, 2], []),)},
        {"spans": (TokenSpan(0, [1], [3], [-0.5]),)},
        {"spans": (TokenSpan(1, [1, 2], [3], [-0.5]),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [-0.5], segment=1),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [-0.5], extra=""),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [-0.5], finish_reason=""),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [-0.5], sampling=""),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [-0.5], used=False),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [-0.5], used=True),)},
        {"spans": (TokenSpan(0, [1, 2], [3], [-0.5], versions=(("", 0),)),)},
        {"format": "sink"},
        {"segments": (SegmentInfo(),)},
        {"segments": (SegmentInfo(trainable=False),)},
        {"sampled_with": Sampling(policy_versions=("a", "b"))},
    ]
    for change in changes:
        digests.add(row_digest(replace(base, **change)))
    assert len(digests) == len(changes) + 1


class _Count(IntEnum):
    ONE = 1


WRONG: list[Any] = [
    2**31, -(2**31) - 1, 2**63, 10**400, True, "1", 1.5, math.inf, "\ud800", b"x", [], {}, None,
    datetime(2025, 1, 1), _Count.ONE, np.int64(3), np.float64(2.0),
]  # fmt: skip


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_no_value_crashes_a_column(value: Any) -> None:
    """Whatever the plain columns are given, the row is written, and the row after it is whole."""
    plain = [
        c for c in COLUMNS if c.type not in (SPANS, SEGMENTS, SECRETS, REWARDS, TESTS, TEXTS, IDS)
    ]
    own = {c.name: value for c in plain if c.group not in (Group.SAMPLING, Group.COUNTS)}
    sampling = {c.name: value for c in plain if c.group is Group.SAMPLING}
    table = encode([TrialRecord(sampled_with=Sampling(**sampling), **own), TrialRecord()])
    table.validate(full=True)
    assert table.slice(1).equals(encode([TrialRecord()]))
    row_digest(TrialRecord(sampled_with=Sampling(**sampling), **own))


def test_what_does_not_fit_is_null() -> None:
    values = row_values(
        TrialRecord(
            n_episodes=2**31,
            cached_tokens=2**63,
            reward=10**400,  # type: ignore[arg-type]
            rewards={"big": 10**400, "inf": math.inf},
            tests=GradedTests(passed=2**31, resolved=1, unresolved=0),
            started_at=datetime(2025, 1, 1),
            compactions=(1, 2**31),
        )
    )
    for name in ("n_episodes", "cached_tokens", "reward", "tests", "started_at"):
        assert values[name] is None, name
    assert repr(values["rewards"]) == repr(
        [{"name": "big", "value": math.nan}, {"name": "inf", "value": math.inf}]
    )
    assert values["compactions"] == [1]


SURROGATES = TokenSpan(
    0,
    [1],
    [2],
    extra='"\ud83d"',
    finish_reason="\udc00",
    sampling="\udc00",
    versions=(("\udc00", 0),),
)


def test_lone_surrogates_are_written() -> None:
    record = TrialRecord(
        trial_name="a\ud800b",
        rewards={"\udfff": 1.0},
        spans=(SURROGATES,),
        segments=(SegmentInfo(agent="\ud800", model="\ud800"),),
    )
    (back,) = decode(encode([record]))
    assert "\ud800" not in back.trial_name
    assert back.trial_name.startswith("a")
    assert row_digest(back) == row_digest(record)


def test_log_probabilities_that_are_not_finite_are_null_on_disk() -> None:
    record = TrialRecord(spans=(TokenSpan(0, [1], [2, 3, 4], [-1.0, math.inf, math.nan]),))
    table = encode([record])
    assert table["spans"].to_pylist()[0][0]["sampled_logprobs"] == [-1.0, None, None]
    (back,) = decode(table)
    assert repr(back.spans[0].sampled_logprobs.tolist()) == "[-1.0, nan, nan]"  # type: ignore[union-attr]
    assert row_digest(back) == row_digest(record)


def test_ids_are_views_of_the_table() -> None:
    """Decoding copies no ids: a span's arrays are in the table's own buffers."""
    table = encode([TrialRecord(spans=long_chat(4, 50))])
    values = table["spans"].chunk(0).values.field("prompt_suffix").values
    start = values.buffers()[1].address
    (record,) = decode(table)
    for span in record.spans:
        address = span.prompt_suffix.__array_interface__["data"][0]
        assert start <= address < start + values.buffers()[1].size
        assert not span.prompt_suffix.flags.writeable


def test_size_is_linear_in_tokens() -> None:
    """Forty turns that repeat their whole history store every id once."""
    record = TrialRecord(spans=long_chat(40, 10))
    values = encode([record])["spans"].chunk(0).values
    assert len(values.field("prompt_suffix").values) == 400
    assert len(values.field("sampled_token_ids").values) == 400


def test_microseconds_survive() -> None:
    moment = datetime.fromisoformat("2025-11-29T15:40:19.123457+02:00")
    (back,) = decode(encode([TrialRecord(started_at=moment)]))
    assert back.started_at == moment
    assert back.started_at.utcoffset() == timedelta(0)


def test_a_word_of_a_later_version_is_named() -> None:
    table = encode([TrialRecord()])
    i = SCHEMA.get_field_index("completion")
    odd = table.set_column(i, SCHEMA.field(i), pa.array(["half"]))
    with pytest.raises(ValueError, match="'half', which is no Completion"):
        list(decode(odd))
