"""What is a trial, what is a job, and where a search must not go."""

import os
from pathlib import Path

import pytest
from pipeline_trials import make_job, make_trial, put, result

from wmo_distill.errors import UsageError
from wmo_distill.sources.finding import discover, found_at
from wmo_distill.sources.harbor.discovery import Job, surroundings


def paths(*roots: Path) -> list[str]:
    return [trial.path for trial in discover(roots).trials]


def test_order_and_spelling_of_paths_do_not_matter(tmp_path: Path) -> None:
    job = make_job(tmp_path / "a" / "job", "t1__a", "t2__b")
    other = make_job(tmp_path / "b" / "job", "t3__c")
    expected = discover([job, other])
    assert len(expected.trials) == 3
    assert discover([other, job]).trials == expected.trials
    assert discover([other, job, job / "t1__a", job]).trials == expected.trials
    odd = job / ".." / ".." / "b" / "job"
    assert [t.path for t in discover([job, odd]).trials] == [t.path for t in expected.trials]


def test_paths_sort_as_utf8_bytes(tmp_path: Path) -> None:
    names = ["b", "a", "a.b", "a-b", "é", "z", "\uffff", "\U0001f600", "A"]
    for name in names:
        make_trial(tmp_path / "job" / name)
        make_trial(tmp_path / "job" / f"{name}_" / "t")
    found = paths(tmp_path / "job")
    assert len(found) == 2 * len(names)
    assert found == sorted(found, key=str.encode)


@pytest.mark.parametrize(
    ("files", "is_trial"),
    [
        ({"result.json": {"trial_name": "t"}}, True),
        ({"result.json": {"trial_name": None}}, True),
        ({"result.json": {"config": {"trial_name": "t"}}}, False),
        ({"result.json": {"n_total_trials": 1, "stats": {}}}, False),
        ({"result.json": {"n_total_trials": 1, "trial_results": [{"trial_name": "t"}]}}, False),
        ({"result.json": ["trial_name"]}, False),
        ({"result.json": '"trial_name"'}, False),
        ({"result.json": "version https://git-lfs.github.com/spec/v1"}, False),
        ({"result.json": "", "config.json": {"trial_name": "t"}}, True),
        ({"result.json": "[]", "config.json": {"trial_name": "t"}}, True),
        ({"result.json": "{", "config.json": {"job_name": "j"}}, False),
        ({"result.json": '{"id": "x", "trial_name": "t", "agent_res'}, True),
        ({"config.json": {"trial_name": "t"}}, True),
        ({"config.json": {"name": "t"}}, False),
        ({"agent/trajectory.json": "{"}, True),
        ({"agent/trajectory.cont-1.json": "{"}, True),
        ({"agent/trajectory.txt": "{"}, False),
        ({"agent/wmo-run.json": "{}"}, True),
        ({"agent/terminus_2.pane": ""}, True),
        ({"agent/recording.cast": ""}, True),
        ({"agent/episode-0/prompt.txt": ""}, True),
        ({"agent/notes.txt": ""}, False),
        ({"verifier/reward.txt": "1"}, True),
        ({"verifier/reward.json": "{}"}, True),
        ({"verifier/ctrf.json": "{}"}, True),
        ({"verifier/test-stdout.txt": ""}, True),
        ({"verifier/other.txt": ""}, False),
        ({"verifier/trajectory.json": ""}, False),
        ({"agent/trajectory.json": "{}", "config.json": {"job_name": "j"}}, False),
        ({"agent/trajectory.json": "{}", "result.json": {"n_total_trials": 0}}, False),
        ({"agent/trajectory.json": "{}", "result.json": "", "config.json": "nothing"}, True),
        ({"lock.json": "{}"}, False),
        ({}, False),
    ],
)
def test_what_is_a_trial(tmp_path: Path, files: dict[str, object], is_trial: bool) -> None:
    root = tmp_path / "root"
    (root / "t").mkdir(parents=True)
    for name, value in files.items():
        put(root / "t" / name, value)
    assert paths(root) == (["root/t"] if is_trial else [])


def test_nothing_is_searched_below_a_trial(tmp_path: Path) -> None:
    trial = make_trial(tmp_path / "root" / "t")
    make_trial(trial / "artifacts" / "inner")
    assert paths(tmp_path / "root") == ["root/t"]
    assert paths(tmp_path / "root", trial / "artifacts") == ["root/t"]


def test_jobs_inside_jobs(tmp_path: Path) -> None:
    outer = make_job(tmp_path / "outer", "t1", n_attempts=3)
    make_job(outer / "inner", "t2", n_attempts=4)
    found = {trial.path: surroundings(trial).job for trial in discover([tmp_path / "outer"]).trials}
    assert found == {"outer/t1": Job("outer", 3), "outer/inner/t2": Job("inner", 4)}


@pytest.mark.parametrize(
    ("files", "job"),
    [
        ({"config.json": {"job_name": "x", "n_attempts": 3}}, Job("j", 3)),
        ({"config.json": {"n_attempts": True, "job_name": "x"}}, Job("j")),
        ({"config.json": {"n_attempts": "3"}}, Job("j")),
        ({"config.json": {"n_attempts": 2**40}}, Job("j")),
        ({"config.json": {"model": "x"}}, None),
        ({"config.json": "{"}, None),
        ({"result.json": {"n_total_trials": 1}}, Job("j")),
        ({"lock.json": {}}, None),
        ({}, None),
    ],
)
def test_the_job_of_a_trial(tmp_path: Path, files: dict[str, object], job: Job | None) -> None:
    trial = make_trial(tmp_path / "j" / "t")
    for name, value in files.items():
        put(tmp_path / "j" / name, value)
    assert [surroundings(found).job for found in discover([tmp_path / "j"]).trials] == [job]
    assert [surroundings(found).job for found in discover([trial]).trials] == [job]
    assert surroundings(found_at(trial, tmp_path)).job == job


def test_links_below_a_path_are_not_followed(tmp_path: Path) -> None:
    make_trial(tmp_path / "elsewhere" / "t")
    root = tmp_path / "root"
    make_trial(root / "t1")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "up").symlink_to(tmp_path)
    (root / "t2").mkdir()
    (root / "t2" / "result.json").symlink_to(tmp_path / "elsewhere" / "t" / "result.json")
    (root / "t3").mkdir()
    (root / "t3" / "agent").symlink_to(root / "t1")
    assert paths(root) == ["root/t1"]


def test_a_path_may_itself_be_a_link(tmp_path: Path) -> None:
    make_job(tmp_path / "real" / "job", "t1")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "job")
    (found,) = discover([link]).trials
    assert (found.path, surroundings(found).job) == ("link/t1", Job("link", 2))
    assert len(discover([link, tmp_path / "real"]).trials) == 1


def test_odd_files_are_harmless(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("fifo", "directory", "both"):
        put(root / name / "agent" / "trajectory.json", "{}")
    os.mkfifo(root / "fifo" / "result.json")
    (root / "directory" / "result.json").mkdir()
    (root / "both" / "config.json").mkdir()
    os.mkfifo(root / "both" / "agent" / "wmo-run.json")
    (root / "empty").mkdir()
    os.mkfifo(root / "empty" / "config.json")
    assert paths(root) == ["root/both", "root/directory", "root/fifo"]


def test_a_directory_that_cannot_be_listed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_trial(tmp_path / "root" / "t1")
    make_trial(tmp_path / "root" / "shut" / "t2")
    scandir = os.scandir

    def refuse(path: object) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refuse)
    found = discover([tmp_path / "root"])
    assert [trial.path for trial in found.trials] == ["root/t1"]
    said = "expected to read what is there, found EACCES (Permission denied)"
    assert found.unlisted == {"root/shut": f"{tmp_path}/root/shut: {said}"}
    assert found.covers("root/t1")
    assert not found.covers("root/shut/t2")
    assert not found.covers("rooted/t1")


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"t\xff")
    try:
        put(tmp_path / "root" / name / "result.json", result("t"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (found,) = discover([tmp_path / "root"]).trials
    assert found.path == "root/t\\xff"
    assert found.root.is_dir()


def test_a_deep_tree(tmp_path: Path) -> None:
    make_trial(tmp_path.joinpath("root", *["d"] * 300) / "t")
    assert len(paths(tmp_path / "root")) == 1


def test_the_parent(tmp_path: Path) -> None:
    one = make_trial(tmp_path / "a" / "b" / "t1")
    two = make_trial(tmp_path / "a" / "c" / "t2")
    assert discover([one]).parent == one.parent
    assert paths(one) == ["t1"]
    assert discover([one.parent]).parent == tmp_path / "a"
    assert discover([one, two]).parent == tmp_path / "a"
    assert discover([one, tmp_path / "a"]).parent == tmp_path
    given = discover([one], parent=tmp_path)
    assert [trial.path for trial in given.trials] == ["a/b/t1"]
    assert given.paths == ("a/b/t1",)


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_trial(tmp_path / "jobs" / "t1")
    monkeypatch.chdir(tmp_path / "jobs")
    found = discover([Path(".")])
    assert found.parent == tmp_path
    assert [trial.path for trial in found.trials] == ["jobs/t1"]


def test_wrong_paths(tmp_path: Path) -> None:
    file = put(tmp_path / "file", "x")
    with pytest.raises(UsageError, match="nothing there"):
        discover([tmp_path / "missing"])
    with pytest.raises(UsageError, match="no directory"):
        discover([file])
    with pytest.raises(UsageError, match="at least one"):
        discover([])
    with pytest.raises(UsageError, match="--fresh"):
        discover([tmp_path], parent=tmp_path / "jobs")


def test_a_path_outside_the_parent_is_named_before_any_search(tmp_path: Path) -> None:
    make_trial(tmp_path / "b" / "t1")
    (tmp_path / "a").mkdir()
    with pytest.raises(UsageError) as told:
        discover([tmp_path / "b"], parent=tmp_path / "a")
    assert str(told.value).startswith(f"{tmp_path / 'b'}: expected a PATH below {tmp_path / 'a'}")


def test_no_two_names_become_one(tmp_path: Path) -> None:
    """A name that is not UTF-8, and the name that reads as it is written."""
    names = [b"t\xff", b"t\\xff", b"t\\x5cxff", b"t\\y"]
    for name in names:
        os.mkdir(os.path.join(os.fsencode(tmp_path), name))
        put(tmp_path / os.fsdecode(name) / "result.json", result("t"))
    found = [trial.path.rpartition("/")[2] for trial in discover([tmp_path]).trials]
    assert sorted(found) == sorted([r"t\xff", r"t\x5cxff", r"t\x5cx5cxff", r"t\y"])
