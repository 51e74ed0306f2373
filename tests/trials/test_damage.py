"""No content of a trial directory raises, loses a call unseen, or gives an impossible row."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import ReadTrial, StopReason
from wmo_distill.shards.encode import encode
from wmo_distill.sources.base import FoundTrial
from wmo_distill.trial import read_found

FIXTURES = Path(__file__).parents[2] / "fixtures"
SINGLE = FIXTURES / "cases/ctrf_agree/trials/a__t1"
STEPS = FIXTURES / "cases/step_results_only/trials/a__t1"
SINK = FIXTURES / "cases/sink_ok"

JUNK: list[Any] = [
    None, True, 0, -1, 1.5, "", "x", "\ud800", "../../x", "a/b", [], {}, [None], {"a": 1},
    10**30, 10**400, float("nan"), float("inf"), "2026-13-40", "0001-01-01T00:00:00+14:00", [[1]],
    "x" * 3000,
]  # fmt: skip


def read(root: Path, **options: Any) -> ReadTrial:
    found = FoundTrial("harbor", root, root.name)
    trial = read_found(found, BuildOptions(**options))
    kept = sum(len(record.spans) for record in trial.records)
    assert trial.calls_found == kept + sum(trial.calls_dropped.values())
    assert len({record.episode_id for record in trial.records}) == len(trial.records) >= 1
    encode(trial.records).validate(full=True)
    return trial


def nodes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to every value of a document."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path, *(p for key, child in items for p in nodes(child, (*path, key)))]


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with the value at a path replaced."""
    if not path:
        return value
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return document


@pytest.mark.parametrize("source", [SINGLE, STEPS], ids=["single", "steps"])
@given(data=st.data())
@settings(max_examples=examples(250))
def test_any_value_of_any_type(source: Path, data: st.DataObject, tmp_path_factory: Any) -> None:
    """Any value anywhere in any of the JSON files."""
    root = tmp_path_factory.mktemp("d") / "a__t1"
    shutil.copytree(source, root)
    files = sorted(p for p in root.rglob("*.json"))
    for _ in range(data.draw(st.integers(1, 2))):
        file = data.draw(st.sampled_from(files))
        document = json.loads(file.read_text())
        at = data.draw(st.sampled_from(nodes(document)))
        document = put(document, at, data.draw(st.sampled_from(JUNK)))
        file.write_text(json.dumps(document))
    read(root, salvage=data.draw(st.booleans()), max_turns=data.draw(st.none() | st.just(3)))


@given(data=st.data())
@settings(max_examples=examples(250))
def test_any_bytes(data: st.DataObject, tmp_path_factory: Any) -> None:
    """Files cut, overwritten, emptied, swapped."""
    root = tmp_path_factory.mktemp("d") / "a__t1"
    shutil.copytree(SINGLE, root)
    (root / "verifier/reward.txt").write_text("1\n")
    file = data.draw(st.sampled_from(sorted(p for p in root.rglob("*") if p.is_file())))
    content = file.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    tail = data.draw(st.sampled_from([b"", b"\xff", b"[" * 50_000, b"\0", b"}", content]))
    file.write_bytes(content[:at] + tail)
    read(root, reward_files=True)


@given(data=st.data())
@settings(max_examples=examples(250))
def test_any_sink(data: st.DataObject, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("d")
    shutil.copytree(SINK, folder / "case")
    sink = folder / "case/sink/a__t1.jsonl"
    lines = [json.loads(line) for line in sink.read_text().splitlines() if line]
    line = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.sampled_from(nodes(lines[line])))
    lines[line] = put(lines[line], at, data.draw(st.sampled_from(JUNK)))
    text = "\n".join(map(json.dumps, lines)).encode()
    sink.write_bytes(text[: data.draw(st.integers(0, len(text)))])
    trial = read(folder / "case/trials/a__t1", sinks=folder / "case/sink")
    assert trial.records[0].spans or trial.records[0].issues


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Neither from the trial's files nor from its directories."""
    for name in ("result.json", "agent", "verifier", "agent/trajectory.json"):
        root = tmp_path / name.replace("/", "-") / "a__t1"
        shutil.copytree(SINGLE, root)
        moved = tmp_path / f"outside-{name.replace('/', '-')}"
        os.rename(root / name, moved)
        os.symlink(moved, root / name)
        (record,) = read(root).records
        if name == "result.json":
            assert Issue.RESULT_UNREADABLE in record.issues
        elif name != "verifier":
            assert Issue.TRAJECTORY_MISSING in record.issues or (
                Issue.TRAJECTORY_UNREADABLE in record.issues
            )
        else:
            assert record.tests is None


@pytest.mark.parametrize("name", ["result.json", "agent/trajectory.json", "verifier/ctrf.json"])
def test_a_fifo_does_not_hang(name: str, tmp_path: Path) -> None:
    root = tmp_path / "a__t1"
    shutil.copytree(SINGLE, root)
    (root / name).unlink()
    os.mkfifo(root / name)
    read(root)


def test_names_lead_nowhere(tmp_path: Path) -> None:
    """Step names and continuation references that point out of the trial are not followed."""
    outside = tmp_path / "secret"
    shutil.copytree(SINGLE / "agent", outside / "agent")
    root = tmp_path / "jobs/a__t1"
    shutil.copytree(STEPS, root)
    result = json.loads((root / "result.json").read_text())
    for step in result["step_results"]:
        step["step_name"] = "../../../secret"
    (root / "result.json").write_text(json.dumps(result))
    trial = read(root)
    assert all(record.stop_reason is StopReason.UNKNOWN for record in trial.records)
    assert len(trial.records) == 2


@pytest.mark.parametrize("at", ["step_name", "exception_info"])
def test_a_wrong_type_in_a_step_is_reported(at: str, tmp_path: Path) -> None:
    root = tmp_path / "a__t1"
    shutil.copytree(STEPS, root)
    sound = read(root)
    result = json.loads((root / "result.json").read_text())
    result["step_results"][0][at] = 5 if at == "step_name" else {"exception_type": 5}
    (root / "result.json").write_text(json.dumps(result))
    told, before = read(root).records[0].issues, sound.records[0].issues
    assert told.count(Issue.VALUE_DAMAGED) == before.count(Issue.VALUE_DAMAGED) + 1
