"""Runs that NeMo Gym recorded, held against what the policy in front of it really sampled."""

import json
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from wmo_distill import (
    BuildOptions,
    TrialRecord,
    build,
    build_datum_shards,
    export_datums,
    iter_records,
    verify,
)
from wmo_distill.files import file_sha256
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, ReadTrial, SpanSource, StopReason
from wmo_distill.sources.finding import discover
from wmo_distill.trial import read_found

BANK = Path(__file__).parents[2] / "fixtures/recorders/nemo-gym"


RUNS = sorted(path.name for path in BANK.iterdir())


LOST = (Issue.CALL_LOST, Issue.RECORD_UNREADABLE, Issue.DROPPED_BY_RECORDER)


Call = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]


def expected(run: Path | str) -> dict[str, dict[str, Any]]:
    text = (BANK / run / "expected.json").read_text()
    return {rollout["rollout"]: rollout for rollout in json.loads(text)["rollouts"]}


def kept(rollout: Mapping[str, Any]) -> list[Call]:
    return sorted(
        (tuple(c["prompt_ids"]), tuple(c["sampled_ids"]), tuple(c["logprobs"]))
        for c in rollout["calls"]
        if c["fate"] == "kept"
    )


def calls_of(record: TrialRecord) -> list[Call]:
    return sorted(map(call_of, record.spans))


def call_of(span: Any) -> Call:
    sampled, logprobs = span.sampled_token_ids, span.sampled_logprobs
    return (
        tuple(span.prompt_token_ids.tolist()),
        () if sampled is None else tuple(sampled.tolist()),
        () if logprobs is None else tuple(logprobs.tolist()),
    )


def read(*paths: Path) -> dict[str, ReadTrial]:
    """What a build would write, by path."""
    return {t.path: read_found(t, BuildOptions()) for t in discover(paths).trials}


def only(*paths: Path) -> TrialRecord:
    (trial,) = read(*paths).values()
    (record,) = trial.records
    return record


@pytest.mark.parametrize("run", RUNS)
def test_what_was_sampled_is_read_once(run: str) -> None:
    trials = read(BANK / run)
    rollouts = expected(run)
    records = {r.trial_name: r for trial in trials.values() for r in trial.records}
    assert len(trials) == len(records) == len(rollouts)
    for name, rollout in rollouts.items():
        record = records[name]
        assert calls_of(record) == kept(rollout)
        assert record.reward == rollout["reward"]
        assert record.format == "nemo_gym"
        fates = [call["fate"] for call in rollout["calls"]]
        n_lost = sum(issue in LOST for issue in record.issues)
        assert fates.count("lost") <= n_lost <= fates.count("lost") + fates.count("failed")
        flagged = rollout.get("incomplete") or rollout.get("mask") or "lost" in fates
        assert (record.completeness is Completeness.INCOMPLETE) == bool(flagged)
        assert (Issue.CAPTURE_INCOMPLETE in record.issues) == bool(flagged)
    found = sum(trial.calls_found for trial in trials.values())
    dropped = sum(sum(trial.calls_dropped.values()) for trial in trials.values())
    assert found == dropped + sum(len(kept(rollout)) for rollout in rollouts.values())


@pytest.mark.parametrize("run", RUNS)
def test_a_lineage_is_a_segment(run: str) -> None:
    for trial in read(BANK / run).values():
        for record in trial.records:
            segments: dict[str, set[int]] = {}
            by_call = {call_of(span): span for span in record.spans}
            for call in expected(run)[record.trial_name]["calls"]:
                key = (call["prompt_ids"], call["sampled_ids"] or (), call["logprobs"] or ())
                span = by_call.get(tuple(map(tuple, key)))  # type: ignore[arg-type]
                if span is not None and call.get("superseded") is not None:
                    assert span.used is not True
                elif span is not None:
                    segments.setdefault(call["lineage"], set()).add(span.segment)
            assert all(len(found) == 1 for found in segments.values())
            assert len(set().union(*segments.values())) == len(segments)


def test_a_group() -> None:
    records = {r.trial_name: r for t in read(BANK / "group").values() for r in t.records}
    assert {(r.task_id, r.group_id, r.job) for r in records.values()} == {
        ("4", records["4-0"].group_id, "group")
    }
    assert {name: r.attempt for name, r in records.items()} == {
        "4-0": 0, "4-1": 1, "4-2": 2, "4-3": 3, "4-4-a1": 4, "4-5": 5
    }  # fmt: skip
    handed_over = records["4-0"]
    assert handed_over.span_source is SpanSource.RESULT
    assert handed_over.completeness is Completeness.COMPLETE
    failed = records["4-5"]
    assert (failed.reward, failed.reward_valid, failed.infra_failed) == (None, False, True)
    assert (failed.exception_type, failed.stop_reason) == ("agent_timeout", StopReason.BUDGET)
    assert records["4-0"].agent_name == "toy_agent"
    assert records["4-0"].model_name == "toy-policy"
    assert records["4-0"].sampled_with.temperature == 1.0


def test_experts_are_kept_with_their_call() -> None:
    record = only(BANK / "experts")
    lines = (BANK / "experts/token_capture/0-0.tokens.jsonl").read_text().splitlines()
    for span, line in zip(record.spans, lines, strict=True):
        assert json.loads(span.extra or "") == {
            "routed_experts": json.loads(line)["routed_experts"]
        }


def files_of(out: Path) -> dict[str, tuple[str, int]]:
    return {p.name: file_sha256(p) for p in sorted(out.glob("*.parquet"))}


def test_all_runs_in_one_build(bank: Path, tmp_path: Path) -> None:
    outs = [tmp_path / "one", tmp_path / "two"]
    n = sum(len(expected(run)) for run in RUNS)
    for workers, out in enumerate(outs, 1):
        summary = build([bank], out, workers=workers, declare={"logprob_mode": "raw"})
        assert (summary.found, summary.written) == (n, n)
        assert verify(out) == []
    assert files_of(outs[0]) == files_of(outs[1]) != {}
    again = build([bank], outs[0], workers=1, declare={"logprob_mode": "raw"})
    assert again.read == 0
    records = list(iter_records(outs[0]))
    assert len({r.trial_id for r in records}) == len({r.artifact_dir for r in records}) == n
    built = build_datum_shards(outs[0], tmp_path / "datums")
    assert built.stats.loss_tokens > 0
    assert export_datums(tmp_path / "datums", tmp_path / "verl", "verl").exported > 0


def rewritten(path: Path, **values: Any) -> None:
    """One row with other values; None takes a key out."""
    row = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n")


def test_an_environment_that_masks_spoils_the_reward(bank: Path) -> None:
    rewritten(bank / "kept-evidence/rollouts.jsonl", mask_sample=True)
    record = only(bank / "kept-evidence")
    assert (record.reward, record.reward_valid) == (1.0, False)
    assert record.completeness is Completeness.COMPLETE


def test_an_answer_cut_off_ends_the_episode(bank: Path) -> None:
    lines = (bank / "native/rollouts.jsonl").read_text().splitlines()
    (bank / "native/rollouts.jsonl").write_text(lines[0])  # without an end of line
    row = json.loads(lines[0])
    row["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    rewritten(bank / "native/rollouts.jsonl", response=row["response"])
    record = only(bank / "native")
    assert record.stop_reason is StopReason.OUTPUT_TRUNCATED
    assert [s.finish_reason for s in record.spans] == [None, None, "max_output_tokens"]
    assert calls_of(record) == kept(expected("native")["9-0"])


def test_a_row_that_broke_off_is_counted(bank: Path) -> None:
    rows = bank / "native/rollouts.jsonl"
    rows.write_bytes(rows.read_bytes()[:-500])
    found = {path: trial.records[0] for path, trial in read(bank / "native").items()}
    assert [r.reward for r in found.values()] == [1.0, None]
    assert found["native/rollouts.jsonl#@1"].issues.count(Issue.RESULT_UNREADABLE) == 1


def test_inputs_of_a_run_are_no_rows(bank: Path) -> None:
    shutil.rmtree(bank / "kept-evidence/token_capture")
    rewritten(bank / "kept-evidence/rollouts.jsonl", response=None, reward=None)
    assert read(bank / "kept-evidence") == {}


def test_records_of_an_unknown_version_are_counted(bank: Path) -> None:
    capture = bank / "single/token_capture/0-0.tokens.jsonl"
    rewritten(capture, schema_version=2)
    record = only(bank / "single")
    assert (record.spans, record.completeness) == ((), Completeness.INCOMPLETE)
    assert record.issues.count(Issue.RECORD_UNREADABLE) == 1


def test_a_record_that_was_altered_is_not_taken(bank: Path) -> None:
    capture = bank / "multi/token_capture/0-0.tokens.jsonl"
    capture.write_bytes(capture.read_bytes().replace(b"20148,21665", b"20149,21665", 1))
    record = only(bank / "multi")
    assert len(record.spans) == 4
    assert record.issues.count(Issue.RECORD_UNREADABLE) == 1


@pytest.mark.parametrize("indent", [" ", "\t "])
def test_other_ways_to_write_json_are_read_alike(bank: Path, indent: str) -> None:
    for path in bank.glob("break/token_capture/*.json*"):
        if path.name.endswith(".state.json"):
            path.unlink()
            continue
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        separators = ("," + indent, indent + ":")
        text = "\n".join(json.dumps(line, separators=separators) for line in lines[::-1])
        path.write_text(text)
    record = only(bank / "break")
    assert calls_of(record) == kept(expected("break")["0-0"])
    assert [s.call_index for s in record.spans] == [0, 1, 2, 3, 4]  # by time


def test_links_are_not_followed(bank: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    shutil.move(bank / "single/token_capture", away)
    (bank / "single/token_capture").symlink_to(away)
    (bank / "single/rollouts.jsonl").symlink_to(bank / "native/rollouts.jsonl")
    assert read(bank / "single") == {}


def damaged(rng: random.Random, run: Path) -> Iterator[Path]:
    """The files of a run, each damaged in turn and put back.

    A digit of a row may be any other digit and still be sound; a record of a capture has a digest.
    """
    for path in sorted(p for p in run.rglob("*") if p.is_file() and p.name != "expected.json"):
        whole = path.read_bytes()
        for _ in range(4):
            at = rng.randrange(max(1, len(whole)))
            end = at + rng.choice([1, 1, 8, 200])
            new = rng.choice([b"\xff", b"{", b'"', b"\\", b"]", b"\n{", b"\x00"])
            if "tokens" in path.name:
                new = rng.choice([b"", b"7", new, whole[at // 2 : at]])
            cut = new if "tokens" in path.name or rng.random() < 0.7 else b""
            path.write_bytes(whole[:at] + cut + (whole[end:] if cut == new else b""))
            yield path
        path.write_bytes(whole)


@pytest.mark.parametrize("run", RUNS)
def test_damage_invents_no_token(bank: Path, run: str) -> None:
    sampled = {call for rollout in expected(run).values() for call in kept(rollout)}
    answers = {(prompt, ids) for prompt, ids, _ in sampled} | {(p, ()) for p, _, _ in sampled}
    for path in damaged(random.Random(run), bank / run):
        for trial in read(bank / run).values():
            total = sum(len(r.spans) for r in trial.records) + sum(trial.calls_dropped.values())
            assert total == trial.calls_found
            for record in trial.records:
                for call in calls_of(record):
                    assert call in sampled or (call[:2] in answers and not call[2]), path
