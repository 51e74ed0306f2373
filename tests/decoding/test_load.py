"""Where a tokenizer comes from: files of this machine, and never from elsewhere."""

import base64
import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.decoding.makers import START, byte_level, saved
from wmo_distill.decoding import Kind, load
from wmo_distill.errors import UsageError

ROOT = Path(__file__).parents[2]
TRIALS = ROOT / "fixtures" / "tokenizers" / "trials"
RANKS = {bytes([byte]): byte for byte in range(256)} | {b"hi": 256}


def ranks_file(path: Path, ranks: dict[bytes, int]) -> Path:
    lines = (f"{base64.b64encode(data).decode()} {rank}\n" for data, rank in ranks.items())
    path.write_text("".join(lines))
    return path


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this file may as much as open a socket."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    load.cache_clear()


def test_a_file_and_the_folder_that_holds_it(tmp_path: Path) -> None:
    path = saved(byte_level(), tmp_path)
    ids = byte_level().encode(f"{START}hello").ids
    assert load(path).text(ids) == load(str(tmp_path)).text(ids) == f"{START}hello"
    assert load(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_folder_names_the_special_tokens_that_its_ranks_lack(tmp_path: Path) -> None:
    path = ranks_file(tmp_path / "x.tiktoken", RANKS)
    config = {"added_tokens_decoder": {"300": {"content": "<|end|>"}, "x": {"content": "no"}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "added_tokens.json").write_text('{"<|tool|>": 301, "<|other|>": 300}')
    pieces = load(tmp_path).pieces([256, 300, 301])
    assert [piece.text for piece in pieces] == ["hi", "<|end|>", "<|tool|>"]
    assert [piece.kind for piece in pieces] == [Kind.TEXT, Kind.SPECIAL, Kind.SPECIAL]
    assert [piece.kind for piece in load(path).pieces([256, 300])] == [Kind.TEXT, Kind.UNKNOWN]


@pytest.mark.parametrize("other", ["[]", "{", '{"added_tokens_decoder": [1]}', "\x00"])
def test_other_files_of_a_folder_may_hold_anything(tmp_path: Path, other: str) -> None:
    ranks_file(tmp_path / "tokenizer.model", RANKS)
    (tmp_path / "tokenizer_config.json").write_text(other)
    assert load(tmp_path).text([256]) == "hi"


def test_an_encoding_is_read_from_the_cache_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file with another hash the library would download again; that is refused too."""
    import tiktoken.load

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    place = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    own = tiktoken.load.read_file
    with pytest.raises(
        UsageError, match=f"cl100k_base in tiktoken's cache, found none; put {place}"
    ):
        load("cl100k_base")
    name = hashlib.sha1(place.encode()).hexdigest()
    ranks_file(tmp_path / name, RANKS)
    with pytest.raises(UsageError, match="tiktoken's cache"):
        load("cl100k_base")
    assert tiktoken.load.read_file is own
    ranks_file(tmp_path / name, RANKS | {b"the": 100256})
    monkeypatch.setattr(tiktoken.load, "check_hash", lambda *_: True)
    pieces = load("cl100k_base").pieces([256, 100257, 100256])
    assert [(piece.text, str(piece.kind)) for piece in pieces] == [
        ("hi", "text"), ("<|endoftext|>", "special"), ("the", "text")
    ]  # fmt: skip


def test_what_is_no_tokenizer_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.json").write_text('{"model": 1}')
    (tmp_path / "sentencepiece.model").write_bytes(b"\n\x0e\n\x05<unk>\x15\x00")
    (tmp_path / "none.tiktoken").touch()
    os.mkfifo(tmp_path / "fifo")
    for name, said in {
        "missing": "found no .*missing; check the path",
        "empty": "expected tokenizer.json or one tiktoken file in .*empty, found none",
        "a.json": "expected a tokenizer.json, found .*a.json: ",
        "sentencepiece.model": "`save_pretrained` of transformers writes a tokenizer.json",
        "none.tiktoken": "a file without tokens",
        "fifo": "found .*fifo: something that is no file",
    }.items():
        with pytest.raises(UsageError, match=f"^--tokenizer: .*{said}"):
            load(tmp_path / name)
    ranks_file(tmp_path / "two.tiktoken", RANKS)
    with pytest.raises(UsageError, match=r"found none.tiktoken, sentencepiece.model, two.tiktoken"):
        load(tmp_path)


@pytest.mark.parametrize("library", ["tokenizers", "tiktoken"])
def test_a_missing_extra_is_named(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(byte_level(), tmp_path)
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(UsageError, match=rf'found no {library}; pip install "wmo-distill\[tokens'):
        load(path if library == "tokenizers" else "gpt2")


def test_the_tokenizer_of_the_trials() -> None:
    """Part of cl100k_base, whose ids the trials in `fixtures/` have."""
    assert load(TRIALS).text([100264, 882, 198, 2675, 527]) == "<|im_start|>user\nYou are"


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("decoder", {"type": "Strip", "content": "h", "start": 0, "stop": 2}),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        ("decoder", {"type": "Replace", "pattern": {"Regex": "("}, "content": ""}),
        ("decoder", []),
    ],
)
def test_a_tokenizer_on_which_the_library_panics_is_refused(
    tmp_path: Path, part: str, value: object
) -> None:
    path = saved(byte_level(), tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), part: value}))
    with pytest.raises(UsageError, match="--tokenizer: expected a tokenizer"):
        load(path).pieces(range(300))


def test_no_tokenizer_has_a_negative_id(tmp_path: Path) -> None:
    for path in (saved(byte_level(), tmp_path), TRIALS):
        assert load(path).unknown([-1, 65, -(2**31)]) == [-(2**31), -1]
