"""Datum shards read back hold what was built."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wmo_distill
from wmo_distill.datums.build import record_datums
from wmo_distill.datums.clean import clean_rows
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.datum import Account, Drop, TrainDatum
from wmo_distill.datums.manifest import read_datum_manifest
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards, dataset_groups
from wmo_distill.datums.stream import Funnel, iter_rows
from wmo_distill.errors import UsageError
from wmo_distill.outputs.manifest import MANIFEST
from wmo_distill.records import TrialRecord
from wmo_distill.shards.decode import SpanColumns
from wmo_distill.shards.encode import encode
from wmo_distill.shards.scan import iter_records
from wmo_distill.tokens import TokenSpan

TRIALS = Path(__file__).parents[2] / "fixtures/trials"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dataset") / "shards"
    wmo_distill.build([TRIALS], out, workers=1)
    return out


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
def test_round_trip_and_both_ways_agree(
    dataset: Path, tmp_path: Path, options: DatumOptions
) -> None:
    build_datum_shards(dataset, tmp_path / "d", options)
    got = [row.datum for row in iter_datums(tmp_path / "d")]
    account = Account()
    slow = [
        datum
        for record in iter_records(dataset)
        for datum in record_datums(record, options, account)
    ]
    assert len(got) == len(slow) > 20
    for one, other in zip(got, slow, strict=True):
        assert not set(differences(one, other)) - {"advantages"}


def test_values_are_the_columns(dataset: Path, tmp_path: Path) -> None:
    build_datum_shards(dataset, tmp_path / "d")
    row = next(iter(iter_datums(tmp_path / "d")))
    record = next(r for r in iter_records(dataset) if r.episode_id == row.datum.episode_id)
    assert row.values["reward"] == record.reward
    assert row.values["attempt"] == record.attempt
    assert row.values["stop_reason"] == str(record.stop_reason)
    assert "token_ids" not in row.values


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
    st.lists(records(), min_size=1, max_size=5),
    st.builds(
        DatumOptions,
        context_budget=st.none() | st.integers(1, 12),
        max_datum_tokens=st.none() | st.integers(2, 12),
        purpose=st.sampled_from(["rl", "sft"]),
        budget_rule=st.sampled_from(["prompt", "sequence"]),
        subagents=st.booleans(),
        reopen=st.booleans(),
        reference=st.booleans(),
    ),
)
def test_a_clean_row_is_what_the_record_gives(
    given_records: list[TrialRecord], rules: DatumOptions
) -> None:
    batch = encode(given_records).to_batches()[0]
    found = clean_rows(SpanColumns.of(batch.column("spans")), rules)
    for at, record in enumerate(given_records):
        if at not in found:
            continue
        account = Account()
        (datum,) = record_datums(record, rules, account)
        clean = found[at]
        assert same(clean.token_ids, datum.token_ids)
        assert same(clean.loss_mask, datum.loss_mask)
        assert same(clean.sampled_logprobs, datum.sampled_logprobs)
        assert clean.call_starts == datum.call_starts
        assert clean.call_lengths == datum.call_lengths
        assert clean.finish_reasons == datum.finish_reasons
        assert datum.ends_chat
        assert datum.break_cause is None
        others = {Drop.SUBAGENT: clean.subagent_tokens} if clean.subagent_tokens else {}
        assert account.dropped_tokens == others


def test_most_rows_are_clean(dataset: Path) -> None:
    """The quick way is the one that is taken."""
    counted = Funnel()
    _, groups = dataset_groups(dataset, DatumOptions())
    rows = [row for rows in iter_rows(dataset, DatumOptions(), groups, counted) for row in rows]
    views = [row for row in rows if row.datum.token_ids.base is not None]
    assert len(views) > len(rows) / 2


def test_what_is_no_datum_directory_is_told(dataset: Path, tmp_path: Path) -> None:
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
