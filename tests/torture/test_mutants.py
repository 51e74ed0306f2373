"""A few rounds of the mutants that `make torture` makes, and what would be a finding."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.fuzz.seeds import FIXTURES
from tests.torture import mutants
from tests.torture.mutants import Campaign, Run
from tests.torture.mutations import AWAY, changes

BANKS = [FIXTURES / "recorders" / name for name in ("openenv-capture", "verifiers-early")]


def faults(campaign: Campaign, number: int) -> list[str]:
    return [one.fault for one in campaign.round(number) if one.fault is not None]


def contents(tree: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def test_rounds_of_mutants(tmp_path: Path) -> None:
    campaign = Campaign(BANKS, tmp_path)
    before = contents(campaign.tree)
    for number in (1, 2):  # no round of which workers are tried
        assert faults(campaign, number) == []
    assert campaign.done.total() > 20
    assert before == {
        path: path.read_bytes() for path in campaign.tree.rglob("*") if path.is_file()
    }


def test_what_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign(BANKS[:1], tmp_path)

    def in_secret(run: Run, rng: random.Random) -> None:
        if run.folder.name.endswith("-single"):
            for path in run.files:
                path.write_bytes(b"{}")

    monkeypatch.setattr(Run, "change", in_secret)
    assert any("is sound, and has other rows" in fault for fault in faults(campaign, 1))
    monkeypatch.setattr(mutants, "build", lambda *args, **options: 1 / 0)
    assert faults(campaign, 2) == ["round 2: ZeroDivisionError: division by zero"]


def _store(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as store:
        store.execute("CREATE TABLE traces (trace_id TEXT PRIMARY KEY, data TEXT)")
        store.executemany("INSERT INTO traces VALUES (?, ?)", [("a", "{}"), ("b", '{"x": [1, 2]}')])
        store.commit()
    return path.read_bytes()


def test_every_change_gives_other_bytes_the_same_for_a_seed(tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"a": [k, 2], "b": {"c": None}}).encode() + b"\n" for k in range(4))
    for data in (lines, lines.splitlines()[0], b'"x"', b"\xff\0", _store(tmp_path / "store")):
        ways = changes(data)
        for way in ways:
            one, other = ([way(data, random.Random(n)) for n in range(20)] for _ in range(2))
            assert one == other
        others = {way(data, random.Random(n)) for way in ways for n in range(20)} - {data}
        assert len(others) > 20
    assert {"removed", "is_a_link", "is_a_pipe"} <= AWAY.keys()
