"""An episode is found by any part of its name, and its row is read alone."""

from pathlib import Path

import numpy as np
import pytest

import wmo_distill
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.outputs.stored import Stored
from wmo_distill.records import TrialRecord
from wmo_distill.shards import writer
from wmo_distill.shards.find import at_row, candidates, find, read_at, trial_of
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.shards.writer import PartWriter
from wmo_distill.tokens import TokenSpan

TRIALS = Path(__file__).parents[2] / "fixtures" / "trials"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two parts, of some row groups each."""
    out = tmp_path_factory.mktemp("find") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "GROUP_ROWS", 4)
        for folder in ("0", "1"):
            found = sorted(TRIALS.glob(f"{folder}*"))
            wmo_distill.build(found, out, workers=1)
    return out


def test_every_row_is_found_and_is_the_one_that_all_reading_gives(out: Path) -> None:
    records = list(wmo_distill.iter_records(out, superseded=True))
    assert len(records) > 20
    groups = set()
    for number, record in enumerate(records):
        place = find(out, record.episode_id)
        assert read_at(place) == record == read_at(at_row(out, number))
        groups.add((place.part.path, place.group))
    assert len(groups) > 5
    assert len({path for path, _ in groups}) == 2


def test_any_unique_part_will_do(out: Path) -> None:
    one = find(out, "csv-totals__mEySMRg")
    for part in ("mEySM", "meysmrg", one.episode_id[:13], "reactive-context-error/csv"):
        assert find(out, part) == one
    assert find(out, one.artifact_dir) == one


def test_a_whole_name_goes_before_parts_of_others(tmp_path: Path) -> None:
    names = ("t1", "t10", "t100")
    for name in names:
        source = next((TRIALS / "01-solved").glob("jobs/*/*__*"))
        folder = tmp_path / "job" / name
        folder.mkdir(parents=True)
        text = (source / "result.json").read_text()
        trial_id = source.name
        (folder / "result.json").write_text(
            text.replace(trial_id, name).replace('"id": "', f'"id": "{name}')
        )
    out = tmp_path / "out"
    wmo_distill.build(tmp_path / "job", out, workers=1)
    assert [place.trial_name for place in candidates(out, "t10")] == ["t10"]
    with pytest.raises(UsageError, match=r"'t' in its name, found 3: t1, t10, t100; give more of"):
        find(out, "t")


def test_steps_of_one_trial_are_one_answer(out: Path) -> None:
    name = "sales-report-steptimeout__B95wVyd"
    assert len(trial_of(out, name)) == 3
    with pytest.raises(UsageError, match=r"found 3: .*/count-rows, "):
        find(out, name)
    with pytest.raises(UsageError, match=r"found [0-9]+: .* and [0-9]+ more; give more of it"):
        trial_of(out, "a")


def test_what_is_not_there_is_said(out: Path) -> None:
    with pytest.raises(UsageError, match="'nothing' in its name, task or directory, found none"):
        find(out, "nothing")
    rows = len(list(wmo_distill.iter_records(out, superseded=True)))
    with pytest.raises(UsageError, match=f"expected a row {rows}, found {rows} rows"):
        at_row(out, rows)


def test_a_part_written_anew_gives_no_other_row(out: Path, tmp_path: Path) -> None:
    place = find(out, "mEySM")
    path = tmp_path / "part-00000.parquet"
    with PartWriter(path) as part:
        part.write(TrialRecord(episode_id="another"))
    moved = type(place)(
        Stored(path, SCHEMA, "x"), 0, 0, "e", "t", "d", None
    )  # fmt: skip
    with pytest.raises(DistillError, match="expected the row of e, found another"):
        read_at(moved)


def test_of_a_row_group_one_row_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the time does not grow with what is next to it."""
    from wmo_distill.shards import find as finding

    path = tmp_path / "part-00000.parquet"
    with PartWriter(path) as part:
        for n in range(50):
            span = TokenSpan(0, np.arange(1000), [n], [-0.5])
            part.write(TrialRecord(episode_id=f"e{n}", spans=(span,)))
    rows = []
    own = finding.decode

    def counted(table):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        rows.append(table.num_rows)
        return own(table)

    monkeypatch.setattr(finding, "decode", counted)
    place = finding.Place(Stored(path, SCHEMA, "x"), 0, 33, "e33", "", "", None)
    assert read_at(place).spans[0].sampled.tolist() == [33]
    assert rows == [1]
