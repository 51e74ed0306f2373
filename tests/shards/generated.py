"""Generated records, and what makes two of them the same."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from wmo_distill.issues import Issue
from wmo_distill.records import (
    Completeness,
    Completion,
    GradedTests,
    LogprobMode,
    Sampling,
    SegmentInfo,
    SegmentKind,
    SpanSource,
    StopReason,
    TrialRecord,
)
from wmo_distill.shards.ledger import ledger_info
from wmo_distill.shards.manifest import (
    DATASET,
    LedgerTotals,
    Manifest,
    PartInfo,
    Totals,
    dataset_hash,
)
from wmo_distill.shards.schema import LEDGER_FILE, LEDGER_SCHEMA, PARTS_DIR
from wmo_distill.shards.writer import PartWriter
from wmo_distill.tokens import TokenSpan

IDS = st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 5), max_size=6)
LOGPROBS = st.floats(-50, 1) | st.just(math.nan)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MAYBE_TEXT = st.none() | TEXT
INT32 = st.none() | st.integers(-(2**31), 2**31 - 1)
INT64 = st.none() | st.integers(-(2**63), 2**63 - 1)
FLOAT = st.none() | st.floats()
TIME = st.none() | st.datetimes(
    datetime(1, 1, 3),
    datetime(9999, 12, 29),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)


@st.composite
def segment_spans(draw: st.DrawFn, segment: int) -> list[TokenSpan]:
    """A chat that grows, is edited, is cut back or starts anew, with calls left out."""
    spans: list[TokenSpan] = []
    call, history = -1, draw(IDS)
    for _ in range(draw(st.integers(0, 4))):
        call += draw(st.integers(1, 3))
        kept = draw(st.sampled_from([len(history), len(history), 0]) | st.integers(0, 8))
        prompt = history[:kept] + draw(IDS)
        sampled = draw(st.none() | IDS)
        n = len(sampled or [])
        logprobs = None
        if sampled is not None and draw(st.booleans()):
            logprobs = draw(st.lists(LOGPROBS, min_size=n, max_size=n))
        extra = draw(st.none() | st.just('{"ü":[1,2]}') | TEXT)
        spans.append(
            TokenSpan(
                call,
                prompt,
                sampled,
                logprobs,
                segment=segment,
                finish_reason=draw(MAYBE_TEXT),
                versions=draw(st.none() | st.just((("a", 0), ("b", 1))) if n > 1 else st.none()),
                sampling=draw(MAYBE_TEXT),
                used=draw(st.none() | st.booleans()),
                extra=extra,
            )
        )
        history = prompt + (sampled or [])
    return spans


@st.composite
def all_spans(draw: st.DrawFn) -> tuple[TokenSpan, ...]:
    """Up to three segments, in any interleaving that keeps the order within each."""
    segments = [draw(segment_spans(segment)) for segment in range(draw(st.integers(0, 3)))]
    order = draw(st.permutations([i for i, spans in enumerate(segments) for _ in spans]))
    remaining = [iter(spans) for spans in segments]
    return tuple(next(remaining[i]) for i in order)


SAMPLINGS = st.builds(
    Sampling,
    temperature=FLOAT,
    top_p=FLOAT,
    top_k=INT32,
    logprob_mode=st.sampled_from(LogprobMode),
    policy_version=MAYBE_TEXT,
    policy_versions=st.lists(TEXT, max_size=2).map(tuple),
    train_step=INT64,
    tokenizer=MAYBE_TEXT,
    declared=st.lists(TEXT, max_size=2).map(tuple),
    sampling=MAYBE_TEXT,
)
SEGMENTS = st.builds(
    SegmentInfo,
    kind=st.sampled_from(SegmentKind),
    agent=MAYBE_TEXT,
    model=MAYBE_TEXT,
    trainable=st.booleans(),
)
COUNTS = st.integers(0, 2**31 - 1)
RECORDS = st.builds(
    TrialRecord,
    format=TEXT,
    episode_id=TEXT,
    trial_id=MAYBE_TEXT,
    trial_name=TEXT,
    step_name=MAYBE_TEXT,
    step_index=INT32,
    task_id=MAYBE_TEXT,
    task_checksum=MAYBE_TEXT,
    source=MAYBE_TEXT,
    job=MAYBE_TEXT,
    attempt=INT32,
    group_id=TEXT,
    group_expected=INT32,
    regrade_of=MAYBE_TEXT,
    artifact_dir=TEXT,
    agent_name=MAYBE_TEXT,
    agent_version=MAYBE_TEXT,
    model_name=MAYBE_TEXT,
    model_provider=MAYBE_TEXT,
    sampled_with=SAMPLINGS,
    reward=FLOAT,
    rewards=st.dictionaries(TEXT, st.floats(), max_size=3),
    trial_reward=FLOAT,
    trial_reward_valid=st.none() | st.booleans(),
    passed=st.none() | st.booleans(),
    reward_valid=st.none() | st.booleans(),
    infra_failed=st.booleans(),
    tests=st.none() | st.builds(GradedTests, passed=COUNTS, resolved=COUNTS, unresolved=COUNTS),
    note=TEXT,
    stop_reason=st.sampled_from(StopReason) | st.just("a word of a run trace"),
    reference_stop_reason=MAYBE_TEXT,
    completion=st.sampled_from(Completion),
    exception_type=MAYBE_TEXT,
    n_episodes=INT32,
    max_turns=INT32,
    spans=all_spans(),
    segments=st.lists(SEGMENTS, max_size=3).map(tuple),
    span_source=st.sampled_from(SpanSource),
    completeness=st.sampled_from(Completeness),
    issues=st.lists(st.sampled_from(Issue), max_size=4).map(sorted).map(tuple),
    compactions=st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
    started_at=TIME,
    finished_at=TIME,
    agent_seconds=FLOAT,
    verifier_seconds=FLOAT,
    setup_seconds=FLOAT,
    cost_usd=FLOAT,
    cached_tokens=INT64,
)


def contents(record: TrialRecord) -> dict[str, Any]:
    """Every field so that NaN equals NaN, 0.0 differs from -0.0, and 1 from 1.0 and True."""
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    values["spans"] = [
        (
            span.segment,
            span.call_index,
            span.prompt_token_ids.tolist(),
            None if span.sampled_token_ids is None else span.sampled_token_ids.tolist(),
            None if span.sampled_logprobs is None else repr(span.sampled_logprobs.tolist()),
            span.finish_reason,
            span.versions,
            span.sampling,
            span.used,
            span.extra,
        )
        for span in record.spans
    ]
    for name in ("started_at", "finished_at"):
        if values[name] is not None:
            values[name] = values[name].astimezone(UTC).replace(fold=0)
    return {name: value if name == "spans" else repr(value) for name, value in values.items()}


def long_chat(turns: int, step: int, *, extra: str | None = None) -> tuple[TokenSpan, ...]:
    """A clean chat of `turns` calls that each add `step` ids to the prompt and sample `step`."""
    ids = np.arange(2 * turns * step, dtype=np.int32) * 7 % 150_000
    logprobs = -np.linspace(0.001, 4, step)
    spans = []
    for turn in range(turns):
        end = (2 * turn + 1) * step
        spans.append(TokenSpan(turn, ids[:end], ids[end : end + step], logprobs, extra=extra))
    return tuple(spans)


def lawful(name: str, **changes: Any) -> TrialRecord:
    """A record that keeps every invariant, of a trial of that name."""
    spans = changes.pop("spans", long_chat(3, 4, extra='{"a":1}'))
    record = TrialRecord(
        episode_id=name,
        trial_id=name,
        trial_name=name,
        artifact_dir=f"job/{name}",
        group_id="0123456789abcdef",
        reward=1.0,
        rewards={"reward": 1.0},
        trial_reward=1.0,
        trial_reward_valid=True,
        passed=True,
        reward_valid=True,
        stop_reason=StopReason.SUBMITTED,
        completion=Completion.CONFIRMED,
        spans=spans,
        segments=(SegmentInfo(),) if spans else (),
        span_source=SpanSource.RESULT if spans else SpanSource.NONE,
    )
    return replace(record, **changes)


def write_dataset(
    out: Path, parts: Sequence[Sequence[TrialRecord]], options: dict[str, Any] | None = None
) -> Manifest:
    """A dataset of these parts with its ledger, written as a build would."""
    (out / PARTS_DIR).mkdir(parents=True, exist_ok=True)
    infos: list[PartInfo] = []
    rows: Counter[tuple[str, str, str]] = Counter()
    ids = {r.artifact_dir: r.trial_id for records in parts for r in records}
    for number, records in enumerate(parts):
        with PartWriter(out / PARTS_DIR / f"part-{number:05d}.parquet") as part:
            for record in records:
                part.write(record)
        infos.append(part.info)
        rows.update((r.artifact_dir, r.trial_name, part.info.file) for r in records)
    ledger = [
        {
            "path": path,
            "trial_id": ids[path],
            "trial_name": name,
            "bytes": 1,
            "mtime_ns": 2,
            "outcome": "written",
            "reasons": [],
            "records": count,
            "part": file,
        }
        for (path, name, file), count in sorted(rows.items())
    ]
    pq.write_table(pa.Table.from_pylist(ledger, LEDGER_SCHEMA), out / LEDGER_FILE)
    totals = Totals.sum([Totals(), *(info.totals for info in infos)])
    manifest = Manifest(
        parent="/somewhere",
        inputs=["job"],
        options=options or {},
        parts=infos,
        ledger=ledger_info(out / LEDGER_FILE, len(ledger)),
        totals=LedgerTotals(
            **totals.model_dump(),
            found=len(ledger),
            written=len(ledger),
            calls_found=totals.calls + sum(totals.calls_dropped.values()),
        ),
        dataset_hash=dataset_hash(infos),
    )
    DATASET.write(out, manifest)
    return manifest
