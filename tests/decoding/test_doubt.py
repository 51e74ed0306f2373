"""A tokenizer that cannot be the right one is recognised, the right one never doubted."""

import json
from pathlib import Path

import numpy as np
import pytest

import wmo_distill
from tests.decoding.makers import byte_level, metaspace, saved
from wmo_distill.decoding import doubt, load
from wmo_distill.decoding.recorded import doubt_of, recorded_texts
from wmo_distill.records import TrialRecord
from wmo_distill.tokens import TokenSpan

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "fixtures" / "tokenizers" / "trials"
TEXT = "\n".join(f"please compute the totals of {word} again" for word in ("a", "all", "every")) * 2


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[TrialRecord]:
    out = tmp_path_factory.mktemp("doubt") / "out"
    wmo_distill.build(ROOT / "fixtures" / "trials", out, workers=1)
    return [record for record in wmo_distill.iter_records(out, superseded=True) if record.spans]


def test_the_trials_have_the_phrases_of_their_messages(records: list[TrialRecord]) -> None:
    """And neither the same vocabulary with other numbers, nor another one."""
    right = load(TOKENIZER)
    ranks = {**right.vocabulary._ranks}  # type: ignore[attr-defined]
    ids = sorted(ranks)
    turned = type(
        right.vocabulary
    )(  # type: ignore[call-arg]
        dict(zip(ids, [ranks[one] for one in (*ids[7:], *ids[:7])], strict=True)),
        right.vocabulary.special,
    )
    wrong = type(right)("turned", turned)
    assert len(records) > 40
    for record in records:
        assert doubt_of(right, record, ROOT / "fixtures") is None
        said = doubt_of(wrong, record, ROOT / "fixtures")
        assert said is not None, record.artifact_dir
        assert "phrases that the trial's messages have" in said


def test_ids_out_of_range(tmp_path: Path) -> None:
    decoder = load(saved(byte_level(), tmp_path))
    size = byte_level().get_vocab_size()
    assert doubt(decoder, np.array([1, 2, 3], np.int32)) is None
    assert doubt(decoder, np.array([1, 9_999, 2, 9_999, 70_000], np.int32)) == (
        f"3 of 5 ids are none of its {size:,}, such as 9999"
    )


def test_ranks_without_special_tokens_say_how_to_name_them() -> None:
    decoder = load(TOKENIZER / "trials.tiktoken")
    said = doubt(decoder, np.array([882, 198, 100264], np.int32))
    assert said is not None
    assert said.endswith("give the folder with tokenizer_config.json")


@pytest.mark.parametrize("form", ["{}", "sha256:{}", " {} "])
def test_a_fingerprint_that_is_a_digest_is_compared(form: str, tmp_path: Path) -> None:
    decoder = load(saved(byte_level(), tmp_path))
    none = np.zeros(0, np.int32)
    assert decoder.sha256 is not None
    assert doubt(decoder, none, fingerprint=form.format(decoder.sha256)) is None
    said = doubt(decoder, none, fingerprint=form.format("0" * 64))
    assert said == (f"its file has SHA-256 {decoder.sha256[:12]}…, the dataset records {'0' * 12}…")
    for other in ("Qwen/Qwen3-8B", "v1", "", None):
        assert doubt(decoder, none, fingerprint=other) is None


def test_few_phrases_say_nothing(tmp_path: Path) -> None:
    decoder = load(saved(metaspace(), tmp_path))
    ids = np.array(metaspace().encode("hi hi").ids, np.int32)
    assert doubt(decoder, ids, recorded=["never seven phrases"]) is None
    assert doubt(decoder, ids, recorded=[TEXT]) is not None
    assert doubt(decoder, np.array(metaspace().encode(TEXT).ids), recorded=[TEXT]) is None
    # No word of numbers counts, and a long text does not outweigh the others.
    assert doubt(decoder, ids, recorded=[" ".join(map(str, range(10_000)))]) is None


def record_of(path: str, *, step: str | None = None, extra: str | None = None) -> TrialRecord:
    return TrialRecord(
        artifact_dir=path, step_name=step, spans=(TokenSpan(0, [1], [2], extra=extra),)
    )


def test_texts_come_from_the_trial_where_it_is_still_there(tmp_path: Path) -> None:
    def written(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    written(
        "t/agent/trajectory.json", '{"steps": [{"message": "a"}, {"message": ["b"], "x": "no"}]}'
    )
    written("t/agent/trajectory.cont-1.json", '{"message": "c"}')
    written("t/agent/trajectory-broken.json", '{"message": "')
    written("t/agent/other.json", '{"message": "no"}')
    written("t/steps/s1/agent/trajectory.json", '[{"content": "d"}]')
    written("traces.jsonl", '{"id": "e1", "text": "x"}\n{"id": "e2", "text": "y"}\n{"id"')
    written("one.json", json.dumps({"id": "e1", "content": {"text": "z"}}))
    for record, texts in (
        (record_of("t"), ["c", "a", "b"]),
        (record_of("t", step="s1"), ["c", "a", "b", "d"]),
        (record_of("t", step="../../t"), ["c", "a", "b"]),
        (record_of("traces.jsonl#e2"), ["y"]),
        (record_of("one.json"), ["z"]),
        (record_of("gone"), []),
        (record_of("gone.json#1"), []),
        (record_of("gone", extra='{"content": "q", "n": 1}'), ["q"]),
        (record_of("gone", extra="{"), []),
    ):
        assert sorted(recorded_texts(record, tmp_path)) == sorted(texts), record


def test_no_link_leads_out_of_the_trial(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"message": "outside"}')
    (tmp_path / "t" / "agent").mkdir(parents=True)
    (tmp_path / "t" / "agent" / "trajectory.json").symlink_to(tmp_path / "secret.json")
    assert list(recorded_texts(record_of("t"), tmp_path)) == []
