"""A declared value never takes the place of a recorded one, whatever the format."""

from pathlib import Path
from typing import Any

import pytest

import wmo_distill
from wmo_distill.options import BuildOptions
from wmo_distill.records import TokenSpan
from wmo_distill.sources.evidence import SamplingEvidence
from wmo_distill.trials.sampling import sampling_of

RECORDERS = Path(__file__).parents[2] / "fixtures" / "recorders"
DECLARED: dict[str, Any] = {
    "temperature": 0.123,
    "top_p": 0.456,
    "top_k": 789,
    "policy_version": "declared",
    "train_step": 987_654,
    "tokenizer": "declared",
}


def rows(out: Path, declare: dict[str, Any]) -> dict[str, dict[str, Any]]:
    wmo_distill.build([RECORDERS], out, BuildOptions(declare=declare), workers=1)
    return {row["episode_id"]: row for row in wmo_distill.scan(out).collect().to_dicts()}


def test_what_is_recorded_is_kept(tmp_path: Path) -> None:
    recorded = rows(tmp_path / "recorded", {})
    kept, filled = set(), set()
    for key, row in rows(tmp_path / "declared", DECLARED).items():
        before = recorded[key]
        mine = set()
        for name, value in DECLARED.items():
            versions = before["policy_versions"] if name == "policy_version" else []
            if before[name] is not None or versions:
                kept.add(name)
                assert row[name] == before[name]
            elif row[name] is not None:
                mine.add(name)
                assert row[name] == value
        filled |= mine
        if "policy_version" not in mine:
            assert row["policy_versions"] == before["policy_versions"]
        assert row["declared"] == sorted(mine)
        more = ["declared_conflict"] * (len(DECLARED) - len(mine))
        assert row["issues"] == sorted([*before["issues"], *more])
    assert {"temperature", "policy_version", "train_step"} <= kept
    assert filled == set(DECLARED)


@pytest.mark.parametrize(
    ("calls", "declared", "version", "versions", "conflict"),
    [
        (["7", "7"], "7", "7", ("7",), False),
        (["7", "7"], "9", "7", ("7",), True),
        (["7", None], "7", "7", ("7",), False),
        (["7", None], "9", None, ("7",), True),
        (["7", "8"], "7", None, ("7", "8"), True),
        ([None, None], "9", "9", ("9",), False),
    ],
)
def test_versions_of_calls(
    calls: list[str | None],
    declared: str,
    version: str | None,
    versions: tuple[str, ...],
    conflict: bool,
) -> None:
    spans = [
        TokenSpan(i, [1], [2], [-0.1], versions=None if v is None else ((v, 0),))
        for i, v in enumerate(calls)
    ]
    sampled, issues = sampling_of(SamplingEvidence(), {"policy_version": declared}, spans)
    assert (sampled.policy_version, sampled.policy_versions) == (version, versions)
    assert ("declared_conflict" in issues) is conflict
    filled = version == declared and None in calls
    assert sampled.declared == (("policy_version",) if filled else ())
