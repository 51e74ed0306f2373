"""How trials say that they were sampled, from their files to the rows; times without a zone."""

import json
import shutil
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import wmo_distill
from wmo_distill.declare import parse_declare
from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import LogprobMode, SegmentInfo, TrialRecord
from wmo_distill.report.record import render_record
from wmo_distill.sources.sink import read_sink
from wmo_distill.tokens import TokenSpan

FIXTURES = Path(__file__).parents[2] / "fixtures"
VARYING = FIXTURES / "faults" / "declare-over-varying"
NAIVE = FIXTURES / "faults" / "naive-times"
DECLARED = ("logprob_mode=raw", "policy_version=99", "train_step=40", "temperature=0.5")


def built(tmp_path: Path, jobs: Path, **options: Any) -> pl.DataFrame:
    wmo_distill.build([jobs], tmp_path / "out", BuildOptions(**options), workers=1)
    return wmo_distill.scan(tmp_path / "out").sort("trial_name").collect()


class TestVarying:
    @pytest.mark.parametrize("n", range(len(DECLARED) + 1))
    def test_no_declaration_fills_it(self, tmp_path: Path, n: int) -> None:
        for number, items in enumerate(combinations(DECLARED, n)):
            declare = parse_declare(items)
            rows = built(
                tmp_path / str(number), VARYING / "jobs", sinks=VARYING / "sinks", declare=declare
            )
            versions, temperatures = rows.to_dicts()
            assert versions["policy_version"] is None
            assert versions["policy_versions"] == ["7", "8"]
            one = temperatures["policy_version"]
            assert one == declare.get("policy_version")
            assert temperatures["policy_versions"] == ([] if one is None else [one])
            assert versions["train_step"] is None
            assert versions["logprob_mode"] == "unknown"
            assert temperatures["temperature"] is None
            for row, varying in (
                (versions, {"logprob_mode", "policy_version", "train_step"}),
                (temperatures, {"temperature"}),
            ):
                assert set(row["declared"]) == set(declare) - varying
                assert row["issues"].count("sampling_varies") == len(varying)
                assert row["issues"].count("declared_conflict") == len(varying & set(declare))

    def test_the_modes_of_vllm(self, tmp_path: Path) -> None:
        """A sink may say them in vLLM's words; two that differ are not filled in either."""
        name = "t__vv"
        shutil.copytree(VARYING / "sinks", tmp_path / "sinks")
        sink = tmp_path / f"sinks/{name}.jsonl"
        lines = [json.loads(line) for line in sink.read_text().splitlines()]
        declare = parse_declare(["logprob_mode=raw"])
        for words, mode in (
            (["processed_logprobs"] * 2, LogprobMode.PROCESSED),
            (["raw_logprobs", "processed_logprobs"], LogprobMode.UNKNOWN),
        ):
            said = [x | {"logprob_mode": w} for x, w in zip(lines, words, strict=True)]
            sink.write_text("".join(json.dumps(x) + "\n" for x in said))
            out = tmp_path / mode
            out.mkdir()
            rows = built(out, VARYING / "jobs", sinks=tmp_path / "sinks", declare=declare)
            row = rows.filter(pl.col("trial_name") == name).row(0, named=True)
            assert row["logprob_mode"] == mode
            assert "sampling_damaged" not in row["issues"]

    def test_values_of_a_sink(self, tmp_path: Path) -> None:
        lines = [
            {"temperature": 1, "top_k": True, "train_step": None, "tokenizer": [1]},
            {"temperature": 1.0, "top_k": 1, "policy_version": "7", "tokenizer": [2]},
            {"top_p": float("nan"), "policy_version": "7", "tokenizer": {}},
        ]
        call = {"prompt_token_ids": [1], "sampled_token_ids": [2], "sampled_logprobs": [-0.1]}
        text = "".join(
            json.dumps({"call_index": i, **call, **x}) + "\n" for i, x in enumerate(lines)
        )
        (tmp_path / "a.jsonl").write_text(text)
        sampling = read_sink(TrialFiles(tmp_path), "a.jsonl").sampling
        assert {name: list(map(repr, values)) for name, values in sampling.items()} == {
            "temperature": ["1"],
            "top_k": ["True", "1"],
            "policy_version": ["'7'"],
            "tokenizer": ["[1]", "[2]", "{}"],
        }


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """A trial of Harbor 0.1.45 as it is where the config sets no temperature."""
    source = next((FIXTURES / "trials/harbor-0.1.45/26-session-exits").glob("jobs/*/*__*"))
    copy = Path(shutil.copytree(source, tmp_path / "jobs" / source.name))
    for name in ("config.json", "result.json"):
        document = json.loads((copy / name).read_text())
        del document.get("config", document)["agent"]["kwargs"]["temperature"]
        (copy / name).write_text(json.dumps(document))
    write_temperature(copy, 0.7)
    return copy


def write_temperature(trial: Path, temperature: float | None) -> None:
    """Into the trajectory's `agent.extra`, as terminus-2 does; None: as where it sends none."""
    path = trial / "agent" / "trajectory.json"
    document = json.loads(path.read_text())
    extra = {"parser": "json", "temperature": temperature}
    document["agent"]["extra"] = {k: v for k, v in extra.items() if v is not None}
    path.write_text(json.dumps(document))


class TestTemperature:
    def test_the_default_of_harbor_0_1_45_is_in_its_trajectory(self, trial: Path) -> None:
        (record,) = wmo_distill.read_trial(trial)
        assert record.sampled_with.temperature == 0.7
        assert record.issues == ()
        options = BuildOptions(declare=parse_declare(["temperature=1.0"]))
        (record,) = wmo_distill.read_trial(trial, options)
        assert record.sampled_with.temperature == 0.7
        assert record.issues == (Issue.DECLARED_CONFLICT,)

    def test_it_is_read_without_a_result_too(self, trial: Path) -> None:
        (trial / "result.json").unlink()
        (record,) = wmo_distill.read_trial(trial)
        assert record.sampled_with.temperature == 0.7

    def test_not_sent_and_unknown_are_distinguished(self, trial: Path) -> None:
        write_temperature(trial, None)
        (record,) = wmo_distill.read_trial(trial)
        assert (record.sampled_with.temperature, record.issues) == (None, ())
        assert record.sampled_with.temperature_not_sent
        assert "temperature not sent (the server's own default)" in render_record(record)
        (trial / "agent" / "trajectory.json").unlink()
        (record,) = wmo_distill.read_trial(trial)
        assert record.sampled_with.sampling is None
        assert "temperature unknown" in render_record(record)

    def test_the_row_says_it(self, trial: Path, tmp_path: Path) -> None:
        write_temperature(trial, None)
        (row,) = built(tmp_path, trial.parent).to_dicts()
        assert (row["temperature"], row["sampling"]) == (None, '{"temperature":null}')


class TestTimes:
    def test_durations_and_order_are_right(self, tmp_path: Path) -> None:
        first, second = built(tmp_path, NAIVE / "jobs").to_dicts()
        assert first["started_at"] == datetime(2025, 11, 22, 10, 0, 0, 682474, UTC)
        assert first["finished_at"] == datetime(2025, 11, 22, 11, 0, 0, 682474, UTC)
        for row in (first, second):
            assert row["issues"] == ["hole_unprovable", "time_without_zone"]
            lengths = [row[f"{name}_seconds"] for name in ("agent", "verifier", "setup")]
            assert lengths == [1800.0, 540.0, 0.0]
        assert (first["attempt"], second["attempt"]) == (2, 1), "by start, not by name"

    def test_one_issue_a_trial_of_many_steps(self, tmp_path: Path) -> None:
        source = next((FIXTURES / "trials" / "11e-multistep-step-timeout").glob("jobs/*/*__*"))
        trial = Path(shutil.copytree(source, tmp_path / "trial"))
        before = wmo_distill.read_trial(trial)
        path = trial / "result.json"
        text = path.read_text()
        assert '"occurred_at"' in text
        path.write_text(text.replace('Z"', '"'))
        after = wmo_distill.read_trial(trial)
        assert len(after) > 1
        issues = [issue for record in after for issue in record.issues]
        assert issues.count(Issue.TIME_WITHOUT_ZONE) == 1
        assert Issue.TIME_WITHOUT_ZONE in after[0].issues
        for old, new in zip(before, after, strict=True):
            for name in ("started_at", "finished_at", "agent_seconds", "verifier_seconds"):
                assert getattr(new, name) == getattr(old, name)
            assert (new.stop_reason, new.reward) == (old.stop_reason, old.reward)

    def test_only_a_step_without_a_zone(self, tmp_path: Path) -> None:
        source = next((FIXTURES / "trials" / "11e-multistep-step-timeout").glob("jobs/*/*__*"))
        trial = Path(shutil.copytree(source, tmp_path / "trial"))
        result = json.loads((trial / "result.json").read_text())
        step = result["step_results"][-1]["agent_execution"]
        step["finished_at"] = step["finished_at"].removesuffix("Z")
        (trial / "result.json").write_text(json.dumps(result))
        records = wmo_distill.read_trial(trial)
        assert Issue.TIME_WITHOUT_ZONE in records[0].issues
        assert [r.agent_seconds is None for r in records] == [False] * (len(records) - 1) + [True]
        assert not any(Issue.VALUE_DAMAGED in r.issues for r in records)


def test_a_mode_that_is_unknown_in_all_lines_may_be_declared(tmp_path: Path) -> None:
    sinks = tmp_path / "sinks"
    sinks.mkdir()
    for name in ("t__vv", "t__ww"):
        lines = (VARYING / "sinks" / f"{name}.jsonl").read_text().splitlines()
        plain = [json.loads(line) | {"logprob_mode": "unknown"} for line in lines]
        (sinks / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in plain))
    declare = parse_declare(["logprob_mode=raw"])
    rows = built(tmp_path, VARYING / "jobs", sinks=sinks, declare=declare)
    assert rows["logprob_mode"].to_list() == [LogprobMode.RAW] * 2


def test_show_leaves_odd_values_out_of_its_numbers() -> None:
    odd = [-0.25, -9999.0, float("nan"), -0.75, -2.0]
    spans = (TokenSpan(0, [1], [2] * 5, odd), TokenSpan(1, [1], [2], [-1e16]))
    record = TrialRecord(spans=spans, segments=(SegmentInfo(),))
    first, second = render_record(record).splitlines()[-2:]
    assert first.split() == ["0", "main", "0", "1", "1", "5", "-1.0000", "-0.7500"]
    assert second.split() == ["0", "main", "1", "1", "1", "1"]
