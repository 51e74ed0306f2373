"""What `doctor` finds: balanced counts, bounded reading, and advice only for what is missing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from wmo_distill import read_trial
from wmo_distill.cli.app import app
from wmo_distill.declare import COLUMNS
from wmo_distill.doctor.advice import Needs, advise
from wmo_distill.doctor.diagnose import SAMPLE_BYTES, SAMPLE_TRIALS, choose, diagnose
from wmo_distill.doctor.formats import HARBOR
from wmo_distill.doctor.needs import lacks
from wmo_distill.report.doctor import render_diagnosis as render
from wmo_distill.sources.registry import SOURCES

ROOT = Path(__file__).parents[2]


TRIALS = ROOT / "fixtures" / "trials"


SCALES = {"trials", "read", "recording", "episodes", "sampled", "asked"}


NOTHING = dict.fromkeys(Needs.__dataclass_fields__, 0)


def one_of_all(kind: str) -> dict[str, Needs]:
    return {kind: Needs(**dict.fromkeys(NOTHING, 1))}


@given(st.lists(st.integers(0, 2 * SAMPLE_BYTES), max_size=300))
def test_a_sample_is_within_its_limits(sizes: list[int]) -> None:
    chosen = choose(sizes)
    assert len(chosen) == len(set(chosen)) <= SAMPLE_TRIALS
    assert bool(chosen) == bool(sizes)
    if len(chosen) > 1:
        assert sum(sizes[index] for index in chosen) <= SAMPLE_BYTES


def test_all_of_a_few_small_trials_are_read() -> None:
    assert choose([10] * SAMPLE_TRIALS) == list(range(SAMPLE_TRIALS))


def test_each_format_is_in_the_sample() -> None:
    formats = ["a"] * 200 + ["b"] + ["a"] * 200
    sizes = [1] * 200 + [SAMPLE_BYTES + 1] + [2] * 200
    chosen = choose(sizes, formats)
    assert 200 in chosen
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= SAMPLE_TRIALS + 1


def test_sinks_are_read_as_a_build_would(tmp_path: Path) -> None:
    """Trials without a config, whose tokens a recorder wrote."""
    case = ROOT / "fixtures" / "faults" / "declare-over-varying"
    for trial in ("t__vv", "t__ww"):
        put = tmp_path / "jobs" / trial / "agent" / "wmo-run.json"
        put.parent.mkdir(parents=True)
        put.write_text('{"stop_reason": "submitted"}')
    run = CliRunner().invoke(app, ["doctor", str(tmp_path / "jobs")])
    assert "  token ids: 2 of 2 trials read" in run.stdout
    assert run.stdout.rstrip().endswith("-o shards [--sinks DIR]")
    sinks = str(case / "sinks")
    run = CliRunner().invoke(app, ["doctor", str(tmp_path / "jobs"), "--sinks", sinks])
    assert "  token ids:" not in run.stdout
    assert "tokens, log-probabilities  2" in run.stdout
    assert f"-o shards --sinks {sinks} --declare" in run.stdout
    run = CliRunner().invoke(app, ["doctor", str(tmp_path / "jobs"), "--sinks", "nowhere"])
    assert "--sinks: expected a directory of sink files, found none" in str(run.exception)


@pytest.mark.parametrize("lacking", sorted(set(NOTHING) - SCALES))
def test_each_lack_has_its_own_advice(lacking: str) -> None:
    # Harbor's ways to record tokens, and to lose an ending, are lacks of their own.
    kind = "nemo_gym" if lacking in ("ending", "without_tokens") else HARBOR
    full: dict[str, int] = NOTHING | dict.fromkeys(SCALES, 9)
    assert advise({kind: Needs(**full)}) == ()
    (advice,) = advise({kind: Needs(**full | {lacking: 3})})
    assert advice.of.startswith("3 ")
    assert advice.why


def test_all_that_can_be_declared_is_named() -> None:
    found = advise(one_of_all(HARBOR))
    named = {line.partition("=")[0] for lack in found for line in lack.declare}
    assert named == set(COLUMNS)


def test_each_format_has_its_own_advice() -> None:
    """Lines for a job config, and Harbor's ways, are for its trials alone."""
    found = diagnose([ROOT / "fixtures" / "recorders", TRIALS])
    assert set(found.formats) == set(SOURCES)
    assert found.trials == sum(held.trials for held in found.formats.values())
    for kind, held in found.formats.items():
        assert held.episodes >= held.tokens >= max(held.logprobs, held.rl)
        own = [lack for lack in found.advice if lack.format == kind]
        assert kind == HARBOR or not any(lack.job or lack.agent for lack in own)
        assert kind == HARBOR or "Harbor" not in "".join(lack.why for lack in own)
    text = render(found, [TRIALS])
    assert "set token_id_capture in Gym's configuration" not in text
    assert text.count("the tokenizer:") == 1, "one reason, however many formats lack it"


@pytest.mark.parametrize("kind", sorted(set(SOURCES) - {HARBOR}))
def test_each_format_says_how_to_record_tokens_and_log_probabilities(kind: str) -> None:
    own = {one.missing: one.why for one in advise(one_of_all(kind))}
    general = {one.missing: one.why for one in advise(one_of_all("toy"))}
    for what in ("token ids", "log-probabilities", "a valid grade"):
        assert own[what] != general[what]


def test_what_varies_between_calls_is_recorded(trial: Path) -> None:
    (record,) = read_trial(trial)
    sampled = replace(record.sampled_with, temperature=None, policy_version=None)
    bare = replace(record, sampled_with=sampled)
    assert lacks(bare, "policy_version")
    assert lacks(bare, "temperature")
    assert not lacks(
        replace(record, sampled_with=replace(sampled, policy_versions=("a", "b"))), "policy_version"
    )
    rows = [json.dumps({"temperature": 0.5}), None]
    calls = [SimpleNamespace(sampling=row) for row in rows]
    varied: Any = SimpleNamespace(sampled_with=sampled, spans=calls)
    assert not lacks(varied, "temperature")
    assert lacks(varied, "top_p")


def test_counts_balance_over_the_real_trials() -> None:
    found = diagnose([TRIALS])
    sample = found.sample
    assert found.trials == sum(found.harbor.values()) == sum(found.agents.values()) == 49
    assert sample.trials == sample.with_logprobs + sample.without_logprobs + sum(
        sample.without_tokens.values()
    )
    assert sample.episodes == sum(sample.stop_reasons.values()) == 53
    assert found.harbor["0.26.0"] == 40
    assert found.harbor["no lock (ATIF-v1.6)"] == 4


def setting(trial: Path, **kwargs: Any) -> None:
    """Change the agent's arguments in a trial's two documents."""
    for name in ("config.json", "result.json"):
        document = json.loads((trial / name).read_text())
        agent = document.get("config", document)["agent"]
        agent["kwargs"] = {k: v for k, v in (agent["kwargs"] | kwargs).items() if v is not None}
        (trial / name).write_text(json.dumps(document))


def without_temperature(trial: Path) -> None:
    """As terminus-2 of Harbor 0.14 and newer writes its trajectory where none is set."""
    path = trial / "agent" / "trajectory.json"
    document = json.loads(path.read_text())
    del document["agent"]["extra"]["temperature"]
    path.write_text(json.dumps(document))


def missing(root: Path) -> set[str]:
    return {advice.missing for advice in diagnose([root]).advice}


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    source = next((TRIALS / "01-solved").glob("jobs/*/*__*"))
    return Path(shutil.copytree(source, tmp_path / "root" / "trial"))


def test_settings_that_are_missing_are_named(trial: Path) -> None:
    setting(trial, temperature=0.7, logprob_mode="raw", policy_version="step-3", tokenizer="qwen3")
    assert missing(trial) == {"top-p and top-k", "the training step"}
    setting(trial, top_p=0.9, top_k=20, train_step=3)
    assert missing(trial) == set()
    setting(trial, temperature=None)
    assert missing(trial) == set(), "the trajectory has it"
    without_temperature(trial)
    assert missing(trial) == {"the temperature, which was not sent"}
    setting(trial, collect_rollout_details=None, policy_version=None)
    assert missing(trial) == {
        "the temperature, which was not sent",
        "token collection is off",
        "the policy version",
    }


def test_a_temperature_not_sent_and_one_unknown_are_distinguished(trial: Path) -> None:
    setting(trial, temperature=None)
    other = Path(shutil.copytree(trial, trial.parent / "other"))
    without_temperature(trial)
    (other / "agent" / "trajectory.json").unlink()
    result = json.loads((other / "result.json").read_text())
    (other / "result.json").write_text(json.dumps(result | {"id": "other"}))
    told = {a.missing: a for a in diagnose([trial.parent]).advice if "temperature" in a.missing}
    assert sorted(told) == [
        "the temperature, which no file records",
        "the temperature, which was not sent",
    ]
    assert {advice.of for advice in told.values()} == {"1 of 2 episodes with tokens"}
    text = render(diagnose([trial.parent]), [trial.parent])
    assert text.count("--declare temperature=VALUE") == 1


def test_collection_on_but_no_ids_points_at_the_server(trial: Path) -> None:
    result = json.loads((trial / "result.json").read_text())
    result["agent_result"]["rollout_details"] = []
    (trial / "result.json").write_text(json.dumps(result))
    (trial / "agent" / "trajectory.json").unlink()
    assert "the server sends no token ids" in missing(trial)
    assert "token collection is off" not in missing(trial)


def test_the_sample_alone_is_read(
    trial: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for n in range(5):
        shutil.copytree(trial, tmp_path / "root" / f"copy{n}")
    monkeypatch.setattr("wmo_distill.doctor.diagnose.SAMPLE_TRIALS", 2)
    found = diagnose([tmp_path / "root"])
    assert (found.trials, found.sample.trials) == (6, 2)
    assert found.build_seconds is not None
    assert found.shard_bytes is not None


def test_damage_is_reported_and_raises_nothing(tmp_path: Path) -> None:
    for name, text in {"empty": "", "list": "[]", "deep": "[" * 100_000}.items():
        directory = tmp_path / name / "agent"
        directory.mkdir(parents=True)
        (directory / "trajectory.json").write_text(text)
        (tmp_path / name / "config.json").write_text(text)
        (tmp_path / name / "lock.json").write_text('{"harbor": 3}')
    found = diagnose([tmp_path])
    assert found.trials == 3
    assert found.harbor == {"not recorded": 3}
    assert sum(found.sample.without_tokens.values()) == 3


def test_a_directory_without_trials(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for options in ([], ["--json"]):
        done = CliRunner().invoke(app, ["doctor", str(tmp_path), *options])
        assert done.exit_code == 4
        assert "expected trials at any depth, found none" in done.stderr
        assert bool(done.stdout) is bool(options)


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, None, [1]])
@pytest.mark.parametrize("where", ["result", "config"])
def test_another_schema_version_is_reported(trial: Path, where: str, version: Any) -> None:
    result = json.loads((trial / "result.json").read_text())
    (result if where == "result" else result["config"])["schema_version"] = version
    (trial / "result.json").write_text(json.dumps(result))
    assert "a schema_version that we know" in missing(trial)


def test_a_served_trial_without_its_database(trial: Path, tmp_path: Path) -> None:
    place = tmp_path / "data/files/rollouts/d80bd2fe-233a-4a3e-a5a8-49dfd1116d03"
    place.mkdir(parents=True)
    trial.rename(place / "t__1")
    of = {advice.missing: advice.of for advice in diagnose([tmp_path / "data"]).advice}
    assert of["which attempts were retried"] == "1 of 1 trials"
