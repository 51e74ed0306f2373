"""What `doctor` finds: balanced counts, bounded reading, and advice only for what is missing."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.advice import Needs, advise
from wmo_distill.cli.doctor import render
from wmo_distill.doctor import SAMPLE_BYTES, SAMPLE_TRIALS, choose, diagnose

ROOT = Path(__file__).parents[2]
TRIALS = ROOT / "fixtures" / "trials"
SCALES = {"trials", "sampled", "episodes"}
NOTHING = dict.fromkeys(Needs.__dataclass_fields__, 0)


@given(st.lists(st.integers(0, 2 * SAMPLE_BYTES), max_size=300))
def test_a_sample_is_within_its_limits(sizes: list[int]) -> None:
    chosen = choose(sizes)
    assert len(chosen) == len(set(chosen)) <= SAMPLE_TRIALS
    assert bool(chosen) == bool(sizes)
    if len(chosen) > 1:
        assert sum(sizes[index] for index in chosen) <= SAMPLE_BYTES


def test_all_of_a_few_small_trials_are_read() -> None:
    assert choose([10] * SAMPLE_TRIALS) == list(range(SAMPLE_TRIALS))


@pytest.mark.parametrize("lacking", sorted(set(NOTHING) - SCALES))
def test_each_lack_has_its_own_advice(lacking: str) -> None:
    full: dict[str, int] = NOTHING | dict.fromkeys(SCALES, 9)
    assert advise(Needs(**full)) == ()
    (advice,) = advise(Needs(**full | {lacking: 3}))
    assert advice.of.startswith("3 ")
    assert advice.why


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


def test_a_temperature_not_sent_and_one_unknown_are_told_apart(trial: Path) -> None:
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
    assert {advice.of for advice in told.values()} == {"1 of 2 sampled episodes"}
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
    monkeypatch.setattr("wmo_distill.doctor.SAMPLE_TRIALS", 2)
    found = diagnose([tmp_path / "root"])
    assert (found.trials, found.sample.trials) == (6, 2)
    assert found.build_seconds is not None
    assert found.shard_bytes is not None


def test_damage_is_told_and_raises_nothing(tmp_path: Path) -> None:
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
