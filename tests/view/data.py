"""Datasets to look at: the real trials with scores of other models, and text that means harm."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.shards.generated import lawful, long_chat, write_dataset
from wmo_distill import build, build_datum_shards
from wmo_distill.arrays import Logprobs
from wmo_distill.datums.options import DatumOptions
from wmo_distill.records import Sampling
from wmo_distill.tokens import TokenSpan

ROOT = Path(__file__).parents[2]
TRIALS = ROOT / "fixtures" / "trials"
TOKENIZER = ROOT / "fixtures" / "tokenizers" / "trials"

ODD = (
    "<script>window.harmed=1</script>",
    "<img src=x onerror=window.harmed=1>",
    "\x1b[2J\x1b]0;harm\x07",
    "\u202egnp.exe\u202c",
    "\u2066isolate",
    "&lt;b&gt; \"'`",
    "x" * 1_000_000,
)
SURROGATE = b"\xed\xa0\x80"
"""What a lone surrogate would be in UTF-8: bytes of no character."""


class Scores:
    """Log-probabilities that depend on nothing but the sequence and the model's name."""

    def __init__(self, source: Path, place: Path) -> None:
        """Of the sequences that are made of a dataset without scores."""
        from wmo_distill import iter_datums

        build_datum_shards(source, place)
        self._sizes = {row.datum_id: row.datum.token_ids.size for row in iter_datums(place)}
        shutil.rmtree(place)

    def logprobs(self, datum_id: str, teacher: str) -> Logprobs | None:
        if datum_id not in self._sizes:
            return None
        seed = int(hashlib.sha256(f"{teacher} {datum_id}".encode()).hexdigest()[:8], 16)
        values = -np.random.default_rng(seed).exponential(0.7, self._sizes[datum_id])
        values[0] = np.nan
        return values

    def teachers(self) -> dict[str, int]:
        return {"teacher": 1, "again": 1}


def real(place: Path) -> tuple[Path, Path]:
    """(dataset, datums with a teacher's and re-scored log-probabilities) of the real trials."""
    out, datums = place / "trials-of-one-day", place / "sequences"
    build([TRIALS], out, declare={"logprob_mode": "raw", "policy_version": "17"})
    scores = Scores(out, place / "plain")
    options = DatumOptions(teacher="teacher", rescored="again", advantages="centered")
    build_datum_shards(out, datums, options, scores=scores, rescored=scores)
    return out, datums


def odd(place: Path) -> tuple[Path, Path]:
    """(dataset, tokenizer) whose every text means harm; the trial's files too."""
    folder = place / "odd-tokenizer"
    folder.mkdir(parents=True)
    texts = [*(text.encode() for text in ODD), SURROGATE, "é".encode()[:1], "é".encode()[1:], b"\n"]
    lines = [f"{base64.b64encode(text).decode()} {at}" for at, text in enumerate(texts)]
    (folder / "odd.tiktoken").write_text("\n".join(lines) + "\n")
    special = {"added_tokens_decoder": {"50": {"content": "<|im_start|>\u202e"}}}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    ids = [*range(len(texts)), 50]
    call = TokenSpan(0, [*ids, 1], ids, -np.linspace(0, 3, len(ids)), finish_reason=ODD[0])
    records = [
        replace(
            lawful(f"{text[:40]} {at}", spans=(call,)),
            trial_name=text[:2000],
            task_id=text,
            note=text,
            stop_reason=text[:100],
            artifact_dir=f"trials/{at}",
            exception_type=text[:200],
            sampled_with=Sampling(policy_version=text[:300]),
        )
        for at, text in enumerate(ODD)
    ]
    out = place / "odd"
    write_dataset(out, [records])
    trial = place / "trials" / "0"
    (trial / "agent").mkdir(parents=True)
    (trial / "<script>window.harmed=1<").write_text(ODD[0])
    (trial / "agent" / "long.txt").write_bytes("\n".join(ODD).encode() + SURROGATE + b"\xff")
    (trial / "link").symlink_to("/etc/passwd")
    (trial / "folder").symlink_to("/etc")
    with_parent(out, place)
    return out, folder


def with_parent(out: Path, parent: Path) -> None:
    """Let the trials of a dataset be below a directory."""
    from tests import sealed

    sealed.write(out, {**sealed.read(out), "parent": str(parent)})


def long(place: Path, tokens: int, episodes: int = 1) -> Path:
    """A dataset with episodes of so many tokens."""
    chat = long_chat(50, tokens // 100)
    write_dataset(place, [[lawful(f"long-{n}", spans=chat) for n in range(episodes)]])
    return place


@contextmanager
def serving(*arguments: object) -> Iterator[str]:
    """The address at which `wmo-distill view` serves, with the key in it."""
    with server(*arguments) as (address, _):
        yield address


@contextmanager
def server(*arguments: object) -> Iterator[tuple[str, int]]:
    """The same, and the number of the process."""
    command = [sys.executable, "-m", "wmo_distill", "view", *map(str, arguments), "--no-open"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()
