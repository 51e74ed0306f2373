"""The benchmark's files are as the recorders' own packages write them."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.bench import captures


def schema_of(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as db:
        found = [sql for (sql,) in db.execute("SELECT sql FROM sqlite_master") if sql]
    return {re.sub(r"\s*([(),])\s*", r"\1", " ".join(sql.split())) for sql in found}


def test_traces_of_rllms_gateway(tmp_path: Path) -> None:
    data = pytest.importorskip("rllm_model_gateway.data_process", exc_type=ImportError)
    store = pytest.importorskip("rllm_model_gateway.store.sqlite_store", exc_type=ImportError)
    call = next(captures.calls())
    ours = captures.trace_of(call)
    asked, answer = captures.request_of(call), captures.answer_of(call)
    made = data.build_trace_record(ours["session_id"], asked, answer, ours["latency_ms"])
    theirs = {**made.model_dump(), **{name: ours[name] for name in ("trace_id", "timestamp")}}
    assert json.dumps(theirs) == json.dumps(ours)

    async def write() -> None:
        opened = store.SqliteTraceStore(str(tmp_path / "theirs.db"))
        await opened.store_trace(theirs["trace_id"], theirs["session_id"], theirs)
        await opened.close()

    asyncio.run(write())
    captures.write_gateway(tmp_path, 1)
    assert schema_of(tmp_path / "gateway.db") == schema_of(tmp_path / "theirs.db")


def test_rows_of_tinkers_store(tmp_path: Path) -> None:
    client = pytest.importorskip("tinker_cookbook.capture.store.client", exc_type=ImportError)
    store = pytest.importorskip("tinker_cookbook.capture.store.db", exc_type=ImportError)
    captures.write_tinker_store(tmp_path, 1)
    opened = store.CaptureDB(tmp_path / "theirs.sqlite")
    record = captures.tinker_record(next(captures.calls()))
    opened.ingest_wire(client.wire_rows_from_sample_record(record))
    opened.close()
    assert schema_of(tmp_path / "capture.sqlite") == schema_of(tmp_path / "theirs.sqlite")
    rows = []
    for name in ("capture.sqlite", "theirs.sqlite"):
        with closing(sqlite3.connect(tmp_path / name)) as db:
            rows.append(db.execute("SELECT * FROM wire_rows WHERE cursor = 1").fetchone())
    assert rows[0] == rows[1]
