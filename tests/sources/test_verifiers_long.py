"""Lines of any length: read in pieces, and equal to what is read of the whole line."""

import json
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.sources.verifiers_bank import BANK, RUNS
from wmo_distill import BuildOptions
from wmo_distill.shards.digest import row_digest
from wmo_distill.sources.finding import discover
from wmo_distill.sources.verifiers import document
from wmo_distill.sources.verifiers.document import Mask, mask_of, value_at
from wmo_distill.sources.verifiers.outline import outline_of
from wmo_distill.tokenjson import flat
from wmo_distill.trial import read_found

LINE = json.dumps(
    {
        "id": "e",
        "note": 'x"] [{' * 30,
        "traces": [
            {"id": "t", "nodes": [{"token_ids": list(range(40)), "mask": [True] * 40}]},
            {"nodes": [], "id": "ü\u2028", "task": [[1], {"id": "no"}]},
            7,
        ],
        "z": [],
    }
).encode()


def digests(run: Path, **options: Any) -> list[bytes]:
    trials = discover([run]).trials
    assert trials
    return [
        row_digest(record)
        for trial in trials
        for record in read_found(trial, BuildOptions(**options)).records
    ]


@pytest.mark.parametrize("run", RUNS)
def test_a_long_line_reads_as_a_short_one(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not discover([BANK / run]).trials:
        pytest.skip("a run without a line")
    expected = digests(BANK / run)
    monkeypatch.setattr(document, "LONG", 0)
    assert digests(BANK / run) == expected
    monkeypatch.setattr(flat, "WINDOW", 150)
    assert digests(BANK / run) == expected


@given(cuts=st.lists(st.integers(0, len(LINE)), max_size=12), end=st.integers(0, len(LINE)))
@settings(max_examples=examples(200))
def test_the_outline_does_not_depend_on_the_pieces(cuts: list[int], end: int) -> None:
    for line in (LINE, LINE[:end], LINE + b" ", LINE + b"x", b" \t" + LINE):
        edges = sorted({0, len(line), *(cut for cut in cuts if cut <= len(line))})
        pieces = [line[a:b] for a, b in pairwise(edges)]
        assert outline_of(pieces) == outline_of([line])
    assert outline_of([LINE]).whole
    assert not outline_of([LINE + b"x"]).whole


@pytest.mark.parametrize(
    ("text", "k"),
    [
        ("[false,false,true]", 1),
        ("[ false , true ]", 1),
        ("[true,false]", None),
        ("[]", 0),
        ("[true,1]", None),
        ('[true,"false"]', None),
        ("[null]", None),
        ("[truefalse]", "no JSON"),
        ("[true,,true]", "no JSON"),
        ("[[true]]", None),
    ],
)
def test_a_mask_by_its_text_and_as_a_list(
    text: str, k: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "LONG", 0)
    path = tmp_path / "line"
    path.write_text(f'{{"nodes":[{{"mask":{text}}}]}}')
    with path.open("rb", buffering=0) as file:
        value = value_at(file, 0, path.stat().st_size)
    if k == "no JSON":
        assert not isinstance(value, dict)
        return
    found = mask_of(value["nodes"][0]["mask"])
    assert found == Mask(len(json.loads(text)), k)


@pytest.mark.parametrize(
    "value",
    [
        {"nodes": [{"token_ids": [1], "message": {"mask": [True]}}]},
        {"nodes": [{"token_ids": [[1]], "logprobs": ["x"]}], "mask": [1]},
        {"nodes": [{"token_ids": [1.5, -1], "logprobs": [None, -1]}, 5], "logprobs": {"mask": []}},
        {"nodes": {"token_ids": [1]}, "trajectory": [{"tokens": None}, {"prompt_ids": [3]}]},
        {'x"token_ids': [1], "nodes": []},
        {"nodes": [{"token_ids": [2**31]}]},
    ],
)
def test_lists_in_other_places_stay_what_they_are(
    value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps({"id": "t", "nodes": [], **value}, separators=(",", ":")) + "\n")
    expected = digests(tmp_path)
    monkeypatch.setattr(document, "LONG", 0)
    assert digests(tmp_path) == expected


def test_the_last_of_two_lists_of_nodes_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key is written with an escape, which only a parser sees."""
    nodes = json.dumps([{"token_ids": [1, 2], "mask": [False, True], "sampled": True}])
    line = f'{{"id":"t","nodes":{nodes},"n\\u006fdes":[]}}'
    (tmp_path / "traces.jsonl").write_text(line)
    expected = digests(tmp_path)
    monkeypatch.setattr(document, "LONG", 0)
    assert digests(tmp_path) == expected


def test_a_long_line_takes_its_tokens_and_not_its_text(tmp_path: Path) -> None:
    """9 MB of text hold 400,000 ids: 1.6 MB, and as many log-probabilities: 3.2 MB."""
    n, nodes = 4_000, []
    for k in range(100):
        ids = [100_000 + (i * 7919 + k) % 50_000 for i in range(n)]
        node = {"token_ids": ids, "mask": [True] * n, "is_content": [True] * n, "parent": k - 1}
        nodes.append({**node, "sampled": True, "logprobs": [-0.1234] * n})
    del nodes[0]["parent"]
    text = json.dumps({"id": "t", "nodes": nodes}, separators=(",", ":"))
    (tmp_path / "traces.jsonl").write_text(text)
    size = len(text)
    del text, nodes
    assert size > 2 * document.LONG
    (trial,) = discover([tmp_path]).trials
    tracemalloc.start()
    try:
        (record,) = read_found(trial, BuildOptions(extra=False)).records
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(span.sampled.size for span in record.spans) == 99 * n  # the first node has no prompt
    assert peak < 2.5 * size


def test_a_trace_with_its_nulls_written_reads_as_one_without(tmp_path: Path) -> None:
    """`Trace.to_record` writes null for whatever is not set, the parent of a root among it."""
    nodes: list[dict[str, Any]] = [
        {"token_ids": [1, 2, 3], "mask": [False] * 3},
        {"token_ids": [4, 5], "mask": [False, True], "sampled": True, "logprobs": [-0.5]},
        {"token_ids": [6], "mask": [False]},
        {"token_ids": [7, 8], "mask": [False, True], "sampled": True, "logprobs": [-0.25]},
    ]
    for at, node in enumerate(nodes[1:]):
        node["parent"] = at
    nulls = dict.fromkeys(("parent", "routed_experts", "kept_tokens", "advantages", "timestamp"))
    found = []
    for name, of_each in (("without", {}), ("with", nulls)):
        (tmp_path / name).mkdir()
        trace = {"id": "t", "nodes": [{**of_each, **node} for node in nodes]}
        (tmp_path / name / "traces.jsonl").write_text(json.dumps(trace) + "\n")
        (trial,) = discover([tmp_path / name]).trials
        (record,) = read_found(trial, BuildOptions()).records
        found.append(([span.sampled.tolist() for span in record.spans], record.issues))
    assert found[0] == found[1]
    assert found[0][0] == [[5], [8]]
