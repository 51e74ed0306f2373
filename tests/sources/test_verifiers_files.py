"""`verifiers` files that grow, are rewritten, torn, damaged, or long."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.sources.verifiers_bank import (
    BANK,
    built,
    expected_of,
    expected_traces,
    said_call,
    said_span,
)
from wmo_distill import build, build_datum_shards, export_datums, iter_records, verify
from wmo_distill.sources.verifiers import lines
from wmo_distill.sources.verifiers.outline import Kind, outline_of

RUN = BANK / "0.4.0-resume" / "run"
FILE = "traces.jsonl"


def whole_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def tree_of(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted((path / "parts").iterdir())}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(RUN, tmp_path / "runs" / "one")
    return tmp_path / "runs" / "one"


def test_a_file_that_grew_costs_its_new_lines(run: Path, tmp_path: Path) -> None:
    recorded = whole_lines(run / FILE)
    (run / FILE).write_bytes(b"".join(recorded[:4]))
    out = tmp_path / "out"
    assert build([run], out, workers=1).read == 4
    with open(run / FILE, "ab") as file:
        file.write(b"".join(recorded[4:]))
    again = build([run], out, workers=1)
    assert (again.read, again.written) == (len(recorded) - 4, len(recorded))
    assert verify(out) == []
    fresh = built(run, tmp_path / "fresh")
    grown = {record.trial_id: record for record in iter_records(out)}
    assert {k: r.spans for k, r in grown.items()} == {k: r.spans for k, r in fresh.items()}
    assert build([run], out, workers=1).read == 0


def test_lines_may_move_and_go(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build([run], out, workers=1)
    recorded = whole_lines(run / FILE)
    (run / FILE).write_bytes(b"".join(recorded[:0:-1]))
    again = build([run], out, workers=1)
    assert (again.read, again.removed, again.written) == (0, 1, len(recorded) - 1)
    recorded[1] = recorded[1].replace(b'"agent_completed"', b'"max_total_tokens"')
    (run / FILE).write_bytes(b"".join(recorded[:0:-1]))
    assert build([run], out, workers=1).read == 1


def test_a_torn_line_is_read_when_it_is_whole(run: Path, tmp_path: Path) -> None:
    whole = (run / FILE).read_bytes()
    (run / FILE).write_bytes(whole[:-20])
    out = tmp_path / "out"
    summary = build([run], out, workers=1)
    assert (summary.written, summary.skipped) == (5, {"line_unreadable": 1})
    (run / FILE).write_bytes(whole[:-1])  # its line break is still to come
    again = build([run], out, workers=1)
    assert (again.read, again.written, again.skipped, again.removed) == (1, 6, {}, 1)


def test_a_line_that_changes_while_it_is_read(run: Path, tmp_path: Path) -> None:
    from wmo_distill.sources.finding import discover
    from wmo_distill.sources.verifiers.source import Verifiers
    from wmo_distill.trial import read_found

    found = discover([run]).trials[0]
    source = Verifiers()
    before = source.state(found, None)
    with open(run / FILE, "ab") as file:
        file.write(b"{}\n")
    assert source.state(found, None) == before
    (run / FILE).write_bytes(b" " * 10)
    assert source.state(found, None) != before
    (record,) = read_found(found, _options()).records
    assert (record.trial_id, record.spans) == (found.trial_id, ())


def _options() -> Any:
    from wmo_distill import BuildOptions

    return BuildOptions()


def test_a_file_that_has_begun_and_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / FILE).touch()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / FILE).write_text('{"name": "span", "start": 1}\n' * 20)
    (tmp_path / "c" / "logs").mkdir(parents=True)
    shutil.copyfile(RUN / FILE, tmp_path / "c" / FILE)
    shutil.copyfile(RUN / FILE, tmp_path / "c" / "logs" / FILE)
    assert build([tmp_path], tmp_path / "out", workers=1).found == 6


@pytest.mark.parametrize("window", [1, 7, 4096])
def test_lines_are_found_across_the_edges_of_windows(
    window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"a": 1}\n\n \r\n{"b": "\xe2\x80\xa8"}\nlast')
    monkeypatch.setattr(lines, "WINDOW", window)
    found = [(line.offset, b"".join(line), line.blank) for line in lines.lines_of(path)]
    assert [(at, text) for at, text, blank in found if not blank] == [
        (0, b'{"a": 1}'), (13, b'{"b": "\xe2\x80\xa8"}'), (26, b"last")
    ]  # fmt: skip


def test_any_number_of_workers_gives_the_same_bytes(tmp_path: Path) -> None:
    runs = [BANK / name for name in ("0.4.0-primerl_duo", "0.4.1.dev86-compaction", "v0-tokens")]
    build(runs, tmp_path / "one", workers=1)
    build(runs, tmp_path / "three", workers=3)
    assert tree_of(tmp_path / "one") == tree_of(tmp_path / "three")


def test_datums_and_an_export(tmp_path: Path) -> None:
    declare = {"logprob_mode": "raw"}
    build([BANK / "0.4.1.dev86-weights"], tmp_path / "out", workers=1, declare=declare)
    datums = build_datum_shards(tmp_path / "out", tmp_path / "datums")
    traces = expected_traces("0.4.1.dev86-weights").values()
    trained = sum(one["n_trained"] for trace in traces for one in trace["sequences"])
    assert datums.stats.loss_tokens == trained
    assert export_datums(tmp_path / "datums", tmp_path / "verl", "verl").exported == len(traces)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "traces", "nodes", '"]']), inner, max_size=3)
    ),
    max_leaves=12,
)
TRACE = st.fixed_dictionaries(
    {"nodes": st.lists(JSON, max_size=2)}, optional={"id": JSON, "task": JSON}
)


def text_id(value: dict[str, Any]) -> str | None:
    found = value.get("id")
    return found if isinstance(found, str) and found else None


@given(
    st.fixed_dictionaries(
        {"traces": st.lists(TRACE | JSON, max_size=3)}, optional={"id": JSON, "task": JSON}
    ),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]),
    st.booleans(),
)
@settings(max_examples=examples(250))
@example({"traces": [{"nodes": [], "id": "x"}], "id": "e"}, (",", ":"), True)
def test_the_outline_of_a_line_is_what_json_says(
    value: dict[str, Any], separators: tuple[str, str], ascii_only: bool
) -> None:
    line = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    )
    found = outline_of([line])
    traces = [trace for trace in value["traces"] if isinstance(trace, dict)]
    assert (found.kind, found.whole) == (Kind.EPISODE, True)
    assert found.own_id == text_id(value)
    assert [json.loads(line[cut.start : cut.stop]) for cut in found.cuts] == traces
    assert [cut.own_id for cut in found.cuts] == list(map(text_id, traces))
    begin, end = found.listed
    assert json.loads(line[begin:end]) == value["traces"]
    assert not any(outline_of([line[:cut]]).whole for cut in range(len(line)))


def mutations(data: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with a few of them altered, cut out or repeated."""
    spot = st.integers(0, len(data) - 1)
    piece = st.sampled_from(
        [b"", b"0", b"9", b",", b"null", b'"', b"}", b"]", b"[", b"true", b"\n", b"\xff", b"-1"]
    )
    change = st.tuples(spot, st.integers(0, 12), piece)

    def mutated(changes: list[tuple[int, int, bytes]]) -> bytes:
        result = data
        for at, cut, new in changes:
            result = result[:at] + new + result[at + cut :]
        return result

    return st.lists(change, min_size=1, max_size=4).map(mutated)


DAMAGED = [("0.2.1-retry", FILE), ("0.4.1.dev86-compaction", FILE), ("v0-tokens", "results.jsonl")]


@pytest.mark.parametrize(("name", "file"), DAMAGED)
def test_damage_never_raises(
    name: str, file: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = (BANK / name / "run" / file).read_bytes()
    folder = tmp_path_factory.mktemp("damage")
    (folder / "run").mkdir()

    @given(mutations(data))
    @settings(max_examples=examples(25))
    def check(mutated: bytes) -> None:
        (folder / "run" / file).write_bytes(mutated)
        out = folder / "out"
        summary = build([folder / "run"], out, workers=1, fresh=True)
        assert not {"read_failed", "calls_unbalanced"} & summary.skipped.keys()
        assert verify(out) == []

    check()


@pytest.mark.parametrize(("name", "file"), DAMAGED)
def test_a_broken_byte_gives_nothing_that_nobody_sampled(
    name: str, file: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any byte but one digit for another: that alone would be an id like any other."""
    data = (BANK / name / "run" / file).read_bytes()
    folder = tmp_path_factory.mktemp("damage")
    (folder / "run").mkdir()
    lines = expected_of(name)["files"][file]
    calls = [call for line in lines for t in line.get("traces", ()) for call in t["calls"]]
    steps = [step for line in lines for step in line.get("steps", ())]
    want = {said_call(call)[1:] for call in (*calls, *steps)}
    bytes_of = st.sampled_from([b",", b'"', b"x", b"]", b"}", b"[", b"{", b":", b"\n", b"\x80"])

    @given(st.lists(st.tuples(st.integers(0, len(data) - 1), bytes_of), min_size=1, max_size=3))
    @settings(max_examples=examples(25))
    def check(changes: list[tuple[int, bytes]]) -> None:
        mutated = bytearray(data)
        for at, new in changes:
            mutated[at : at + 1] = new
        (folder / "run" / file).write_bytes(mutated)
        for record in built(folder / "run", folder / "out", fresh=True).values():
            for span in record.spans:
                _, sampled, logprobs = said_span(span)
                assert (sampled, logprobs) in want or logprobs is None
                assert sampled in {ids for ids, _ in want} or not sampled

    check()


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        (b'"token_ids":[', b'"token_ids":[-1,', 8 + 2),
        (b'"token_ids":[', b'"token_ids":[1.5,', 8 + 2),
        (b'"token_ids":[', b'"token_ids":null,"x":[', 8 + 2),
        (b'"logprobs":[-', b'"logprobs":["x",-', 13),
        (b'"parent":0', b'"parent":-1', 8 + 2),
        (b'"parent":0', b'"parent":1e1', 8 + 2),
        (b'"sampled":true', b'"sampled":1', 12),
        (b'"nodes":[', b'"nodes":[7', 8),
    ],
)
def test_a_damaged_field_gives_no_other_calls(
    old: bytes, new: bytes, left: int, tmp_path: Path
) -> None:
    """The first field of its name is damaged; the calls that are left are as they were sampled."""
    name = "0.4.1.dev86-compaction"
    (tmp_path / "run").mkdir()
    data = (BANK / name / "run" / FILE).read_bytes()
    assert old in data
    (tmp_path / "run" / FILE).write_bytes(data.replace(old, new, 1))
    records = built(tmp_path / "run", tmp_path / "out")
    want = [said_call(call) for t in expected_traces(name).values() for call in t["calls"]]
    found = [said_span(span) for record in records.values() for span in record.spans]
    assert len(found) == left
    for prompt, sampled, logprobs in found:
        same = [call[2] for call in want if call[:2] == (prompt, sampled)]
        assert logprobs in same or (same and logprobs is None)
