"""Lines of `verifiers` runs that are torn or close too much, and runs that say something else."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.verifiers_bank import ANY_REWARD, BANK, built
from wmo_distill import build, iter_records
from wmo_distill.issues import Issue
from wmo_distill.sources.verifiers import outline
from wmo_distill.sources.verifiers.outline import outline_of

ROW = b'{"example_id": 0, "completion": [], "reward": 0.5'


@pytest.mark.parametrize("more", [b"]" * 40, b"}" * 40, b"}]}{}", b'} {"nodes": []}', b"}]"])
def test_a_line_ends_with_its_object(more: bytes) -> None:
    found = outline_of([ROW + more])
    assert not found.whole
    assert found.kind is not None


def test_a_whole_line() -> None:
    assert outline_of([ROW + b"} \r"]).whole


def test_a_text_without_an_end_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up once it is longer than any text may be."""
    monkeypatch.setattr(outline, "TEXT_BYTES", 100)
    taken = []

    def pieces() -> Iterator[bytes]:
        yield ROW + b', "info": "'
        for k in range(1000):
            taken.append(k)
            yield b"x" * 10

    found = outline_of(pieces())
    assert not found.whole
    assert len(taken) < 50


def test_a_run_that_was_killed_in_its_first_line(tmp_path: Path) -> None:
    """The line has a row, however little of it is left; a file of another program has none."""
    whole = (BANK / "0.4.0-rewards/run/traces.jsonl").read_bytes().partition(b"\n")[0]
    for k, torn in enumerate((whole[:1], whole[:30], bytes(512) + whole, whole[:-1])):
        (run := tmp_path / f"run-{k}").mkdir()
        (run / "traces.jsonl").write_bytes(torn)
        summary = build([run], tmp_path / f"out-{k}", workers=1)
        assert (summary.found, summary.skipped) == (1, {"line_unreadable": 1})
    (run / "traces.jsonl").write_bytes(b'{"span": "a"}\n{"span": "b')
    assert build([run], tmp_path / "other", workers=1).found == 0


@pytest.mark.parametrize(
    ("name", "file", "before", "after"),
    [
        ("0.2.1-api", "config.toml", b"num_rollouts = 1", b"num_rollouts = 4"),
        ("v0-plain", "metadata.json", b'"env_id": "', b'"env_id": "new-'),
    ],
)
def test_rows_hold_what_the_run_says_now(
    tmp_path: Path, name: str, file: str, before: bytes, after: bytes
) -> None:
    """Lines that stay are read again where the configuration says something else of them."""
    run = tmp_path / "run"
    shutil.copytree(BANK / name / "run", run)
    records = built(run, tmp_path / "out")
    config = (run / file).read_bytes()
    assert before in config
    (run / file).write_bytes(config.replace(before, after, 1))
    found = built(run, tmp_path / "out")
    assert found == built(run, tmp_path / "anew")
    assert found.keys() == records.keys()
    (run / file).write_bytes(config)
    assert build([run], tmp_path / "out", workers=1, reward_range=ANY_REWARD).read == len(records)
    (run / "unknown.toml").touch()
    assert build([run], tmp_path / "out", workers=1, reward_range=ANY_REWARD).read == 0


def test_a_configuration_of_any_depth_reaches_every_worker(tmp_path: Path) -> None:
    """What JSON reads at such a depth cannot be sent to another process; no build ends for it."""
    run = tmp_path / "run"
    shutil.copytree(BANK / "v0-plain" / "run", run)
    deep = "[" * 600 + "]" * 600
    (run / "metadata.json").write_text(f'{{"model": {deep}, "env_id": "e"}}')
    summary = build([run], tmp_path / "out", workers=2, reward_range=ANY_REWARD)
    assert summary.written == summary.found > 1
    for record in iter_records(tmp_path / "out"):
        assert (record.model_name, record.source) == (None, "e")
        assert Issue.VALUE_DAMAGED in record.issues
