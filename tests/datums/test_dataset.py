"""Datum shards read back hold what was built."""

import dataclasses
import typing
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.build import record_datums
from wmo_distill.datums.dataset import DatumRow, iter_datums
from wmo_distill.datums.datum import Account, Drop, TrainDatum
from wmo_distill.datums.manifest import read_datum_manifest
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.table import DATUM_SCHEMA
from wmo_distill.errors import UsageError
from wmo_distill.outputs.manifest import MANIFEST
from wmo_distill.records import TrialRecord
from wmo_distill.shards.scan import iter_records
from wmo_distill.tokens import TokenSpan


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    return bool(a == b)


def differences(a: TrainDatum, b: TrainDatum) -> list[str]:
    return [f.name for f in fields(TrainDatum) if not same(getattr(a, f.name), getattr(b, f.name))]


@pytest.mark.parametrize(
    "options",
    [
        DatumOptions(),
        DatumOptions(purpose="sft"),
        DatumOptions(advantages="centered", subagents=True),
        DatumOptions(context_budget=1500),
        DatumOptions(max_datum_tokens=2000),
    ],
)
def test_shards_hold_the_datums_of_the_records(
    dataset: Path, tmp_path: Path, options: DatumOptions
) -> None:
    build_datum_shards(dataset, tmp_path / "d", options)
    got = [row.datum for row in iter_datums(tmp_path / "d")]
    account = Account()
    built = [
        datum
        for record in iter_records(dataset)
        for datum in record_datums(record, options, account)
    ]
    assert len(got) == len(built) > 20
    for one, other in zip(got, built, strict=True):
        assert not set(differences(one, other)) - {"advantages"}


def test_values_are_the_columns(dataset: Path, tmp_path: Path) -> None:
    build_datum_shards(dataset, tmp_path / "d")
    row = next(iter(iter_datums(tmp_path / "d")))
    record = next(r for r in iter_records(dataset) if r.episode_id == row.datum.episode_id)
    assert row.reward == record.reward
    assert row.attempt == record.attempt
    assert row.stop_reason == str(record.stop_reason)


IDS = st.lists(st.integers(0, 5), max_size=4)


@st.composite
def records(draw: st.DrawFn) -> TrialRecord:
    """Chats that mostly extend, now and then break, lose log-probabilities or say nothing."""
    spans: list[TokenSpan] = []
    for segment in range(draw(st.integers(1, 2))):
        history: list[int] = []
        for call in range(draw(st.integers(0, 4))):
            kept = len(history) if draw(st.integers(0, 5)) else draw(st.integers(0, len(history)))
            prompt = history[:kept] + draw(IDS)
            sampled = draw(st.none() | IDS | IDS | IDS)
            logprobs: Sequence[float] | None = None
            if sampled is not None and draw(st.integers(0, 9)):
                values = st.sampled_from([-0.5, -1.0, float("nan"), -999.9, -1000.0, -1e16])
                few = values if draw(st.integers(0, 4)) == 0 else st.just(-0.25)
                logprobs = draw(st.lists(few, min_size=len(sampled), max_size=len(sampled)))
            reason = draw(st.sampled_from([None, "stop", "length"]))
            spans.append(
                TokenSpan(call, prompt, sampled, logprobs, segment=segment, finish_reason=reason)
            )
            history = prompt + (sampled or [])
    return TrialRecord(episode_id="e", trial_name="t", spans=tuple(spans))


@given(
    records(),
    st.builds(
        DatumOptions,
        purpose=st.sampled_from(["rl", "sft"]),
        subagents=st.booleans(),
        reopen=st.booleans(),
        reference=st.booleans(),
    ),
)
def test_datums_are_what_plain_lists_give(record: TrialRecord, rules: DatumOptions) -> None:
    account = Account()
    found = record_datums(record, rules, account)
    expected, lost = plainly(record, rules)
    assert [repr(shown(datum)) for datum in found] == list(map(repr, expected))
    limits = {reason: n for reason, n in account.dropped_tokens.items() if reason != Drop.SILENT}
    assert sum(limits.values()) == lost


def shown(datum: TrainDatum) -> tuple[Any, ...]:
    return (
        datum.segment,
        datum.token_ids.tolist(),
        datum.loss_mask.tolist(),
        datum.sampled_logprobs.tolist(),
        list(zip(datum.call_starts, datum.call_lengths, datum.finish_reasons, strict=True)),
    )


def plainly(record: TrialRecord, rules: DatumOptions) -> tuple[list[tuple[Any, ...]], int]:
    """The datums of a record, id by id, and how many sampled ids are not trained."""
    datums: list[tuple[Any, ...]] = []
    lost = 0
    strict = rules.purpose == "rl" and not rules.reference
    for segment in sorted({span.segment for span in record.spans}):
        calls = [span for span in record.spans if span.segment == segment]
        if segment and not rules.subagents:
            lost += 0 if rules.reference else sum(span.sampled.size for span in calls)
            continue
        fragments: list[list[tuple[int, bool, float]]] = []
        ends: list[list[tuple[int, int, str | None]]] = []
        open_ = -1
        for span in calls:
            prompt = span.prompt_token_ids.tolist()
            sizes = [
                len(f) if f and [i for i, *_ in f] == prompt[: len(f)] else 0 for f in fragments
            ]
            if not (fragments and sizes[open_]):
                best = max(sizes, default=0) if rules.reopen else 0
                open_ = max(k for k, n in enumerate(sizes) if n == best) if best else len(fragments)
                if not best:
                    fragments.append([])
                    ends.append([])
            one = fragments[open_]
            one += [(i, False, 0.0) for i in prompt[len(one) :]]
            if span.sampled.size:
                ends[open_].append((len(one), span.sampled.size, span.finish_reason))
            logprobs = span.sampled_logprobs
            for k, i in enumerate(span.sampled.tolist()):
                value = float("nan") if logprobs is None else float(logprobs[k])
                trained = not strict or value > IMPLAUSIBLE_LOGPROB
                lost += not trained
                one.append((i, trained, value if trained else 0.0))
        datums += [
            (segment, *map(list, zip(*one, strict=True)), end)
            for one, end in zip(fragments, ends, strict=True)
            if any(trained for _, trained, _ in one)
        ]
    return datums, lost


def test_what_is_no_datum_directory_is_reported(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected the manifest of datums"):
        read_datum_manifest(dataset)
    with pytest.raises(UsageError, match="found: No such file"):
        next(iter_datums(tmp_path / "none"))
    build_datum_shards(dataset, tmp_path / "d")
    text = (tmp_path / "d" / MANIFEST).read_text()
    (tmp_path / "d" / MANIFEST).write_text(
        text.replace('"schema_version": 2', '"schema_version": 1')
    )
    with pytest.raises(UsageError, match=r"found 1 .*make the datums again"):
        read_datum_manifest(tmp_path / "d")


def test_a_row_has_a_field_for_every_column() -> None:
    """Typed as the column: an integer column is an int, a nullable one may be None."""
    kinds = {"string": str, "int32": int, "int64": int, "double": float, "bool": bool}
    hints = typing.get_type_hints(DatumRow)
    fields = {*hints} | {field.name for field in dataclasses.fields(TrainDatum)}
    assert {*DATUM_SCHEMA.names} <= fields
    for field in DATUM_SCHEMA:
        if field.name in hints and str(field.type) in kinds:
            kind = kinds[str(field.type)]
            assert hints[field.name] == (kind | None if field.nullable else kind), field.name
