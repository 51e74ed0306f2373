"""Secrets in the text of token ids are found across calls, named, masked or left out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline_trials import make_trial
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import wmo_distill
from wmo_distill.credentials import CUT
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.datum import TrainDatum
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import UsageError
from wmo_distill.issues import Issue
from wmo_distill.records import TrialRecord
from wmo_distill.report.record import render_record
from wmo_distill.scanner import Hit, merged, scanner_of
from wmo_distill.shards.manifest import read_manifest

KEY = "AKIAIOSFODNN7EXAMPLE"
TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def byte_tokenizer() -> Tokenizer:
    """One token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: k for k, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    byte_tokenizer().save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def ids(text: str) -> list[int]:
    encoded: list[int] = byte_tokenizer().encode(text).ids
    return encoded


def trial(root: Path, *texts: tuple[str, str], logprobs: bool = True) -> Path:
    """A clean chat of (what each prompt adds, what is sampled)."""
    prompts, completions, before = [], [], ""
    for added, sampled in texts:
        prompts.append(ids(before + added))
        completions.append(ids(sampled))
        before += added + sampled
    entry: dict[str, Any] = {"prompt_token_ids": prompts, "completion_token_ids": completions}
    if logprobs:
        entry["logprobs"] = [[-0.5] * len(one) for one in completions]
    details = {"rollout_details": [entry], "metadata": {"n_episodes": len(texts)}}
    return make_trial(root, agent_result=details)


def built(job: Path, out: Path, tokenizer: Path, action: str) -> TrialRecord:
    wmo_distill.build([job], out, on_secret=action, tokenizer=tokenizer, workers=1)
    assert wmo_distill.verify(out) == []
    (record,) = wmo_distill.iter_records(out)
    return record


def datums_of(out: Path, purpose: str) -> list[TrainDatum]:
    place = out.parent / f"{out.name}-{purpose}"
    build_datum_shards(out, place, purpose=purpose)
    assert wmo_distill.verify_datums(place) == []
    return [row.datum for row in iter_datums(place)]


CHATS = {
    "in a completion": (("user: ", f"key {KEY} done"), (" ok? ", "yes")),
    "over a prompt's end": ((f"repeat {KEY[:9]}", f"{KEY[9:]} done"), (" ok? ", "yes")),
    "over two calls": (("user: ", f"key {KEY[:7]}"), (KEY[7:12], f"{KEY[12:]} done")),
}


@pytest.mark.parametrize("purpose", ["rl", "sft"])
@pytest.mark.parametrize("where", CHATS)
def test_mask_takes_the_tokens_out_of_every_loss(
    where: str, purpose: str, tmp_path: Path, tokenizer: Path
) -> None:
    chat, out = CHATS[where], tmp_path / "out"
    record = built(trial(tmp_path / "job" / "t", *chat, logprobs=purpose == "rl"),
        out, tokenizer, "mask")  # fmt: skip
    whole = "".join(added + sampled for added, sampled in chat)
    (secret,) = record.secrets
    assert secret.rule == "AWS Access Key"
    assert (secret.start, secret.stop) == (whole.index(KEY), whole.index(KEY) + len(KEY))
    assert secret.masked
    (datum,) = datums_of(out, purpose)
    assert datum.token_ids.tolist() == ids(whole)  # promise 1: ids are as they were issued
    trained = "".join(np.array(list(whole))[datum.loss_mask].tolist())
    sampled = "".join(text for _, text in chat)
    for part in [KEY, KEY[9:], KEY[:7], KEY[12:]]:
        sampled = sampled.replace(part, "")
    assert trained == sampled


def test_a_secret_is_one_whichever_rules_know_it(tmp_path: Path, tokenizer: Path) -> None:
    """A key twice, known by a rule of detect-secrets and by ours: two secrets, and `show` says
    where."""
    made = trial(tmp_path / "job" / "t", ("user: ", f"{KEY} and {KEY}"), ("?", "ok"))
    record = built(made, tmp_path / "out", tokenizer, "mask")
    assert record.issues.count(Issue.SECRET_FOUND) == 2
    shown = [" ".join(line.split()) for line in render_record(record).splitlines()]
    assert f"secret_found 2 {Issue.SECRET_FOUND.meaning}" in shown
    assert shown[-2:] == ["0 0 6 to 25 masked AWS Access Key", "0 0 31 to 50 masked AWS Access Key"]


def test_rules_that_overlap_are_merged() -> None:
    hits = [Hit(3, 9, "credential"), Hit(3, 7, "B"), Hit(8, 10, "A"), Hit(10, 12, "credential")]
    assert merged(hits) == [Hit(3, 10, "A, B"), Hit(10, 12, "credential")]


@pytest.mark.parametrize("where", CHATS)
def test_flag_names_the_rule_and_trains_all(where: str, tmp_path: Path, tokenizer: Path) -> None:
    record = built(
        trial(tmp_path / "job" / "t", *CHATS[where]), tmp_path / "out", tokenizer, "flag"
    )
    assert record.issues.count(Issue.SECRET_FOUND) == 1
    assert [one.rule for one in record.secrets] == ["AWS Access Key"]
    (datum,) = datums_of(tmp_path / "out", "rl")
    assert datum.loss_tokens == sum(len(text) for _, text in CHATS[where])


def test_drop_keeps_the_row_and_counts_the_calls(tmp_path: Path, tokenizer: Path) -> None:
    job = trial(tmp_path / "job" / "t", ("say ", "nothing"), (" ", f"token {TOKEN}"))
    record = built(job, tmp_path / "out", tokenizer, "drop")
    assert record.spans == ()
    assert record.reward == 1.0
    assert record.issues.count("call_with_secret") == 2
    assert [one.rule for one in record.secrets] == ["GitHub Token"]
    totals = read_manifest(tmp_path / "out").totals
    assert (totals.calls_found, totals.calls) == (2, 0)
    assert totals.calls_dropped == {"call_with_secret": 2}


def test_what_holds_no_secret_is_as_without_the_option(tmp_path: Path, tokenizer: Path) -> None:
    job = trial(tmp_path / "job" / "t", ("say ", "hello"))
    wmo_distill.build([job], tmp_path / "plain")
    (plain,) = wmo_distill.iter_records(tmp_path / "plain")
    assert built(job, tmp_path / "out", tokenizer, "drop") == plain


def test_ids_of_another_tokenizer_are_reported(tmp_path: Path, tokenizer: Path) -> None:
    lists = {"prompt_token_ids": [[1]], "completion_token_ids": [[99_999]], "logprobs": [[-1.0]]}
    job = make_trial(tmp_path / "job" / "t", agent_result={"rollout_details": [lists]})
    assert "secrets_unseen" in built(job, tmp_path / "out", tokenizer, "flag").issues


def test_words_of_sentencepiece_keep_their_spaces(tmp_path: Path) -> None:
    words = ["<unk>", "\u2581key", "\u2581AKIAIOSF", "ODNN7EXAMPLE", "\u2581x"]
    made = Tokenizer(models.Unigram([(word, -1.0) for word in words], 0))
    made.decoder = decoders.Metaspace()
    made.save(str(tmp_path / "t.json"))
    hits, known = scanner_of(tmp_path / "t.json").search(np.array([1, 2, 3, 4], np.int32))
    assert known
    assert [hit[:2] for hit in hits if hit.rule == "AWS Access Key"] == [(1, 3)]


def test_a_folder_is_the_tokenizer_that_it_holds(tmp_path: Path, tokenizer: Path) -> None:
    job = trial(tmp_path / "job" / "t", ("user: ", f"key {KEY}"))
    by_file = built(job, tmp_path / "a", tokenizer, "flag")
    by_folder = built(job, tmp_path / "b", tokenizer.parent, "flag")
    assert by_file == by_folder
    assert len(by_folder.secrets) == 1
    digests = [read_manifest(tmp_path / name).options["tokenizer"] for name in ("a", "b")]
    assert digests[0] == digests[1]


def test_the_options_are_recorded_and_a_later_build_has_the_same(
    tmp_path: Path, tokenizer: Path
) -> None:
    job, out = trial(tmp_path / "job" / "t", ("say ", "hello")), tmp_path / "out"
    built(job, out, tokenizer, "mask")
    options = read_manifest(out).options
    assert options["on_secret"] == "mask"
    assert len(options["tokenizer"]) == 64
    with pytest.raises(UsageError, match="--on-secret: expected 'mask'"):
        wmo_distill.build([job], out)


def test_what_is_missing_is_named(tmp_path: Path, tokenizer: Path) -> None:
    job, out = trial(tmp_path / "job" / "t", ("say ", "hello")), tmp_path / "out"
    for options, said in (
        ({"on_secret": "flag"}, "--on-secret: expected --tokenizer too"),
        ({"tokenizer": tokenizer}, "--tokenizer: expected --on-secret too"),
        ({"on_secret": "flag", "tokenizer": tmp_path / "no.json"}, "expected a tokenizer.json"),
        ({"on_secret": "flag", "tokenizer": job / "result.json"}, "expected a tokenizer.json"),
    ):
        with pytest.raises(UsageError, match=said):
            wmo_distill.build([job], out, **options)
    with pytest.MonkeyPatch.context() as without:
        without.setitem(__import__("sys").modules, "tokenizers", None)
        scanner_of.cache_clear()
        with pytest.raises(UsageError, match=r"found no tokenizers; pip install"):
            wmo_distill.build([job], out, on_secret="flag", tokenizer=tokenizer)
    assert not out.exists()


def test_the_sink_of_a_trial_whose_name_was_cut_is_used(tmp_path: Path) -> None:
    make_trial(tmp_path / "job" / TOKEN)
    make_trial(tmp_path / "job" / "t2")
    sinks = tmp_path / "sinks"
    sinks.mkdir()
    for name in (TOKEN, "gone"):
        (sinks / f"{name}.jsonl").touch()
    summary = wmo_distill.build([tmp_path / "job"], tmp_path / "out", sinks=sinks, workers=1)
    assert CUT in {record.trial_name for record in wmo_distill.iter_records(tmp_path / "out")}
    assert summary.unused_sink_files == ["gone.jsonl"]
