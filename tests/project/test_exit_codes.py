"""The codes of a finished command other than 0, and the line on stderr that says why."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from wmo_distill.cli.build import DECIDED, exit_code
from wmo_distill.issues import Issue
from wmo_distill.pipeline.summary import Summary
from wmo_distill.shards.ledger import Reason
from wmo_distill.shards.manifest import Tokens

ROOT = Path(__file__).parents[2]
TRIALS = ROOT / "fixtures" / "trials"
TRIAL = TRIALS / "01-solved"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_strict_is_3_with_issues_and_0_without(run: Run, tmp_path: Path) -> None:
    issues = TRIALS / "09e-no-logprobs-at-all"
    assert run("build", issues, "-o", tmp_path / "a", "--quiet").returncode == 0
    strict = run("build", issues, "-o", tmp_path / "b", "--strict", "--quiet")
    assert (strict.returncode, strict.stdout) == (3, "")
    assert "--strict: expected no issues but notes, found logprobs_missing " in strict.stderr
    assert run("build", TRIAL, "-o", tmp_path / "c", "--strict").returncode == 0


def test_strict_passes_over_notes(run: Run, tmp_path: Path) -> None:
    notes = {issue.value: 1 for issue in Issue if issue.note}
    assert {*notes} == {
        "agent_not_trainable", "credential_cut", "earlier_attempts_failed",
        "history_before_first_call", "hole_unprovable", "image_in_message", "logprobs_rounded",
        "sampling_left_out", "sampling_varies", "time_without_zone",
    }  # fmt: skip
    for issues, code in ((notes, 0), (notes | {"value_damaged": 1}, 3), ({"of_tomorrow": 1}, 3)):
        summary = Summary(tokens=Tokens(output=1), issues=issues)
        assert exit_code(summary, strict=True, allow_empty=False) == code
    trials = ROOT / "fixtures" / "faults" / "naive-times" / "jobs"
    assert run("build", trials, "-o", tmp_path / "a", "--strict").returncode == 0


def test_no_command_ends_without_a_word() -> None:
    """Every exit code but 0 of a finished command goes through `end`, which says why."""
    raised = [
        (file.name, line.strip())
        for file in sorted((ROOT / "wmo_distill" / "cli").glob("*.py"))
        for line in file.read_text().splitlines()
        if re.search(r"typer\.Exit|sys\.exit|raise SystemExit", line)
    ]
    assert raised == [
        ("app.py", "raise typer.Exit"),  # --version
        ("app.py", "sys.exit(code)"),  # what went wrong is on stderr
        ("output.py", "raise typer.Exit(code)"),
        ("stop.py", "sys.exit(0)"),  # stdout was closed
    ]


@pytest.mark.parametrize("reason", sorted(set(Reason) - set(DECIDED)))
def test_strict_is_3_where_a_trial_could_not_be_read(reason: str) -> None:
    summary = Summary(tokens=Tokens(output=1), skipped={reason: 1, "duplicate_id": 1})
    assert exit_code(summary, strict=True, allow_empty=False) == 3
    assert exit_code(summary, strict=False, allow_empty=False) == 0
    decided = Summary(tokens=Tokens(output=1), skipped=dict.fromkeys(DECIDED, 1))
    assert exit_code(decided, strict=True, allow_empty=False) == 0


def test_strict_is_3_where_a_line_was_torn(run: Run, tmp_path: Path) -> None:
    """Of two sound traces, the second one broken off."""
    sound = ROOT / "fixtures" / "recorders" / "verifiers" / "0.4.0-tools_strip"
    (whole,) = sound.rglob("traces.jsonl")
    lines = whole.read_bytes().splitlines(keepends=True)
    traces = tmp_path / "run" / "traces.jsonl"
    traces.parent.mkdir()
    traces.write_bytes(lines[0])
    command = ("build", traces.parent, "-o", tmp_path / "out", "--strict", "--json")
    before = run(*command)
    assert before.returncode == 0, json.loads(before.stdout)["issues"]
    traces.write_bytes(lines[0] + lines[0][: len(lines[0]) // 2])
    after = run(*command)
    assert json.loads(after.stdout)["skipped"] == {"line_unreadable": 1}
    assert after.returncode == 3


def test_no_sampled_token_is_4_and_outranks_3(run: Run, tmp_path: Path) -> None:
    empty = TRIALS / "12-no-rollout-details"
    for options, code in [((), 4), (("--strict",), 4), (("--allow-empty",), 0)]:
        out = tmp_path / "-".join(["out", *options])
        done = run("build", empty, "-o", out, *options)
        assert done.returncode == code
        assert ("expected sampled tokens, found none in 1 trials" in done.stderr) == (code == 4)
        assert (out / "manifest.json").exists()
    strict = run("build", empty, "-o", tmp_path / "e", "--strict", "--allow-empty")
    assert strict.returncode == 3
