"""The bank of recorders' files in fixtures/, a run at a time: what a build makes of it."""

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from wmo_distill import BuildOptions, build, iter_records, verify
from wmo_distill.records import ReadTrial, TrialRecord
from wmo_distill.sources.finding import discover
from wmo_distill.tokens import TokenSpan
from wmo_distill.trial import read_found

BANK = Path(__file__).parents[2] / "fixtures/recorders"
Ids = tuple[int, ...]
Damage = list[tuple[float, bytes]]
DAMAGE = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
)


def runs(recorder: str) -> list[Path]:
    found = sorted(path.parent for path in (BANK / recorder).glob("*/expected.json"))
    assert found
    return found


def copied(run: Path, to: Path) -> Path:
    """The files of a run without the answers."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("expected.json"))
    return to


def read_all(folder: Path) -> list[ReadTrial]:
    return [read_found(trial, BuildOptions()) for trial in discover([folder]).trials]


@dataclass(frozen=True)
class Sampled:
    """One call as the toy policy sampled it."""

    rollout: int
    reward: float | None
    call: dict[str, Any]

    @property
    def ids(self) -> tuple[Ids, Ids]:
        return tuple(self.call["prompt_ids"] or ()), tuple(self.call["sampled_ids"] or ())


def sampled(run: Path) -> list[Sampled]:
    expected = json.loads((run / "expected.json").read_text())
    return [
        Sampled(number, rollout["reward"], call)
        for number, rollout in enumerate(expected["rollouts"])
        for call in rollout["calls"]
    ]


def span_ids(span: TokenSpan) -> tuple[Ids, Ids]:
    return tuple(span.prompt_token_ids.tolist()), tuple(span.sampled.tolist())


def check(run: Path, tmp_path: Path, *, unseen: int = 0, apart: bool = False) -> list[TrialRecord]:
    """Every kept call once, every lost one but `unseen` counted, nothing else; gives the records.

    `apart`: alternatives of one prompt have a segment each.
    """
    folder, out = copied(run, tmp_path / run.name), tmp_path / "out"
    summary = build([folder], out, workers=1)
    assert verify(out) == []
    records = list(iter_records(out))
    spans: dict[tuple[Ids, Ids], list[tuple[TrialRecord, TokenSpan]]] = defaultdict(list)
    for record in records:
        for span in record.spans:
            spans[span_ids(span)].append((record, span))
    segments: dict[str, dict[int, str]] = defaultdict(dict)
    episodes: dict[int, set[str]] = defaultdict(set)
    calls = sampled(run)
    kept = [call for call in calls if call.call["fate"] == "kept"]
    for call in kept:
        ((record, span),) = spans.pop(call.ids)
        check_call(call, record, span)
        episodes[call.rollout].add(record.episode_id)
        if span.used is not False:
            lineage = call.call["lineage"]
            lineage += str(call.call.get("sample_idx", "")) if apart else ""
            assert segments[record.episode_id].setdefault(span.segment, lineage) == lineage
    assert not spans
    assert all(len(found) == 1 for found in episodes.values())
    assert len(set.union(*episodes.values())) == len(episodes) == len(records)
    for found in segments.values():
        assert len(set(found.values())) == len(found)
        assert apart or found[0] == "main"
    lost = sum(call.call["fate"] == "lost" for call in calls) - unseen
    dropped = dict(summary.calls_dropped)
    for harmless in ("duplicate", "call_failed"):
        dropped.pop(harmless, None)
    assert sum(dropped.values()) == lost
    assert {str(record.completeness) for record in records} == {"incomplete" if lost else "silent"}
    assert build([folder], out, workers=1).read == 0
    return records


def check_call(call: Sampled, record: TrialRecord, span: TokenSpan) -> None:
    expected = call.call
    assert record.reward == call.reward
    assert span.finish_reason == expected["finish_reason"]
    if expected["sampled_ids"]:  # a version is that of sampled ids
        version = None if expected["version"] is None else ((str(expected["version"]), 0),)
        assert span.versions == version
    if expected.get("superseded") is True:
        assert span.used is False
    values = expected["logprobs"]
    if values is None:
        assert span.sampled_logprobs is None
    elif values:
        assert span.sampled_logprobs is not None
        wanted = [float("nan") if value in (None, "NaN") else value for value in values]
        np.testing.assert_array_equal(span.sampled_logprobs, wanted)


def check_damaged(folder: Path, known: Iterable[Sampled]) -> None:
    """Reading raises nothing, invents nothing, and every call found is kept or dropped."""
    calls = list(known)
    prompts, answers = {call.ids[0] for call in calls}, {call.ids[1] for call in calls} | {()}
    for read in read_all(folder):
        kept = sum(len(record.spans) for record in read.records)
        assert kept + sum(read.calls_dropped.values()) == read.calls_found
        for record in read.records:
            for span in record.spans:
                prompt, answer = span_ids(span)
                assert prompt in prompts
                assert answer in answers


def damaged(data: bytes, damage: Damage, kept: float) -> bytes:
    """Bytes overwritten and the end cut off; a number that stays one would be another token."""
    changed = bytearray(data)
    for place, new in damage:
        start = int(place * len(data))
        new = bytes(b | 0x80 if chr(b).isdigit() or chr(b).isspace() else b for b in new)
        changed[start : start + len(new)] = new
    return bytes(changed[: int(kept * len(data))])
