"""A file or directory that cannot be read hides the rollouts that it may be of, and no others."""

import errno
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.sources.finding import Found, discover

GYM = Path(__file__).parents[2] / "fixtures/recorders/nemo-gym"


@contextmanager
def closed(*paths: Path) -> Iterator[None]:
    """Paths that give EACCES, to root too."""
    shut = {os.fspath(path) for path in paths}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "scandir"):
            real = getattr(os, name)

            def ask(path: Any, *args: Any, real: Any = real, **options: Any) -> Any:
                if os.fspath(path) in shut:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
                return real(path, *args, **options)

            patch.setattr(os, name, ask)
        yield


def places(found: Found) -> dict[str, object]:
    """What a build reads for each trial: where its row is, and its capture."""
    return {trial.path: trial.locator for trial in found.trials if trial.source == "nemo_gym"}


@pytest.mark.parametrize("other", ["v/run/all", "v", "gym/node", "."])
def test_a_file_of_another_run_hides_nothing(tmp_path: Path, other: str) -> None:
    home = tmp_path / "h"
    shutil.copytree(GYM / "kept-evidence", home / "gym")
    shutil.copytree(GYM / "native", home / "native")
    file = home / other / "traces.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    before = places(discover([home]))
    assert before
    file.write_text('{"trace": 1}\n')
    with closed(file):
        found = discover([home])
    assert places(found) == before
    where = os.path.normpath(f"h/{other}")
    assert list(found.unlisted) == [where]
    assert str(file) in found.unlisted[where]


def test_a_file_next_to_a_run_may_be_of_it(tmp_path: Path) -> None:
    """Captures without rows, next to a file that may hold them."""
    home = tmp_path / "h"
    shutil.copytree(GYM / "lost", home)
    (home / "results").mkdir()
    shutil.move(home / "rollouts.jsonl", home / "results")
    whole = places(discover([home]))
    with closed(home / "results/rollouts.jsonl"):
        found = discover([home])
    assert places(found) == {}
    assert set(found.unlisted) == {"h/results", "h/token_capture"}
    assert not any(map(found.covers, whole)), "what is there stays as it is"


def tree(rng: random.Random, home: Path) -> None:
    """Rows and captures of two rollouts, anywhere in a small tree."""
    row = (GYM / "lost/rollouts.jsonl").read_text().splitlines()[0]
    capture = (GYM / "lost/token_capture/0-0.tokens.jsonl").read_bytes()
    folders = ["", "a", "b", "a/c", "a/d", "b/e", "a/c/f", "a/c/g", "a/c/f/i"]
    for folder in folders:
        place = home / folder
        place.mkdir(exist_ok=True)
        for rollout in ("0-0", "0-1"):
            if rng.random() < 0.25:
                (place / f"{rollout}.tokens.jsonl").write_bytes(capture)
        for name in ("r", "s"):
            if rng.random() < 0.2:
                index = f'"_ng_rollout_index": {rng.randrange(2)}'
                own = row.replace('"_ng_rollout_index": 0', index)
                (place / f"{name}.jsonl").write_text(own + "\n")


@pytest.mark.parametrize("seed", range(20))
def test_what_is_found_does_not_depend_on_what_is_closed(tmp_path: Path, seed: int) -> None:
    """The same trials, joined in the same way, as where it could be read, or was not there."""
    rng = random.Random(seed)
    tree(rng, home := tmp_path / "h")
    whole = places(discover([home]))
    things = sorted(p for p in home.rglob("*") if p.is_dir() or p.name in ("r.jsonl", "s.jsonl"))
    for thing in rng.sample(things, min(6, len(things))):
        with closed(thing):
            found = discover([home])
        seen = places(found)
        assert seen.items() <= whole.items(), thing
        assert found.unlisted
        assert not any(map(found.covers, whole.keys() - seen.keys())), thing
        away = tmp_path / "away"
        shutil.move(thing, away)
        assert seen.items() <= places(discover([home])).items(), thing
        shutil.move(away, thing)
