"""Readers of one document each, held to what `json.loads` alone says of it."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tests.fuzz.oracle import recorded
from tests.proof.lm import LanguageModel
from tests.proof.server import form
from wmo_distill.errors import UsageError
from wmo_distill.files import Absent, TrialFiles
from wmo_distill.pipeline.cells import load_cells
from wmo_distill.scorers.http import read_echo, read_sglang, read_vllm
from wmo_distill.scorers.scorer import Score, ScoreError, checked
from wmo_distill.sources.harbor.ctrf import read_tests
from wmo_distill.sources.harbor.documents import read_result, read_trajectory_file
from wmo_distill.sources.harbor.plain import read_result_lists, read_step_lists
from wmo_distill.sources.harbor.rewards import read_rewards
from wmo_distill.sources.run_trace import read_run_trace
from wmo_distill.tokenjson.extras import Written
from wmo_distill.tokenjson.rows import UNREAD_IDS, UNREAD_LOGPROBS, IdRow, LogprobRow, whole_row

IDS = np.array([3, 1, 4, 1, 5], np.int32)
Check = Callable[[bytes], None]


def document(form: str, folder: Path) -> Check:
    """A result or a trajectory: the fast reader answers as the plain one does."""
    folder.mkdir(exist_ok=True)

    def check(data: bytes) -> None:
        files = TrialFiles(folder)  # of one trial: it counts what is parsed
        (folder / "x.json").write_bytes(data)
        value = files.read_json("x.json")
        reads: list[Any]
        if form == "result":
            reads = [read_result(files, "x.json", extra=extra) for extra in (True, False)]
            plain = read_result_lists
        else:
            reads = [read_trajectory_file(files, "x.json", unread=u) for u in (False, True)]
            plain = read_step_lists
        if isinstance(value, Absent):
            assert reads == [value, value]
            return
        plain(value)
        assert same(reads[0].value, value)
        assert same(reads[1].value, value, unread=True)

    return check


def same(value: Any, whole: Any, *, unread: bool = False) -> bool:
    """Whether a value is `whole`, bit for bit; with `unread` rows and extras may be left unread."""
    if isinstance(value, Written):
        if value.text is None:
            return unread
        value = value.value()
    if type(value) is not type(whole):
        return False
    if unread and (value is UNREAD_IDS or value is UNREAD_LOGPROBS):
        return not whole.missing
    if isinstance(value, IdRow):
        ids, others = whole_row(value), whole_row(whole)
        return value.missing == whole.missing and (
            ids is others if ids is None or others is None else np.array_equal(ids, others)
        )
    if isinstance(value, LogprobRow):
        pair = [None if v.values is None else v.values.tobytes() for v in (value, whole)]
        return (value.missing, value.nulls, pair[0]) == (whole.missing, whole.nulls, pair[1])
    if isinstance(value, dict):
        return value.keys() == whole.keys() and all(
            same(value[key], whole[key], unread=unread) for key in value
        )
    if isinstance(value, list):
        return len(value) == len(whole) and all(
            same(a, b, unread=unread) for a, b in zip(value, whole, strict=True)
        )
    return repr(value) == repr(whole)


def small_files(folder: Path) -> dict[str, tuple[bytes, Check]]:
    """The verifier's files, run traces and cells: read, or said to be unreadable."""
    files = TrialFiles(folder)
    readers: dict[str, tuple[bytes, Callable[[], object]]] = {
        "v/ctrf.json": (_REPORT, lambda: read_tests(files, "v")),
        "v/reward.json": (b'{"reward": 1.0, "b": -0.5}', lambda: read_rewards(files, "v")),
        "v/reward.txt": (b" 1.0e-2 \r\n", lambda: read_rewards(files, "v")),
        "agent/wmo-run.json": (b'{"stop_reason": "max_turns"}', lambda: read_run_trace(files, "")),
        "cells.json": (_CELLS, lambda: _cells(folder)),
        "cells.jsonl": (_CELLS[1:-1].replace(b"}, {", b"}\n{"), lambda: _cells(folder, "l")),
    }

    def checked_at(name: str, read: Callable[[], object]) -> Check:
        (folder / name).parent.mkdir(exist_ok=True)

        def check(data: bytes) -> None:
            (folder / name).write_bytes(data)
            read()
            (folder / name).unlink()

        return check

    return {name: (seed, checked_at(name, read)) for name, (seed, read) in readers.items()}


def _cells(folder: Path, ending: str = "") -> None:
    with suppress(UsageError):
        load_cells(folder / f"cells.json{ending}", [folder])


_REPORT = json.dumps(
    {"results": {
        "tool": {"name": "pytest"},
        "summary": {"tests": 3, "passed": 1, "failed": 1, "skipped": 1, "pending": 0, "other": 0},
        "tests": [{"name": name, "status": status, "retries": 1, "flaky": False, "suite": "s"}
                  for name, status in (("a", "passed"), ("b", "failed"), ("c", "skipped"))],
    }}
).encode()  # fmt: skip
_CELLS = json.dumps(
    [{"task_id": "a", "attempt": n, "reward": 0.5, "passed": False, "artifact_dir": f"v{n}/a__{n}",
      "note": "n", "infra_failed": False, "step_name": None,
      "tests": {"passed": 1, "resolved": 2, "unresolved": 0}} for n in (1, 2)]
).encode()  # fmt: skip


def answers() -> dict[str, tuple[bytes, Check]]:
    """Answers of servers about IDS: a score of recorded numbers, or a counted reason."""
    model, ids = LanguageModel(seed=5), IDS.tolist()
    values = [None, *model.logprobs(ids)[1:].tolist()]
    readers: dict[str, Callable[[Any, int], Score]] = {
        "vllm": lambda answer, top_k: read_vllm(answer, IDS, top_k),
        "sglang": lambda answer, top_k: read_sglang(answer, IDS, top_k),
        "echo": lambda answer, top_k: read_echo(answer, IDS),
    }
    found = {}
    for kind, read in readers.items():
        for top_k in (0, 2) if kind != "echo" else (0,):
            asked = {"prompt_logprobs": top_k, "top_logprobs_num": top_k, "echo": kind == "echo"}
            path = "/generate" if kind == "sglang" else "/v1/completions"
            seed = json.dumps(form(model, path, asked, ids, ids, values)).encode()
            found[f"{kind}-{top_k}"] = (seed, _answer_check(read, top_k))
    return found


def _answer_check(read: Callable[[Any, int], Score], top_k: int) -> Check:
    def check(data: bytes) -> None:
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        try:
            score = checked(read(answer, top_k), IDS.size)
        except ScoreError:
            return
        known = recorded([data]).numbers
        assert known.issuperset(score.logprobs[1:].tolist())
        assert np.isnan(score.logprobs[0])
        assert (score.logprobs[1:] <= 0.0).all()

    return check
