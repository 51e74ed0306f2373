"""The owners' own loaders over the files of the bank: the same tokens as in our records.

`make test-sources` installs their packages; without one its tests are skipped. Not among them are
prime-rl and NeMo Gym, which are not on PyPI, and Agent Lightning, which reads no file.
"""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sources.recorder_bank import BANK, runs
from tests.sources.verifiers_bank import (
    ANY_REWARD,
    built,
    said_ids,
    trained_as_by_prime_rl,
)
from wmo_distill import TrialRecord, build, iter_records

Call = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...] | None]
RUNS = sorted(path.name for path in (BANK / "verifiers").glob("0.4.0-*"))
"""Each version of the package reads its own files."""


def said(prompt: Any, sampled: Any, logprobs: Any) -> Call:
    return tuple(prompt), tuple(sampled), None if logprobs is None else tuple(logprobs)


def ours(records: Iterable[TrialRecord]) -> set[Call]:
    """Every call with sampled tokens; those whose log-probabilities are not usable have none."""
    found = set()
    for record in records:
        for span in record.spans:
            if span.sampled_token_ids is not None:
                row = span.sampled_logprobs
                logprobs = None if row is None or np.isnan(row).any() else row.tolist()
                ids = span.sampled_token_ids.tolist()
                found.add(said(span.prompt_token_ids.tolist(), ids, logprobs))
    return found


def same(theirs: set[Call], found: set[Call]) -> None:
    """Equal ids; equal log-probabilities wherever we take them for sound."""
    assert {call[:2] for call in theirs} == {call[:2] for call in found}
    assert {call for call in found if call[2] is not None} <= theirs


def built_run(run: Path, tmp_path: Path) -> list[TrialRecord]:
    build([run], tmp_path / "out", workers=1, reward_range=ANY_REWARD)
    return list(iter_records(tmp_path / "out"))


def episodes_of(run: str) -> list[Any]:
    store = pytest.importorskip("verifiers.v1.utils.trace_store", exc_type=ImportError)
    from verifiers.v1.trace import WireTrace  # type: ignore[import-not-found, unused-ignore]

    files = sorted((BANK / "verifiers" / run).rglob("traces.jsonl"))
    return [episode for file in files for episode in store.read_episodes(file.parent, WireTrace)]


def calls_of(trace: Any) -> set[Call]:
    """The calls along the branches that the package makes of a trace."""
    found = set()
    for branch in trace.branches:
        ids, logprobs, end = list(branch.token_ids), list(branch.logprobs), 0
        for node in branch.nodes:
            end += len(node.token_ids)
            begin = end - sum(node.mask)
            if node.sampled and len(node.token_ids):
                found.add(said(ids[:begin], ids[begin:end], logprobs[begin:end]))
    return found


def sequences_of(trace: Any) -> Counter[Any]:
    """By prime-rl's rules: trainable branches in order, each sampled node in the first of them."""
    found: Counter[Any] = Counter()
    trained: set[int] = set()
    if trace.errors or not trace.agent.trainable or getattr(trace, "dropped", None):
        return found
    for branch in trace.branches:
        if not branch.trainable:
            continue
        positions: list[int] = []
        end = 0
        for node in branch.nodes:
            end += len(node.token_ids)
            if node.sampled and id(node) not in trained:
                trained.add(id(node))
                positions += range(end - sum(node.mask), end)
        if positions:
            logprobs = np.float32([branch.logprobs[at] for at in positions]).tolist()
            found[said_ids(list(branch.token_ids)), tuple(positions), tuple(logprobs)] += 1
    return found


@pytest.mark.parametrize("run", RUNS)
def test_verifiers(run: str, tmp_path: Path) -> None:
    theirs: dict[str, Any] = {t.id: t for episode in episodes_of(run) for t in episode.traces}
    records = built(BANK / "verifiers" / run, tmp_path / "out")
    assert theirs.keys() == {i for i in records if i and not i.startswith("episode:")}
    for trace_id, trace in theirs.items():
        same(calls_of(trace), ours([records[trace_id]]))


@pytest.mark.parametrize("run", RUNS)
def test_verifiers_trained_as_by_prime_rl(run: str, tmp_path: Path) -> None:
    traces = {t.id: t for episode in episodes_of(run) for t in episode.traces}
    expected = {i: found for i, trace in traces.items() if (found := sequences_of(trace))}
    records = built(BANK / "verifiers" / run, tmp_path / "out", declare={"logprob_mode": "raw"})
    found = trained_as_by_prime_rl(tmp_path / "out", tmp_path / "datums")
    assert {i: found.get(i) for i in expected} == expected
    others = found.keys() - expected.keys()
    assert all(records[i].exception_type or traces[i].errors for i in others)


@pytest.mark.parametrize("run", runs("tinker-capture"), ids=lambda run: run.name)
def test_tinker_cookbook(run: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    if (run / "capture.sqlite").exists():
        db = pytest.importorskip("tinker_cookbook.capture.store.db", exc_type=ImportError)
        store = db.CaptureDB(shutil.copytree(run, tmp_path / "copy") / "capture.sqlite")
        for one in store.list_runs():
            rows += store.query_rows(one.run_id)
        store.close()
    else:
        client = pytest.importorskip("tinker_cookbook.capture.store.client", exc_type=ImportError)
        for line in (run / "capture/sample.jsonl").read_text().splitlines():
            try:
                rows += client.wire_rows_from_sample_record(json.loads(line))
            except json.JSONDecodeError:
                assert run.name == "jsonl-torn"
    theirs = {
        said(row["prompt_tokens"], row["sampled_tokens"], row["logprobs"])
        for row in rows
        if row["prompt_tokens"] is not None and row["sampled_tokens"] is not None
    }
    same(theirs, ours(built_run(run, tmp_path)))


@pytest.mark.parametrize("run", runs("rllm-gateway"), ids=lambda run: run.name)
def test_rllm_gateway(run: Path, tmp_path: Path) -> None:
    owner = pytest.importorskip("rllm_model_gateway.store.sqlite_store", exc_type=ImportError)
    file = shutil.copytree(run, tmp_path / "copy") / "gateway_traces.db"

    async def read() -> list[dict[str, Any]]:
        store = owner.SqliteTraceStore(str(file))
        sessions = [one["session_id"] for one in await store.list_sessions()]
        found = [trace for one in sessions for trace in await store.get_session_traces(one)]
        await store.close()
        return found

    theirs = {
        said(trace["prompt_token_ids"], trace["completion_token_ids"], trace["logprobs"])
        for trace in asyncio.run(read())
        if trace["prompt_token_ids"]
    }
    found = ours(built_run(run, tmp_path))
    assert {call[:2] for call in theirs} == {call[:2] for call in found}
    # Lists that lost their nulls are read from elsewhere.
    whole = {call for call in theirs if call[2] is None or len(call[2]) == len(call[1])}
    assert {call for call in whole if call[2] is not None} <= found


@pytest.mark.parametrize("run", runs("openenv-capture"), ids=lambda run: run.name)
def test_openenv(run: Path, tmp_path: Path) -> None:
    models = pytest.importorskip("openenv.harbor.models", exc_type=ImportError)
    turns: list[Any] = []
    for file in run.glob("*.rollout.json"):
        turns += models.turns_from_document(json.loads(file.read_text()))
    for file in run.glob("results.json"):
        for value in json.loads(file.read_text()):
            turns += models.HarborRolloutResult.model_validate(value).turns
    theirs = {
        said(turn.prompt_token_ids, turn.completion_token_ids, turn.per_token_logps)
        for turn in turns
        if turn.prompt_token_ids
    }
    records = built_run(run, tmp_path)
    found = ours(records)
    # It leaves out auxiliary calls and answers that were passed over.
    assert {call[:2] for call in theirs} <= {call[:2] for call in found}
    main = {
        (tuple(span.prompt_token_ids.tolist()), tuple(span.sampled.tolist()))
        for record in records
        for span in record.spans
        if span.segment == 0
    }
    assert main <= {call[:2] for call in theirs}
    known = {call[:2] for call in theirs}
    assert {call for call in found if call[2] is not None and call[:2] in known} <= theirs


@pytest.mark.parametrize(
    "file",
    sorted((BANK / "openenv-capture").rglob("*.trace_entries.json")),
    ids=lambda f: f.parent.name,
)
def test_openenv_trace_entries(file: Path, tmp_path: Path) -> None:
    training = pytest.importorskip("openenv.core.harness.training", exc_type=ImportError)
    trace = training.TrainingTrace.from_entries(json.loads(file.read_text())["entries"])
    theirs = {
        said(turn.prompt_token_ids, turn.completion_token_ids, turn.per_token_logps)
        for turn in trace.turns
    }
    (tmp_path / "run").mkdir()
    shutil.copy(file, tmp_path / "run")
    same(theirs, ours(built_run(tmp_path / "run", tmp_path)))
