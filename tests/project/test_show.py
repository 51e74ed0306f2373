"""`show`: an episode by a part of its name, as a summary, as tokens, as a page."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wmo_distill.report.tables import size

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "fixtures" / "tokenizers" / "trials"
NAME = "csv-totals__mEySMRg"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_tokens_as_text(run: Run, dataset: Path) -> None:
    done = run("show", dataset, "mEySM", "--tokenizer", TOKENIZER)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == f"{NAME}, terminal-bench/csv-totals, reward 1, submitted"
    assert "segment 0 main, call 0" in lines
    assert (
        "  718 fed in = 0 as before + 718 new, 109 sampled, mean log-probability -0.2507" in lines
    )
    assert "  | ⟦<|im_start|>⟧user⏎" in lines
    assert '  >   "task_complete": true⏎' in lines
    assert any(line.startswith("  break (summarized): keeps ") for line in lines)
    assert lines[-1].endswith("⟦<|im_end|>⟧")


def test_the_text_is_that_of_the_ids(run: Run, dataset: Path) -> None:
    """Against the ids of the row, put together without any code of `show`."""
    from wmo_distill.decoding import load

    shown = run("show", dataset, NAME, "--tokenizer", TOKENIZER).stdout
    (row,) = json.loads(run("show", dataset, NAME, "--json").stdout)
    decoder = load(TOKENIZER)
    for gutter, column in (("  | ", "prompt_suffix"), ("  > ", "sampled_token_ids")):
        found = "".join(
            line.removeprefix(gutter).removesuffix("⏎") + "\n" * line.endswith("⏎")
            for line in shown.splitlines()[2:]
            if line.startswith(gutter)
        )
        wanted = "".join(decoder.text(span[column]) for span in row["spans"])
        assert re.sub("[⟦⟧]", "", found) == wanted


def test_ids_without_a_tokenizer(run: Run, dataset: Path) -> None:
    shown = run("show", dataset, NAME, "--tokens").stdout
    (row,) = json.loads(run("show", dataset, NAME, "--json").stdout)
    for gutter, column in (("  | ", "prompt_suffix"), ("  > ", "sampled_token_ids")):
        lines = [line for line in shown.splitlines()[2:] if line.startswith(gutter)]
        ids = [int(token) for line in lines for token in line.split()[1:]]
        assert ids == [token for span in row["spans"] for token in span[column]]


def test_each_token_on_a_line(run: Run, dataset: Path) -> None:
    shown = run("show", dataset, NAME, "--each", "--tokenizer", TOKENIZER).stdout
    (row,) = json.loads(run("show", dataset, NAME, "--json").stdout)
    lines = [line.split() for line in shown.splitlines()[2:] if line.startswith("  > ")]
    spans = row["spans"]
    assert [int(words[3]) for words in lines] == [t for s in spans for t in s["sampled_token_ids"]]
    logprobs = [x for s in spans for x in s["sampled_logprobs"]]
    assert [words[2] for words in lines] == [f"{x:.4f}" for x in logprobs]
    assert "<|im_end|>  special" in shown


def test_another_tokenizer_is_said_and_not_shown(run: Run, dataset: Path, tmp_path: Path) -> None:
    turned = tmp_path / "turned.tiktoken"
    lines = (TOKENIZER / "trials.tiktoken").read_text().split()
    words, ranks = lines[::2], lines[1::2]
    turned.write_text("".join(f"{w} {r}\n" for w, r in zip(words[::-1], ranks, strict=True)))
    (tmp_path / "tokenizer_config.json").write_bytes(
        (TOKENIZER / "tokenizer_config.json").read_bytes()
    )
    done = run("show", dataset, NAME, "--tokenizer", tmp_path)
    assert done.returncode == 0
    assert re.fullmatch(
        rf"wmo-distill: --tokenizer: expected that of {NAME}, found another: its text has \d+ of "
        r"\d+ phrases that the trial's messages have; ids are shown, give the model's own or "
        r"--trust-tokenizer\n",
        done.stderr,
    )
    assert done.stdout == run("show", dataset, NAME, "--tokens").stdout
    trusted = run("show", dataset, NAME, "--tokenizer", tmp_path, "--trust-tokenizer")
    assert trusted.stderr == ""
    assert "⟦<|im_start|>⟧" in trusted.stdout


def test_a_name_of_several_is_answered_with_all_of_them(run: Run, dataset: Path) -> None:
    done = run("show", dataset, "csv-totals")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"found \d\d: csv-totals[\w-]+, .* more; give more", done.stderr)
    steps = run("show", dataset, "sales-report-steptimeout__B95wVyd", "--tokens")
    assert steps.stdout.count("sales-report-steptimeout__B95wVyd, ") == 3


def terminal(command: list[object], **environment: str) -> tuple[int, bytes]:
    """(exit code, what a terminal gets); NO_COLOR of the tests themselves is left out."""
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LESS", "PAGER")}
    env |= {"PYTHONPATH": str(ROOT), "TERM": "xterm", **environment}
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "wmo_distill", *map(str, command)],
        stdin=slave, stdout=slave, stderr=slave, env=env,
    ) as process:  # fmt: skip
        os.close(slave)
        got = []
        while True:
            try:
                data = os.read(master, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            got.append(data)
        os.close(master)
    return process.returncode, b"".join(got)


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"PAGER": "cat"}, True), ({"PAGER": "cat", "NO_COLOR": "1"}, False),
     ({"PAGER": "cat", "TERM": "dumb"}, False), ({"PAGER": "tail -n 5"}, True),
     ({"PAGER": "no such pager"}, True), ({"PAGER": "'"}, True)],
)  # fmt: skip
def test_a_terminal_has_colours_and_a_pager(
    dataset: Path, environment: dict[str, str], coloured: bool
) -> None:
    code, got = terminal(["show", dataset, NAME, "--tokenizer", TOKENIZER], **environment)
    assert code == 0
    assert (b"\x1b[" in got) is coloured
    lines = got.decode().splitlines()
    assert len(lines) == 5 if "tail" in environment["PAGER"] else len(lines) > 500
    if coloured:
        assert "\x1b[0m" in lines[-1]


def test_who_leaves_the_pager_early_gets_no_error(dataset: Path) -> None:
    code, got = terminal(["show", dataset, NAME, "--tokenizer", TOKENIZER], PAGER="head -n 1")
    assert code == 0
    assert got.decode().splitlines() == [
        f"\x1b[1m{NAME}, terminal-bench/csv-totals, reward 1, submitted\x1b[0m"
    ]


def test_who_reads_a_pipe_may_stop_at_any_line(dataset: Path) -> None:
    """More is written than a pipe holds."""
    read, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "wmo_distill", "show", dataset, NAME, "--each"],
        stdout=write, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        os.close(write)
        os.read(read, 100)
        os.close(read)
        _, said = process.communicate(timeout=600)
    assert (process.returncode, said) == (0, b"")


def test_the_page(run: Run, dataset: Path, tmp_path: Path) -> None:
    page = tmp_path / "e.html"
    done = run("show", dataset, NAME, "--tokenizer", TOKENIZER, "--html", page)
    text = page.read_text()
    wrote = f"{page}: {size(page.stat().st_size)}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, wrote, "")
    done = run("show", dataset, NAME, "--html", page, "--each")
    assert (done.returncode, page.read_text()) == (2, text)
    assert text.count("<section ") == 10
    assert "<script" not in text
    done = run("show", dataset, NAME, "--html", tmp_path / "no" / "e.html")
    assert done.returncode == 2
    assert "--html: expected a file in a directory that is there" in done.stderr
    manifest = (dataset / "manifest.json").read_bytes()
    done = run("show", dataset, NAME, "--html", dataset / "manifest.json")
    assert done.returncode == 2
    assert "--html: expected a page of this command or no file" in done.stderr
    assert (dataset / "manifest.json").read_bytes() == manifest
    assert run("show", dataset, NAME, "--html", page).returncode == 0
