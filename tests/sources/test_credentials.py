"""Credentials at every place of every source's files: none is in what a build makes of them."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.shards.encode import encode
from wmo_distill.sources.finding import discover
from wmo_distill.trial import read_found

FIXTURES = Path(__file__).parents[2] / "fixtures"
RUNS = (
    "trials/01-solved",
    "recorders/agentlightning-events/group",
    "recorders/nemo-gym/group",
    "recorders/nemo-gym/native",
    "recorders/openenv-capture/break",
    "recorders/rllm-gateway/wheel-group",
    "recorders/rllm-gateway/git-version",
    "recorders/tinker-capture/jsonl-multi",
    "recorders/tinker-capture/jsonl-version",
    "recorders/tinker-capture/store-samples",
    "recorders/verifiers/0.2.1-api",
)
MARK = "pLanTed7"
TEXTS: tuple[Callable[[str], str], ...] = (
    lambda text: f"https://user:{MARK}@host.example/{text}",
    lambda text: f"{text}?a=1&X-Amz-Signature={MARK}",
    lambda text: f"sk-proj-{MARK}abcdefgh12345678 {text}",
    lambda text: f"{text} Authorization: Bearer {MARK}abcdefgh",
)
MEMBERS = (
    {"api_key": MARK},
    {"extra_headers": {"X-Any": MARK}},
    {"token": MARK},
    {f"sk-proj-{MARK}abcdefgh12345678": True},
)
REPORTED = {Issue.CREDENTIAL_CUT, Issue.SAMPLING_LEFT_OUT}
Edit = Callable[[Path], None]


def edited(value: Any, number: int) -> Iterator[Any]:
    """The value with a secret in one of its texts or objects; of lists the first two elements."""
    if isinstance(value, str):
        yield TEXTS[number % len(TEXTS)](value)
    elif isinstance(value, dict):
        yield {**value, **MEMBERS[number % len(MEMBERS)]}
        for k, (name, one) in enumerate(value.items()):
            yield from ({**value, name: other} for other in edited(one, number + k))
    elif isinstance(value, list):
        for k, one in enumerate(value[:2]):
            yield from ([*value[:k], other, *value[k + 1 :]] for other in edited(one, number + k))


def edits_of_text(text: str, number: int) -> Iterator[str]:
    """Of a JSON document, of JSON lines (the first two), or of what is neither."""
    lines = [text] if text.lstrip().startswith(("{\n", "[\n")) else text.splitlines()
    for k, line in enumerate(lines[:2]):
        try:
            value = json.loads(line)
        except ValueError:
            yield TEXTS[number % len(TEXTS)](text)
            return
        for other in edited(value, number):
            yield "\n".join([*lines[:k], json.dumps(other), *lines[k + 1 :]])


def edits(run: Path, number: int) -> Iterator[tuple[str, Edit]]:
    """What is done to a copy of a run, one secret at a time."""
    for file in sorted(path for path in run.rglob("*") if path.is_file()):
        name = file.relative_to(run)
        if file.suffix in (".json", ".jsonl", ".toml") and file.name != "expected.json":
            for text in edits_of_text(file.read_text(), number):
                yield str(name), lambda copy, name=name, text=text: put(copy / name, text)
        elif file.suffix in (".db", ".sqlite"):
            with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as base:
                for update in updates(base, number):
                    yield (
                        f"{name}: {update[0]}",
                        lambda copy, name=name, update=update: store(copy / name, update),
                    )


def put(file: Path, text: str) -> None:
    file.write_text(text)


def updates(base: sqlite3.Connection, number: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    tables = base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        for column in [row[1] for row in base.execute(f"PRAGMA table_info({table})")]:
            query = f"SELECT rowid, {column} FROM {table} ORDER BY rowid LIMIT 1"
            for row, value in base.execute(query).fetchall():
                if isinstance(value, str | bytes):
                    text = value if isinstance(value, str) else value.decode()
                    for other in edits_of_text(text, number):
                        whole = other if isinstance(value, str) else other.encode()
                        yield f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (whole, row)


def store(file: Path, update: tuple[str, tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(file)) as base, base:
        base.execute("PRAGMA foreign_keys = OFF")
        base.execute(*update)


@pytest.mark.parametrize("run", RUNS)
def test_no_planted_secret_is_in_a_row(run: str, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    planted = cut = 0
    for what, edit in edits(FIXTURES / run, RUNS.index(run)):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(FIXTURES / run, copy)
        edit(copy)
        for trial in discover([copy]).trials:
            read = read_found(trial, BuildOptions())
            rows = encode(read.records).to_pylist()
            shown = repr((rows, trial.path, trial.trial_id, trial.trial_name))
            assert MARK not in shown, (what, shown[shown.index(MARK) - 200 :][:400])
            planted += 1
            cut += any(REPORTED & set(record.issues) for record in read.records)
    assert planted >= 10
    assert cut > 1
