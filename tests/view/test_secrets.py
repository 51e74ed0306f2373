"""The text of what `--on-secret` found is shown on demand alone, whichever calls it is in."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.decoding.makers import byte_level, saved
from tests.shards.generated import lawful, write_dataset
from wmo_distill.cli.app import app
from wmo_distill.decoding import load
from wmo_distill.records import Secret
from wmo_distill.tokens import TokenSpan
from wmo_distill.view.answers import Answers
from wmo_distill.view.text import KINDS

KEY = "ЖЩЮЫ"
"""Two ids a letter, and no letter of it is anywhere else."""
MARK = "⟦secret: rule⟧"
CHATS = {
    "in a completion": (("user: ", f"key {KEY} done"), (" ok? ", "yes")),
    "in a prompt": ((f"repeat {KEY}!", "done"),),
    "over a prompt's end": ((f"repeat {KEY[:2]}", f"{KEY[2:]} done"), (" ok? ", "yes")),
    "over two calls": (("user: ", f"key {KEY[:1]}"), (KEY[1:2], f"{KEY[2:]} done")),
}


def ids(text: str) -> list[int]:
    encoded: list[int] = byte_level().encode(text).ids
    return encoded


def chat(turns: tuple[tuple[str, str], ...]) -> tuple[list[TokenSpan], Secret]:
    """Calls of (what each prompt adds, what is sampled), and where the key is in them."""
    spans, before = [], ""
    for at, (added, sampled) in enumerate(turns):
        new = ids(sampled)
        spans.append(TokenSpan(at, ids(before + added), new, -np.linspace(0.1, 3, len(new))))
        before += added + sampled
    start = len(ids(before[: before.index(KEY)]))
    stop = start + len(ids(KEY))
    ends = [span.prompt_len + span.sampled.size for span in spans]
    return spans, Secret(0, next(at for at, end in enumerate(ends) if end >= stop), "rule",
        start, stop)  # fmt: skip


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    return saved(byte_level(), tmp_path)


Shown = Callable[[Path, Path, bool], str]


def shown_by(*flags: str) -> Shown:
    def show(out: Path, tokenizer: Path, secrets: bool) -> str:
        page = out.parent / f"{secrets}.html"
        more = [*(str(page) if flag == "PAGE" else flag for flag in flags)]
        more += ["--show-secrets"] * secrets
        result = CliRunner().invoke(app, ["show", str(out), "--tokenizer", str(tokenizer), *more])
        assert result.exit_code == 0, result.output
        return page.read_text("utf-8") if "PAGE" in flags else result.output

    return show


def answered(out: Path, tokenizer: Path, secrets: bool) -> str:
    answers = Answers(out, None, load(str(tokenizer)), show_secrets=secrets)
    return json.dumps(list(every_answer(answers)), ensure_ascii=False, default=np.ndarray.tolist)


def every_answer(answers: Answers) -> Iterator[object]:
    yield answers.start()
    yield answers.episodes({})
    yield answers.stats({})
    about = answers.episode("one")
    yield about
    for start in range(about["tokens"]):  # slices that begin anywhere
        yield answers.tokens("one", {"start": str(start), "stop": str(start + 9)})


SHOWN = {
    "terminal": shown_by("--tokens"),
    "each": shown_by("--each"),
    "page": shown_by("--html", "PAGE"),
    "view": answered,
}


@pytest.mark.parametrize("where", CHATS)
@pytest.mark.parametrize("shown", SHOWN)
def test_a_secret_is_nowhere_without_the_flag(
    where: str, shown: str, tmp_path: Path, tokenizer: Path
) -> None:
    spans, secret = chat(CHATS[where])
    write_dataset(tmp_path / "out", [[lawful("one", spans=tuple(spans), secrets=(secret,))]])
    text = SHOWN[shown](tmp_path / "out", tokenizer, False)
    assert MARK in text
    assert set(KEY).isdisjoint(text)
    text = SHOWN[shown](tmp_path / "out", tokenizer, True)
    assert MARK not in text
    assert set(KEY) <= set(text)


def test_ids_and_log_probabilities_stay(tmp_path: Path, tokenizer: Path) -> None:
    spans, secret = chat(CHATS["in a completion"])
    write_dataset(tmp_path / "out", [[lawful("one", spans=tuple(spans), secrets=(secret,))]])
    both = [SHOWN["each"](tmp_path / "out", tokenizer, flag).splitlines() for flag in (False, True)]
    hidden, _ = ([line.split() for line in lines if line.startswith("  >")] for lines in both)
    numbers = [(line[2], int(line[3])) for line in hidden[: spans[0].sampled.size]]
    assert numbers == [
        (f"{logprob:.4f}", token)
        for token, logprob in zip(spans[0].sampled.tolist(), spans[0].sampled_logprobs, strict=True)
    ]
    answers = Answers(tmp_path / "out", None, load(str(tokenizer)))
    found = answers.tokens("one", {})
    size = secret.stop - secret.start
    assert found["ids"][: secret.stop].tolist() == [*ids("user: "), *ids(f"key {KEY}")]
    assert found["text"][secret.start : secret.stop] == [MARK, *["▪"] * (size - 1)]
    kinds = [KINDS[kind].value for kind in found["kind"]]
    assert [at for at, kind in enumerate(kinds) if kind == "secret"] == [
        *range(secret.start, secret.stop)
    ]


def test_a_break_within_a_secret_shows_none_of_it(tmp_path: Path, tokenizer: Path) -> None:
    """The second prompt keeps half of the key and writes the rest: the first call has that half."""
    spans = [
        TokenSpan(0, ids("user: "), ids(f"key {KEY[:2]} so far")),
        TokenSpan(1, ids(f"user: key {KEY} done?"), ids("yes")),
    ]
    start = len(ids("user: key "))
    secret = Secret(0, 1, "rule", start, start + len(ids(KEY)))
    write_dataset(tmp_path / "out", [[lawful("one", spans=tuple(spans), secrets=(secret,))]])
    for shown in SHOWN.values():
        text = shown(tmp_path / "out", tokenizer, False)
        assert set(KEY).isdisjoint(text)
        assert text.count(MARK) >= 2


def test_every_copy_of_a_broken_chat_is_hidden(tmp_path: Path, tokenizer: Path) -> None:
    """A prompt that begins anew repeats the key: it is named there once more."""
    spans = [
        TokenSpan(0, ids(f"a {KEY}"), ids("b")),
        TokenSpan(1, ids(f"summary {KEY}"), ids("c")),
    ]
    secrets = tuple(
        Secret(0, at, "rule", len(ids(head)), len(ids(head + KEY)))
        for at, head in enumerate(("a ", "summary "))
    )
    write_dataset(tmp_path / "out", [[lawful("one", spans=tuple(spans), secrets=secrets)]])
    for shown in SHOWN.values():
        assert set(KEY).isdisjoint(shown(tmp_path / "out", tokenizer, False))
