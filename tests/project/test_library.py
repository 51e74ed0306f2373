"""The names of the library, and what importing it costs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wmo_distill

ROOT = Path(__file__).parents[2]
TRIAL = next((ROOT / "fixtures/trials/01-solved").glob("jobs/*/*__*"))


@pytest.mark.parametrize("name", wmo_distill.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(wmo_distill, name) is not None


def test_the_names_of_the_contract() -> None:
    assert set(wmo_distill.__all__) >= {
        "BuildOptions", "Completion", "GradedTests", "Issue", "ScoreCell", "StopReason",
        "TokenSpan", "TrialRecord", "build", "iter_records", "read_trial", "scan", "verify",
        "assemble_harbor_trial_records", "assemble_trial_records", "load_trial_rollout_spans",
        "load_trial_spans", "read_terminus_stop_reason", "read_trial_stop_reason",
    }  # fmt: skip


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = wmo_distill.nothing


def test_importing_is_light() -> None:
    code = (
        "import sys; before = set(sys.modules); import wmo_distill;"
        "print(sorted(m for m in set(sys.modules) - before if '.' in m or m == 'numpy'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert not {"numpy", "polars", "pyarrow", "pydantic"} & set(eval(done.stdout))
    assert "wmo_distill.records" not in done.stdout


def test_the_types_are_declared() -> None:
    assert (Path(wmo_distill.__file__).parent / "py.typed").exists()


def test_read_trial() -> None:
    (record,) = wmo_distill.read_trial(TRIAL)
    assert record.stop_reason == wmo_distill.StopReason.SUBMITTED
    assert record.attempt is None
    assert record.job == "01-solved"
    assert all(span.sampled_logprobs is not None for span in record.spans)
    assert record.spans[-1].prompt_token_ids.dtype == np.int32


def test_read_trial_by_a_relative_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TRIAL)
    (record,) = wmo_distill.read_trial(".")
    assert record.artifact_dir == TRIAL.name


def test_read_trial_takes_options() -> None:
    (record,) = wmo_distill.read_trial(TRIAL, wmo_distill.BuildOptions(max_turns=5))
    assert record.max_turns == 5


def test_read_trial_of_nothing_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(wmo_distill.UsageError, match="expected a trial directory"):
        wmo_distill.read_trial(tmp_path / "nothing")
    (record,) = wmo_distill.read_trial(tmp_path)
    assert record.issues
