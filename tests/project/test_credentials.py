"""Secrets all over the files of every source: nothing that a command writes or prints has one."""

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.sources.test_credentials import FIXTURES, MARK, RUNS, edits_of_text, updates
from wmo_distill.cli.app import app
from wmo_distill.credentials import without_credentials
from wmo_distill.errors import DistillError
from wmo_distill.exporters.registry import TARGETS


def merged(base: Any, others: Sequence[Any]) -> Any:
    """All differences from one value at once."""
    others = [other for other in others if other != base]
    if not others:
        return base
    if isinstance(base, dict) and all(isinstance(other, dict) for other in others):
        names = dict.fromkeys(name for one in (base, *others) for name in one)
        return {
            name: merged(base[name], [other[name] for other in others])
            if name in base
            else next(other[name] for other in others if name in other)
            for name in names
        }
    if isinstance(base, list) and all(isinstance(other, list) for other in others):
        return [merged(one, [other[k] for other in others]) for k, one in enumerate(base)]
    return others[0]


def planted(text: str, number: int) -> tuple[str, int]:
    """(a document or JSON lines with a secret at every place at once, how many)."""
    whole = text.lstrip().startswith(("{\n", "[\n"))
    lines = [text] if whole else text.splitlines()
    count = 0
    for k, line in enumerate(lines[:2]):
        try:
            edited = [json.loads(one) for one in edits_of_text(line, number + k)]
        except ValueError:
            continue
        count += len(edited)
        lines[k] = json.dumps(merged(json.loads(line), edited))
    return "\n".join(lines), count


KWARGS = {
    "api_key": MARK,
    "chat_template_kwargs": {"token": MARK, "enable_thinking": True},
    "response_format": {"type": "json_object", "api_key": MARK},
    "llm_kwargs": {"tool_choice": {"type": "function", "Authorization": MARK}, "stop": ["x"]},
    "llm_call_kwargs": {
        "extra_body": {"guided_json": {"type": "object", "api_key": {MARK: MARK}}, "top_p": 0.9}
    },
    "extra_headers": {"Authorization": f"Bearer {MARK}"},
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of every source with a secret at every place."""
    tree = tmp_path_factory.mktemp("planted") / "tree"
    total = 0
    for number, run in enumerate(RUNS):
        copy = tree / str(number)
        shutil.copytree(FIXTURES / run, copy)
        for file in sorted(copy.rglob("*")):
            if file.suffix in (".json", ".jsonl") and file.name != "expected.json":
                text, count = planted(file.read_text(), number)
                file.write_text(text)
                total += count
            elif file.suffix in (".db", ".sqlite"):
                with closing(sqlite3.connect(file)) as base, base:
                    for query, values in dict(updates(base, number)).items():
                        base.execute(query, values)
                        total += 1
    for result in tree.rglob("result.json"):
        value = json.loads(result.read_text())
        if "trial_name" in value:
            value["config"]["agent"]["kwargs"] |= KWARGS
            result.write_text(json.dumps(value))
    assert total > 800
    return tree


def read(path: Path) -> str:
    """All that a file says, its columns unpacked."""
    said = path.read_bytes().decode("latin-1")
    return said + (repr(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else "")


def test_no_output_of_any_command_holds_one(tree: Path, tmp_path: Path) -> None:
    out, datums, sft = (str(tmp_path / name) for name in ("out", "datums", "sft"))
    address = f"tokenizer=https://u:{MARK}@host/x"
    commands: list[tuple[list[str], set[int]]] = [
        (["doctor", str(tree)], {0}),
        (["doctor", str(tree), "--json"], {0}),
        (["build", str(tree), "-o", out, "--dry-run"], {0}),
        (["build", str(tree), "-o", out, "--json", "--declare", address], {0}),
        (["build", str(tree), "-o", out, "--declare", address], {0}),
        (["build", str(tree), "-o", out, "--declare", f"x{address}"], {2}),
        (["build", str(tree), "-o", out, "--declare", f"tokenizer=https://u:{MARK}@b/y"], {2}),
        (["stats", out], {0}),
        (["stats", out, "--json"], {0}),
        *((["show", out, "--row", str(row)], {0, 2}) for row in range(40)),
        (["show", out, f"https://u:{MARK}@host"], {2}),
        (["verify", out, "--json"], {0}),
        (["datums", out, "-o", datums, "--json"], {0}),
        (["datums", out, "-o", sft, "--purpose", "sft"], {0}),
        (["verify", datums], {0}),
        (["score", datums, "-c", str(tmp_path / "c"), "--teacher", "t", "--dry-run"], {0}),
        *(
            (["export", datums, "-o", str(tmp_path / to), "--to", to, "--assume"], {0, 2, 4})
            for to in TARGETS
        ),
        *((["verify", str(tmp_path / to)], {0, 2}) for to in TARGETS),
    ]
    exported = 0
    for arguments, codes in commands:
        done = CliRunner().invoke(app, arguments)
        said = done.output + done.stderr + str(done.exception or "")
        code = done.exit_code
        if isinstance(done.exception, DistillError):
            code, said = done.exception.exit_code, without_credentials(said)  # as `main` does
        assert code in codes, (arguments, said)
        assert MARK not in said, arguments
        exported += arguments[0] == "export" and code == 0
    assert exported > 5
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        assert MARK not in read(path), path
    stated = json.loads((tmp_path / "out" / "manifest.json").read_text())["totals"]["issues"]
    assert stated["credential_cut"] > 30
    assert stated["sampling_left_out"] > 2
