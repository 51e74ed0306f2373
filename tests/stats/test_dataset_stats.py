"""Statistics of datasets against counts by hand, from records and from Parquet alone."""

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmo_distill
from tests.effort import examples
from tests.shards.generated import RECORDS, lawful, long_chat, write_dataset
from wmo_distill.errors import UsageError
from wmo_distill.records import Sampling, TrialRecord
from wmo_distill.shards.encode import encode
from wmo_distill.shards.scan import scan
from wmo_distill.stats.calls import MainCalls
from wmo_distill.stats.rollout import RolloutStats, dataset_stats, rollout_stats
from wmo_distill.tokens import TokenSpan


def main_calls(row: dict[str, Any]) -> list[tuple[list[int], dict[str, Any]]]:
    """The main chat's calls with their whole prompts, from the columns as docs/records.md says."""
    calls = []
    before: list[int] = []
    for span in row["spans"]:
        if span["segment"] == 0:
            prompt = before[: span["prefix_len"]] + span["prompt_suffix"]
            calls.append((prompt, span))
            before = prompt + (span["sampled_token_ids"] or [])
    return calls


def test_the_fixtures_by_pyarrow_alone(dataset: Path) -> None:
    """No code of ours reads them; the fixtures hold no regrade, so that every row counts."""
    rows = pq.read_table(dataset / "parts").to_pylist()
    stats = dataset_stats(dataset)
    chats = [calls for row in rows if row["spans"] and (calls := main_calls(row))]
    sampled = [sum(len(s["sampled_token_ids"] or []) for _, s in calls) for calls in chats]
    turns = [len(calls) for calls in chats]
    logprobs = [
        x
        for calls in chats
        for _, s in calls
        for x in s["sampled_logprobs"] or []
        if x is not None and x > -1000
    ]
    broken = sum(
        p[: len(q) + len(s["sampled_token_ids"] or [])] != q + (s["sampled_token_ids"] or [])
        for calls in chats
        for (q, s), (p, _) in pairwise(calls)
    )
    got = stats.distributions
    assert (stats.records, got["turns"].count) == (len(rows), len(chats)) == (53, 45)
    for name, values in (("sampled_tokens", sampled), ("turns", turns)):
        assert got[name].p50 == median(values)
        assert got[name].mean == sum(values) / len(values)
        assert (got[name].low, got[name].high) == (min(values), max(values))
    assert got["logprob"].count == len(logprobs) == 11_611
    assert got["logprob"].missing == sum(sampled) - len(logprobs)
    assert got["logprob"].mean == pytest.approx(sum(logprobs) / len(logprobs))
    for q in (10, 50, 90):
        exact = np.percentile(logprobs, q)
        assert getattr(got["logprob"], f"p{q}") == pytest.approx(exact, rel=2e-3)
    assert sum(stats.breaks.values()) == broken == 8
    for at in stats.context:
        prompts = [len(calls[at.turn - 1][0]) for calls in chats if len(calls) >= at.turn]
        assert at.episodes == len(prompts)
        assert [at.p10, at.p50, at.p90] == np.quantile(prompts, (0.1, 0.5, 0.9)).tolist()
    assert [one.turn for one in stats.context] == list(range(1, max(turns) + 1))
    ledger = pq.read_table(dataset / "ledger.parquet").to_pylist()
    assert stats.found is not None
    assert stats.found.trials == len(ledger)
    assert stats.found.calls_kept == sum(len(row["spans"]) for row in rows)
    assert stats.found.calls_found == stats.found.calls_kept + sum(stats.found.dropped.values())


RANDOM = st.lists(
    RECORDS.map(lambda r: replace(r, sampled_with=replace(r.sampled_with, sampling=None))),
    max_size=5,
)


@settings(max_examples=examples(40))
@given(records=RANDOM)
def test_any_records_by_hand(records: list[TrialRecord], tmp_path_factory: Any) -> None:
    records = [
        replace(
            r,
            episode_id=f"e{i}", trial_id=f"e{i}", artifact_dir=f"e{i}", regrade_of=None,
            spans=tuple(replaced(s) for s in r.spans),
        )
        for i, r in enumerate(records)
    ]  # fmt: skip
    out = tmp_path_factory.mktemp("any")
    write_dataset(out, [records[:2], records[2:]])
    got = dataset_stats(out, by=["stop_reason"], max_tokens=2)
    by_frame = rollout_stats(scan(out), by=["stop_reason"], max_tokens=2)
    assert by_frame == got.model_copy(update={"found": None})
    chats = [chat for r in records if (chat := r.chats.get(0)) is not None]
    assert got.funnel.with_spans == got.distributions["turns"].count == len(chats)
    assert sum(got.spanless.values()) == len(records) - len(chats)
    assert got.tokens.calls == sum(map(len, chats))
    assert got.tokens.output == sum(chat.n_sampled for chat in chats)
    values = [x for chat in chats for x in chat.sampled_logprobs.flat.tolist()]
    good = [x for x in values if math.isfinite(x) and -1000 < x < 1000]
    assert got.funnel.sampled_tokens_with_logprobs == len(good)
    assert got.health.scored_tokens == got.distributions["logprob"].count == len(good)
    assert sum(one.records for one in got.by) == len(records)
    assert got.measured == sum(r.measured for r in records)
    assert got.issues == dict(
        sorted(Counter(c.value for r in records for c in r.issues).items(),
            key=lambda pair: (-pair[1], pair[0]))
    )  # fmt: skip
    seconds = [r.agent_seconds for r in records if r.agent_seconds is not None]
    assert got.distributions["agent_seconds"].count == sum(
        math.isfinite(x) and 0 <= x < 1e9 for x in seconds
    )
    versions = Counter(version_of(r.sampled_with) for r in records)
    assert {s.values["policy_version"]: s.records for s in got.versions} == versions
    json.loads(got.model_dump_json())


def version_of(sampling: Sampling) -> str | None:
    if sampling.policy_version is not None:
        return sampling.policy_version
    return ", ".join(sampling.policy_versions) if sampling.policy_versions else None


def replaced(span: TokenSpan) -> TokenSpan:
    return TokenSpan(
        span.call_index, span.prompt_token_ids, span.sampled_token_ids, span.sampled_logprobs,
        segment=span.segment, finish_reason=span.finish_reason, versions=span.versions,
    )  # fmt: skip


def scored(name: str, step: int | None, **changes: Any) -> TrialRecord:
    return lawful(name, sampled_with=Sampling(train_step=step), **changes)


def test_staleness_is_the_distance_to_the_newest_step(tmp_path: Path) -> None:
    rows = [scored("a", 10), scored("b", 7), scored("c", None), scored("d", 99, spans=())]
    write_dataset(tmp_path, [rows])
    found = dataset_stats(tmp_path).staleness
    assert found is not None
    assert (found.count, found.missing, found.low, found.high) == (2, 1, 89, 92)


def odd(stats: RolloutStats) -> dict[str, Any]:
    """The headline numbers: rates, medians, quantiles, means."""
    apart = {"found", "issues", "worst", "groups", "funnel", "tokens"}
    return stats.model_dump(exclude=apart)


@pytest.mark.parametrize("value", [-5e16, -1e300, 5e16])
def test_one_absurd_value_moves_no_headline_number(tmp_path: Path, value: float) -> None:
    """Of eight episodes of ten tokens one value is absurd; the same dataset, where it is null."""
    chat = long_chat(2, 5)

    def with_value(one: float) -> tuple[TokenSpan, ...]:
        first = chat[0].sampled_logprobs
        assert first is not None
        values = [one, *first.tolist()[1:]]
        span = chat[0]
        return (TokenSpan(0, span.prompt_token_ids, span.sampled_token_ids, values), *chat[1:])

    def stats(one: float, seconds: float | None) -> RolloutStats:
        out = tmp_path / f"{one}"
        rows = [lawful(f"t{i}", spans=chat, agent_seconds=float(i)) for i in range(7)]
        rows.append(lawful("odd", spans=with_value(one), agent_seconds=seconds))
        write_dataset(out, [rows])
        return dataset_stats(out)

    got, clean = stats(value, abs(value)), stats(math.nan, None)
    assert got.distributions["logprob"].implausible == 1
    assert got.distributions["agent_seconds"].implausible == 1
    assert clean.distributions["logprob"].implausible == 0
    for dump in (one := odd(got), other := odd(clean)):
        for found in dump["distributions"].values():
            found["implausible"] = found["missing"] = 0
    assert one == other
    (worst,) = got.worst
    assert (worst.trial_name, worst.reasons) == ("odd", {"logprob_implausible": 1})


def test_the_worst_come_first_and_none_of_them_is_sound(tmp_path: Path) -> None:
    rows = [
        lawful("sound"),
        lawful("noted", issues=("time_without_zone",)),
        lawful("ended", stop_reason="session_died"),
        lawful("broken", spans=(*long_chat(1, 4), TokenSpan(1, [1, 2], [3], [-0.1]))),
        lawful("damaged", issues=("lists_misaligned",)),
        lawful("lost", issues=("call_lost", "call_lost", "lists_misaligned")),
        lawful("lost-less", issues=("call_lost",)),
    ]
    rows = [replace(r, issues=tuple(wmo_distill.Issue(c) for c in r.issues)) for r in rows]
    write_dataset(tmp_path, [rows])
    got = [(w.trial_name, w.reasons) for w in dataset_stats(tmp_path).worst]
    assert got == [
        ("lost", {"call_lost": 2, "lists_misaligned": 1}),
        ("lost-less", {"call_lost": 1}),
        ("damaged", {"lists_misaligned": 1}),
        ("broken", {"break: rewritten_history": 1}),
        ("ended", {"ending: session_died": 1}),
    ]


def test_by_columns(dataset: Path) -> None:
    stats = dataset_stats(dataset, by=["stop_reason,infra_failed", "stop_reason"])
    rows = pq.read_table(dataset / "parts", columns=["stop_reason", "infra_failed"]).to_pylist()
    pairs = Counter((row["stop_reason"], row["infra_failed"]) for row in rows)
    assert {tuple(one.values.values()): one.records for one in stats.by} == pairs
    assert [one.value for one in stats.by][:2] == ["budget, False", "cancelled, True"]
    assert sum(one.solve_rate.denominator for one in stats.by) == stats.solve_rate.denominator
    with pytest.raises(UsageError, match=r'--by: expected columns .* found "tests"; the columns'):
        dataset_stats(dataset, by=["tests"])


def test_the_rows_of_a_batch_that_was_cut_are_its_own() -> None:
    """Arrow arrays that begin within a buffer, as slices and filtered batches do."""
    records = [lawful(f"t{i}", spans=long_chat(i + 1, 3)) for i in range(5)]
    spans = encode(records).column("spans").combine_chunks()
    whole = MainCalls.of(spans, 5)
    for start in range(5):
        part = MainCalls.of(spans.slice(start, 2), len(spans.slice(start, 2)))
        wanted = np.isin(whole.row, [start, start + 1])
        assert part.prompt.tolist() == whole.prompt[wanted].tolist()
        assert part.turn.tolist() == whole.turn[wanted].tolist()
        tokens = np.isin(whole.logprob_row, [start, start + 1])
        assert part.logprobs.tolist() == whole.logprobs[tokens].tolist()
    assert MainCalls.of(pa.array([], spans.type), 0).row.size == 0
