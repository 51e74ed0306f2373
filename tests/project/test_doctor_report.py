"""What `doctor` prints of several formats, of duplicates, and of what RL can train."""

import shutil
from pathlib import Path

import pytest

from wmo_distill import build
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.doctor.diagnose import diagnose
from wmo_distill.exporters.run import export_datums
from wmo_distill.report.doctor import render_diagnosis as render

FIXTURES = Path(__file__).parents[2] / "fixtures"
TRIALS = FIXTURES / "trials"


def test_each_topic_has_one_heading() -> None:
    found = diagnose([FIXTURES / "recorders", TRIALS])
    text = render(found, [TRIALS]).partition("\nMissing\n")[2].partition("\n\n")[0]
    headings = [
        line.strip().partition(":")[0].removesuffix(" (for RL)")
        for line in text.splitlines()
        if line.startswith("  ") and line[2] != " "
    ]
    assert headings == list(dict.fromkeys(lack.missing for lack in found.advice))
    assert "the policy version (for RL)\n    " in text  # its reasons differ between formats


def test_jobs_are_counted_where_there_are_some() -> None:
    assert " in 42 jobs, " in render(diagnose([TRIALS]), [TRIALS])
    captures = FIXTURES / "recorders" / "tinker-capture"
    assert " jobs" not in render(diagnose([captures]), [captures]).partition("\n\n")[0]


def test_a_duplicate_is_named_with_the_trial_that_gets_the_rows(tmp_path: Path) -> None:
    source = next((TRIALS / "01-solved").glob("jobs/*/*__*"))
    for name in "abc":
        shutil.copytree(source, tmp_path / "job" / name)
    found = diagnose([tmp_path / "job"])
    assert found.duplicates == {"job/b": "job/a", "job/c": "job/a"}
    assert "2, without rows: job/b of job/a; job/c of job/a" in render(found, [tmp_path])
    summary = build([tmp_path / "job"], tmp_path / "out")
    assert summary.skipped == {"duplicate_id": len(found.duplicates)}


@pytest.mark.parametrize("held", ["trials", "recorders/tinker-capture", "recorders/nemo-gym"])
def test_what_rl_can_train_is_what_an_export_for_rl_holds(
    held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build([FIXTURES / held], tmp_path / "shards")
    build_datum_shards(tmp_path / "shards", tmp_path / "datums")
    done = export_datums(tmp_path / "datums", tmp_path / "rows", "verl", assume_mode=True)
    monkeypatch.setattr("wmo_distill.doctor.diagnose.SAMPLE_TRIALS", 1000)
    found = diagnose([FIXTURES / held])
    assert (found.sample.trials, found.duplicates) == (found.trials, {})
    assert sum(one.rl for one in found.formats.values()) == done.groups.episodes > 0
