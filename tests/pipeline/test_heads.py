"""What the head of a result shows of its trial, without the rest."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline_trials import make_trial, put, result

from tests.pipeline.test_discovery import paths
from wmo_distill.files import TrialFiles
from wmo_distill.sources.finding import discover
from wmo_distill.tokenjson.head import FIRST_BYTES, HEAD_BYTES, Head, head_of, read_head


@given(st.data())
def test_a_head_knows_the_keys_of_the_outermost_object_only(data: st.DataObject) -> None:
    names = st.sampled_from(["id", "trial_name", "n_total_trials", "x", 'q"uote', "é", "\\"])
    leaf = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    value = st.recursive(
        leaf, lambda v: st.lists(v, max_size=3) | st.dictionaries(names, v, max_size=3)
    )
    document = data.draw(st.dictionaries(names, value, max_size=6))
    indent = data.draw(st.sampled_from([None, 4]))
    ascii_only = data.draw(st.booleans())
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    head = head_of(text)
    texts = {k: v if isinstance(v, str) else None for k, v in document.items()}
    if head.whole:
        assert head.keys == texts
    else:
        assert head.keys.keys() >= {"id", "trial_name"}
    cut = data.draw(st.integers(0, len(text)))
    assert head_of(text[:cut]).keys.keys() <= texts.keys()


@given(st.binary(max_size=60), st.sampled_from([b"", b"{", b'{"trial_name":', b"\xef\xbb\xbf{"]))
def test_a_head_of_anything_never_raises(data: bytes, start: bytes) -> None:
    head_of(start + data)


@pytest.mark.parametrize("size", [0, FIRST_BYTES, HEAD_BYTES - 40, HEAD_BYTES, 3 * HEAD_BYTES])
@pytest.mark.parametrize("indent", [None, 4])
def test_keys_are_found_wherever_they_stand(tmp_path: Path, size: int, indent: int | None) -> None:
    padding = {"padding": "p" * size, "more": list(range(50))}
    put(tmp_path / "root/a/result.json", json.dumps({**padding, "trial_name": "t"}, indent=indent))
    put(tmp_path / "root/b/result.json", json.dumps({**padding, "name": "t"}, indent=indent))
    put(
        tmp_path / "root/c/result.json",
        json.dumps({"n_total_trials": 1, **padding, "trial_results": [{"trial_name": "t"}]}),
    )
    assert paths(tmp_path / "root") == ["root/a"]


def test_a_large_result_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_trial(tmp_path / "t")
    with open(tmp_path / "t" / "result.json", "r+b") as file:
        file.truncate(1 << 40)

    def fail(*_: object) -> None:
        raise AssertionError("read whole")

    monkeypatch.setattr("wmo_distill.sources.harbor.discovery.read_result", fail)
    found = discover([tmp_path / "t"]).trials[0]
    assert (found.trial_name, found.trial_id) == ("t", result("t")["id"])


def test_an_identity_that_is_last_is_found_too(tmp_path: Path) -> None:
    value = {"padding": "x" * HEAD_BYTES, **result("t1", id="late")}
    put(tmp_path / "dir" / "result.json", value)
    put(tmp_path / "job" / "result.json", {"stats": "x" * HEAD_BYTES, "n_total_trials": 1})
    (trial,) = discover([tmp_path]).trials
    assert (trial.path, trial.trial_id, trial.trial_name) == (
        f"{tmp_path.name}/dir", "late", "t1",
    )  # fmt: skip


def test_heads_of_files(tmp_path: Path) -> None:
    put(tmp_path / "latin.json", "")
    (tmp_path / "latin.json").write_bytes(b'{"id": "\xe9", "trial_name": "t"}')
    head = read_head(TrialFiles(tmp_path), "latin.json")
    assert isinstance(head, Head)
    assert head.is_trial
    put(tmp_path / "bom.json", '\ufeff{"trial\\u005fname": "t\\ud800", "id": ""}')
    head = read_head(TrialFiles(tmp_path), "bom.json")
    assert isinstance(head, Head)
    assert (head.text("trial_name"), head.text("id")) == ("t\ufffd", None)
    rng = random.Random(0)
    for _ in range(200):
        data = result("t")
        items = list(data.items())
        rng.shuffle(items)
        put(tmp_path / "r.json", dict(items))
        head = read_head(TrialFiles(tmp_path), "r.json")
        assert isinstance(head, Head)
        assert (head.text("trial_name"), head.text("id")) == ("t", data["id"])
