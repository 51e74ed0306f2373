"""The bank of recorders' files, a rollout at a time: its record against what was sampled."""

import json
import math
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from wmo_distill import TokenSpan, TrialRecord, build, iter_records, verify

Change = Callable[[Any], None]


def copied(run: Path, to: Path) -> Path:
    """The files of a run without what is expected of it."""
    shutil.copytree(run, to / run.name, ignore=shutil.ignore_patterns("expected.json"))
    return to / run.name


def expected(run: Path) -> list[dict[str, Any]]:
    rollouts: list[dict[str, Any]] = json.loads((run / "expected.json").read_text())["rollouts"]
    return rollouts


def built(paths: Sequence[Path], out: Path, **options: Any) -> list[TrialRecord]:
    build(paths, out, workers=1, **options)
    assert verify(out) == []
    return list(iter_records(out))


def edited(run: Path, name: str, tmp: Path, change: Change) -> TrialRecord:
    """The first record of a run after a change to its JSON file `name`."""
    source = copied(run, tmp)
    value = json.loads((source / name).read_text())
    change(value)
    (source / name).write_text(json.dumps(value))
    return built([source], tmp / "out")[0]


def parts(out: Path) -> dict[str, bytes]:
    """The bytes of a dataset's parts and ledger by name."""
    return {path.name: path.read_bytes() for path in sorted(out.rglob("*.parquet"))}


def of_rollout(records: Iterable[TrialRecord], rollout: str) -> TrialRecord:
    found = [r for r in records if r.trial_id and r.trial_id.rsplit("/", 1)[-1] == rollout]
    assert len(found) == 1, rollout
    return found[0]


def check_rollout(record: TrialRecord, rollout: dict[str, Any]) -> None:
    """Each kept call once and as sampled, each lineage a segment, each lost call counted."""
    left = list(record.spans)
    lineages: dict[str, set[int]] = {}
    kept = [call for call in rollout["calls"] if call["fate"] == "kept"]
    for call in kept:
        span = next(span for span in left if _is_call(span, call))
        left = [other for other in left if other is not span]
        assert _logprobs(span) == _wanted(call), call["call"]
        assert span.finish_reason == call["finish_reason"]
        if call["version"] is not None and len(span.sampled):
            versions = span.versions or ((record.sampled_with.policy_version, 0),)
            assert versions == ((str(call["version"]), 0),)
        if call.get("superseded") is True:
            assert span.used is False
        elif "superseded" not in call:
            lineages.setdefault(call["lineage"], set()).add(span.segment)
    assert left == []
    assert all(len(segments) == 1 for segments in lineages.values())
    assert len({min(segments) for segments in lineages.values()}) == len(lineages)
    lost = sum(call["fate"] == "lost" for call in rollout["calls"])
    assert sum(issue.drops_call for issue in record.issues) == lost
    if rollout.get("incomplete"):
        assert record.completeness == "incomplete"
    assert record.reward == rollout["reward"]


def _is_call(span: TokenSpan, call: dict[str, Any]) -> bool:
    prompt, sampled = span.prompt_token_ids.tolist(), span.sampled.tolist()
    return bool(prompt == call["prompt_ids"] and sampled == call["sampled_ids"])


def _logprobs(span: TokenSpan) -> list[float | None] | None:
    if span.sampled_logprobs is None:
        return None
    return [None if math.isnan(x) else x for x in span.sampled_logprobs.tolist()]


def _wanted(call: dict[str, Any]) -> list[float | None] | None:
    if call.get("usable_logprobs") is False or call["logprobs"] is None:
        return None
    return [None if x == "NaN" else x for x in call["logprobs"]]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes cut short, or with bytes that are no digits replaced by others that are none.

    A digit in place of another is a sound file that says something else.
    """
    if rng.random() < 0.2:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data))
        if not data[at : at + 1].isdigit():
            changed[at] = rng.choice(b'{}[]",:. \\x-e\xff')
    return bytes(changed)


def ids_of(rollouts: Iterable[dict[str, Any]]) -> set[int]:
    calls = [call for rollout in rollouts for call in rollout["calls"]]
    return {x for call in calls for x in (*call["prompt_ids"], *(call["sampled_ids"] or ()))}


def check_damage(run: Path, tmp: Path, tries: int) -> None:
    """No damage raises, loses a trial without a row or gives an id that nobody sampled."""
    rng = random.Random(run.name)
    known = ids_of(expected(run))
    source = copied(run, tmp / "in")
    files = {path: path.read_bytes() for path in sorted(source.iterdir())}
    for attempt in range(tries):
        for path, data in files.items():
            path.write_bytes(damaged(data, rng) if rng.random() < 0.7 else data)
        out = tmp / f"out{attempt}"
        summary = build([source], out, workers=1)
        assert summary.found == summary.written + sum(summary.skipped.values())
        assert verify(out) == []
        for record in iter_records(out):
            for span in record.spans:
                assert known.issuperset(span.prompt_token_ids.tolist())
                assert known.issuperset(span.sampled.tolist())
