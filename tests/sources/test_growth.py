"""Files of several episodes that grew: only what is new, or differs, is read again."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.sources.recorder_bank import BANK, copied
from wmo_distill import build, iter_records, verify
from wmo_distill.files import FilesState
from wmo_distill.issues import Issue
from wmo_distill.pipeline.batch import exact_state, state_of
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.finding import discover
from wmo_distill.sources.growth import mark_of
from wmo_distill.sources.rllm import source as rllm
from wmo_distill.sources.tinker import source as tinker
from wmo_distill.sources.tinker.capture import Capture, Lines, Store

CHANGED = Issue.CHANGED_WHILE_READING
TINKER = BANK / "tinker-capture"


def as_built_anew(folder: Path, out: Path, again: Path) -> None:
    assert verify(out) == []
    assert build([folder], out, workers=1).read == 0
    build([folder], again, workers=1)
    assert read_manifest(out).dataset_hash == read_manifest(again).dataset_hash


def test_lines_of_tinker_and_a_reward(tmp_path: Path) -> None:
    folder = copied(TINKER / "jsonl-group", tmp_path / "run")
    file = folder / "capture/sample.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    first = [line for line in lines if json.loads(line)["scope"].get("traj_idx") != 1]
    later = [line for line in lines if line not in first]
    file.write_bytes(b"".join(first))
    out = tmp_path / "out"
    before = build([folder], out, workers=1)
    assert before.found
    file.write_bytes(b"".join([*first, *later]))
    grown = build([folder], out, workers=1)
    assert 0 < grown.read == grown.found - before.found
    summaries = next(folder.glob("iteration_*/*_rollout_summaries.jsonl"))
    text = summaries.read_text().splitlines()
    value = json.loads(text[0])
    text[0] = json.dumps({**value, "total_reward": value["total_reward"] + 0.25})
    summaries.write_text("\n".join(text) + "\n")
    assert build([folder], out, workers=1).read == 1
    as_built_anew(folder, out, tmp_path / "again")


def test_rows_of_a_store_of_tinker(tmp_path: Path) -> None:
    """The rows of a rollout again, as those of another one."""
    folder = copied(TINKER / "store-logprobs", tmp_path / "run")
    out = tmp_path / "out"
    before = build([folder], out, workers=1)
    with closing(sqlite3.connect(folder / "capture.sqlite")) as db, db:
        names = [name for _, name, *_ in db.execute("PRAGMA table_info(wire_rows)")]
        new = {"cursor": "cursor + 1000", "traj_idx": "1", "seq_id": "seq_id + 1"}
        values = ", ".join(new.get(name, name) for name in names)
        db.execute(f"INSERT INTO wire_rows SELECT {values} FROM wire_rows")
    grown = build([folder], out, workers=1)
    assert (grown.read, grown.found) == (1, before.found + 1)
    assert grown.calls == 2 * before.calls
    as_built_anew(folder, out, tmp_path / "again")


def state_in_ledger(trial: FoundTrial) -> FilesState:
    return exact_state(trial) or state_of(trial, None)


def by_text(folder: Path) -> None:
    file = folder / "capture/sample.jsonl"
    file.write_text(file.read_text().replace('"logprobs": [-0', '"logprobs": [-1', 1))


def by_query(name: str, query: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        with closing(sqlite3.connect(folder / name)) as db, db:
            assert db.execute(query).rowcount == 1

    return edit


def by_line(folder: Path) -> None:
    file = folder / "rollouts.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"reward":1.0', b'"reward":0.5', 1))


EDITS = {
    "nemo-gym/group": by_line,
    "tinker-capture/jsonl-group": by_text,
    "tinker-capture/store-logprobs": by_query(
        "capture.sqlite",
        "UPDATE wire_rows SET logprobs = replace(logprobs, '-0', '-1') WHERE cursor = 1",
    ),
    "rllm-gateway/wheel-group": by_query(
        "gateway_traces.db", "UPDATE traces SET data = replace(data, '-0', '-1') WHERE rowid = 1"
    ),
}


@pytest.mark.parametrize(("run", "edit"), EDITS.items())
def test_a_record_altered_in_its_place_is_read_again(
    tmp_path: Path, run: str, edit: Callable[[Path], None]
) -> None:
    """Its size is the same."""
    folder = copied(BANK / run, tmp_path / "run")
    out = tmp_path / "out"
    before = build([folder], out, workers=1)
    edit(folder)
    after = build([folder], out, workers=1)
    assert after.read == 1
    assert after.bytes_in == before.bytes_in
    as_built_anew(folder, out, tmp_path / "again")


@pytest.mark.parametrize(("run", "edit"), EDITS.items())
def test_a_file_that_changes_while_its_episodes_are_read(
    tmp_path: Path, run: str, edit: Callable[[Path], None]
) -> None:
    """An episode has changed where its own records have."""
    folder = copied(BANK / run, tmp_path / "run")
    trials = discover([folder]).trials
    before = list(map(state_in_ledger, trials))
    for path in [
        path for path in folder.rglob("*") if path.is_file() and ".tokens." not in path.name
    ]:
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
    assert list(map(state_in_ledger, trials)) == before
    edit(folder)
    after = list(map(state_in_ledger, trials))
    assert sum(now != then for now, then in zip(after, before, strict=True)) == 1


def test_each_text_of_a_store_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that knows nothing of a store finds its sessions by sizes."""
    folder = copied(BANK / "rllm-gateway/wheel-group", tmp_path / "run")
    asked: list[int] = []
    real = rllm.text_of

    def counted(connection: Any, table: str, column: str, key: int) -> bytes | None:
        asked.append(key)
        return real(connection, table, column, key)

    monkeypatch.setattr(rllm, "text_of", counted)
    assert build([folder], tmp_path / "out", workers=1).found > 1
    assert len(asked) == len(set(asked))
    assert build([folder], tmp_path / "out", workers=1).read == 0


@pytest.mark.parametrize(("run", "capture"), [("jsonl", Lines), ("store", Store)])
def test_each_record_of_a_capture_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, capture: type[Capture]
) -> None:
    """A build that knows nothing of a capture finds its rollouts by sizes."""
    folder = copied(TINKER / f"{run}-logprobs", tmp_path / "run")
    asked: list[Any] = []
    real = capture.raw

    def counted(self: Any, place: Any) -> Any:
        asked.append(place)
        return real(self, place)

    monkeypatch.setattr(capture, "raw", counted)
    assert build([folder], tmp_path / "out", workers=1).calls == len(set(asked))
    assert len(asked) == len(set(asked))
    assert build([folder], tmp_path / "out", workers=1).read == 0


@pytest.mark.parametrize("run", ["jsonl-logprobs", "store-logprobs"])
def test_a_record_altered_while_its_rollout_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    """Its size is the same: what was read is in the ledger, and the rollout is read again."""
    folder, edit = (
        copied(TINKER / run, tmp_path / "run"),
        EDITS.get(f"tinker-capture/{run}", by_text),
    )
    real, read = tinker.evidence_of, list[str]()

    def evidence(found: FoundTrial, *others: Any, **named: Any) -> Any:
        evidence = real(found, *others, **named)
        if not read:
            read.append(found.path)
            edit(folder)
        return evidence

    monkeypatch.setattr(tinker, "evidence_of", evidence)
    build([folder], tmp_path / "out", workers=1)
    changed = [r.artifact_dir for r in iter_records(tmp_path / "out") if CHANGED in r.issues]
    assert changed == read
    assert build([folder], tmp_path / "out", workers=1).read == 1
    as_built_anew(folder, tmp_path / "out", tmp_path / "again")


def test_a_record_altered_while_its_session_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is the same: what was read is in the ledger, and the session is read again."""
    run = "rllm-gateway/wheel-group"
    folder, edit = copied(BANK / run, tmp_path / "run"), EDITS[run]
    real, read = rllm.Reading.evidence, list[str]()

    def evidence(self: Any, found: FoundTrial, session: Any) -> Any:
        if 1 in session.rows and not read:
            read.append(found.path)
            edit(folder)
        return real(self, found, session)

    monkeypatch.setattr(rllm.Reading, "evidence", evidence)
    build([folder], tmp_path / "out", workers=1)
    changed = [r.artifact_dir for r in iter_records(tmp_path / "out") if CHANGED in r.issues]
    assert changed == read
    assert build([folder], tmp_path / "out", workers=1).read == 1
    as_built_anew(folder, tmp_path / "out", tmp_path / "again")


def test_a_mark_is_of_one_record_alone() -> None:
    records = [(), (None,), (b"None",), (b"ab", b"c"), (b"a", b"bc"), (b"1",), (1,), ("1",)]
    assert len({mark_of(*record)[0] for record in records}) == len(records)
    assert [mark_of(*record)[1] for record in records] == [0, 0, 4, 3, 3, 1, 0, 0]


def test_a_line_that_is_torn_is_counted_and_read_when_it_is_whole(tmp_path: Path) -> None:
    folder = copied(TINKER / "jsonl-multi", tmp_path / "run")
    file = folder / "capture/sample.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    out = tmp_path / "out"
    torn = build([folder], out, workers=1)
    assert torn.calls_dropped == {"record_unreadable": 1}
    file.write_bytes(whole)
    assert build([folder], out, workers=1).calls == torn.calls + 1
    as_built_anew(folder, out, tmp_path / "again")


def test_rows_of_gym(tmp_path: Path) -> None:
    folder = copied(BANK / "nemo-gym/group", tmp_path / "run")
    file = folder / "rollouts.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0])
    out = tmp_path / "out"
    before = build([folder], out, workers=1)
    file.write_bytes(b"".join(lines))
    grown = build([folder], out, workers=1)
    rows = [json.loads(line) for line in lines]
    assert 0 < grown.read < len(rows)
    assert grown.found >= before.found
    as_built_anew(folder, out, tmp_path / "again")
    rows[0]["reward"] = 0.125
    file.write_bytes(b"".join([json.dumps(rows[0]).encode() + b"\n", *lines[1:]]))
    assert build([folder], out, workers=1).read == 1
    as_built_anew(folder, out, tmp_path / "last")


@pytest.mark.parametrize("ending", [".jsonl", ".json"])
@pytest.mark.parametrize("recorder", ["agentlightning", "openenv"])
def test_objects_of_a_file(tmp_path: Path, recorder: str, ending: str) -> None:
    """As lines, and as a list that is written anew."""
    (folder := tmp_path / "run").mkdir()
    objects = events() if recorder == "agentlightning" else results()

    def write(values: list[Any]) -> None:
        text = json.dumps(values) if ending == ".json" else "\n".join(map(json.dumps, values))
        (folder / f"all{ending}").write_text(text)

    out = tmp_path / "out"
    write(objects[:-1])
    before = build([folder], out, workers=1)
    write(objects)
    grown = build([folder], out, workers=1)
    assert (grown.read, grown.found) == (1, before.found + 1)
    as_built_anew(folder, out, tmp_path / "again")
    write([{**objects[0], "note": 1}, *objects[1:]])
    assert build([folder], out, workers=1).read == 1
    as_built_anew(folder, out, tmp_path / "last")


def events() -> list[Any]:
    """Those of two rollouts and one event of a third."""
    names = [f"agentlightning-events/group/ro-{k}.events.json" for k in range(3)]
    first, second, third = (json.loads((BANK / name).read_text()) for name in names)
    return [*first, *second, third[0]]


def results() -> list[Any]:
    """Three times a result, as those of three sessions."""
    (result, *_) = json.loads((BANK / "openenv-capture/results/results.json").read_text())
    return [{**result, "session_id": f"s{k}", "trial_name": f"t{k}"} for k in range(3)]
