"""Token sinks: what a torn, bad or unordered file gives, and the account of its lines."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.sink import Sink, SinkState, read_sink


def line(index: Any, **more: Any) -> bytes:
    call = {
        "call_index": index,
        "prompt_token_ids": [1],
        "sampled_token_ids": [2],
        "sampled_logprobs": [-0.1],
    }
    return json.dumps({**call, **more}).encode()


def sink(folder: Path, data: bytes) -> Sink:
    (folder / "a.jsonl").write_bytes(data)
    return read_sink(TrialFiles(folder), "a.jsonl")


@pytest.mark.parametrize("end", [b'{"ca', b'{"x": "\xe2', b'{"x": "', b"\0\0", b"{", b"nul"])
def test_a_torn_last_line_is_dropped(end: bytes, tmp_path: Path) -> None:
    read = sink(tmp_path, line(0) + b"\n" + end)
    assert (read.state, read.lines, read.issues) == (SinkState.READ, 1, (Issue.SINK_TORN_LINE,))


@pytest.mark.parametrize(
    "end", [b"5", b"null", b"[1, 2]", line(1) + line(2), b'{"x": "\xe9"}', b'{"x": 1} y']
)
@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_a_whole_line_that_is_no_object_is_not_torn(
    end: bytes, newline: bytes, tmp_path: Path
) -> None:
    read = sink(tmp_path, line(0) + b"\n" + end + newline)
    assert (read.state, read.lines) == (SinkState.CORRUPT, 2)
    assert Counter(read.issues) == {Issue.SINK_CORRUPT: 1, Issue.CALL_IN_CORRUPT_SINK: 2}


@pytest.mark.parametrize("data", [b"", b"\n \r\n", line(0), line(0) + b"\r\n\r\n" + line(1)])
def test_whole_lines_without_fault(data: bytes, tmp_path: Path) -> None:
    read = sink(tmp_path, data)
    assert (read.state, read.issues) == (SinkState.READ, ())
    assert read.lines == len(read.calls) == data.count(b"{")


@pytest.mark.parametrize("indices", [[0, 0], [0, 2], [1, 2], [0, True], [0, 1.0], [0, None]])
def test_call_indices_that_are_not_each_once(indices: list[Any], tmp_path: Path) -> None:
    assert sink(tmp_path, b"\n".join(map(line, indices))).state is SinkState.CORRUPT


def test_lines_out_of_order_are_sorted(tmp_path: Path) -> None:
    read = sink(tmp_path, b"\n".join(map(line, [1, 2, 0])))
    assert [call.call_index for call in read.calls] == [0, 1, 2]
    assert read.issues == (Issue.SINK_OUT_OF_ORDER,)
