"""What a listener hears of each long run: the same event, whole numbers, the last one the sum."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.pipeline_trials import make_job, make_trial, put
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.verify import verify_datums
from wmo_distill.exporters.messages import export_messages
from wmo_distill.exporters.run import export_datums
from wmo_distill.pipeline.build import build, build_with
from wmo_distill.pipeline.reading import Limits
from wmo_distill.pipeline.regrade import regrade
from wmo_distill.progress import Progress
from wmo_distill.shards.verify import verify
from wmo_distill.trial import read_found

TRIALS = Path(__file__).parents[2] / "fixtures" / "trials"


class Heard(list[Progress]):
    """The events as they were."""

    def __call__(self, event: Progress) -> None:
        now = replace(event, outcomes=dict(event.outcomes), issues=dict(event.issues))
        assert 0 <= now.done <= now.total
        assert 0 <= now.bytes_done <= now.bytes_total
        if self:
            assert (now.unit, now.done >= self[-1].done) == (self[-1].unit, True)
        self.append(now)


def test_a_build_is_heard_trial_by_trial(tmp_path: Path) -> None:
    """Each that this process reads; a part when it is complete."""
    job, heard = make_job(tmp_path / "job", "t1", "t2"), Heard()
    summary = build([job], tmp_path / "out", progress=heard)
    steps = [(one.done, one.total, one.outcomes.get("written", 0), one.parts) for one in heard]
    assert steps == [(0, 2, 0, 0), (1, 2, 1, 0), (2, 2, 2, 0), (2, 2, 2, 1)]
    assert heard[-1].bytes_done == heard[-1].bytes_total == summary.bytes_read
    assert heard[-1].issues == summary.issues


@pytest.mark.parametrize("workers", [1, 2])
def test_the_last_event_is_the_account(tmp_path: Path, workers: int) -> None:
    """Of trials read, whoever reads them; those that are skipped before are among the outcomes."""
    heard, limits = Heard(), Limits(part_trials=4)
    out = tmp_path / "out"
    summary = build_with(read_found, [TRIALS], out, workers=workers, progress=heard, limits=limits)
    last = heard[-1]
    assert (last.done, last.total, last.parts) == (49, 49, 13)
    assert last.outcomes == {"written": summary.written, **summary.skipped}
    assert set(last.issues) == set(summary.issues)
    assert last.workers == (0 if workers == 1 else 2)
    assert last.bytes_done == summary.bytes_read


def test_what_stays_is_unchanged(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    build([job], tmp_path / "out")
    make_trial(job / "t3")
    put(job / "t4" / "result.json", {"trial_name": "t4", "id": 7})
    heard = Heard()
    summary = build([job], tmp_path / "out", progress=heard)
    assert heard[0].outcomes == {"unchanged": 2}
    assert (heard[-1].done, heard[-1].outcomes["unchanged"]) == (summary.read, 2)


def test_a_listener_changes_nothing(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    for name, progress in (("a", None), ("b", Heard())):
        build([job], tmp_path / name, progress=progress)
    one, two = (
        {p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*.*")}
        for n in "ab"
    )
    assert one == two


def test_a_listener_that_fails_ends_the_run(tmp_path: Path) -> None:
    """Nothing is committed: the error is the caller's own."""
    job = make_job(tmp_path / "job", "t1", "t2")

    def fail(event: Progress) -> None:
        raise RuntimeError("no room on the screen")

    with pytest.raises(RuntimeError, match="no room"):
        build([job], tmp_path / "out", progress=fail)
    assert not (tmp_path / "out").exists()


def test_every_other_long_run(tmp_path: Path) -> None:
    shards, datums = tmp_path / "shards", tmp_path / "datums"
    build([TRIALS], shards)
    runs: list[tuple[str, Callable[..., Any]]] = [
        ("records", lambda **more: regrade(shards, tmp_path / "graded", pass_at=0.5, **more)),
        ("records", lambda **more: build_datum_shards(shards, datums, **more)),
        ("sequences", lambda **more: export_datums(datums, tmp_path / "x", "trl-sft", **more)),
        ("records", lambda **more: export_messages(shards, tmp_path / "m", **more)),
        ("files", lambda **more: verify(shards, **more)),
        ("files", lambda **more: verify_datums(datums, **more)),
    ]
    for unit, run in runs:
        heard = Heard()
        run(progress=heard)
        assert heard[-1].unit == unit
        assert heard[-1].done == heard[-1].total > 0
        assert sum(heard[-1].outcomes.values()) >= heard[-1].done
