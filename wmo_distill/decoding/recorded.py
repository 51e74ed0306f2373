"""A tokenizer held against the text that was recorded with an episode, where that still is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wmo_distill.arrays import NO_IDS
from wmo_distill.decoding.doubt import doubt
from wmo_distill.decoding.pieces import Decoder
from wmo_distill.errors import DistillError
from wmo_distill.files import Absent, TrialFiles, parse_json
from wmo_distill.records import TrialRecord

_TEXTS = frozenset({"content", "message", "reasoning", "reasoning_content", "text"})
_LINE_BYTES = 16_000_000
_FILE_BYTES = 256_000_000


def doubt_of(decoder: Decoder, record: TrialRecord, parent: Path) -> str | None:
    """Why it cannot be the tokenizer of a record, in a phrase; None where nothing says so."""
    new = [(c.suffix(at), c.sampled(at)) for c in record.chats.values() for at in range(len(c))]
    ids = np.concatenate([NO_IDS, *(ids for pair in new for ids in pair)])
    texts, known = recorded_texts(record, parent), record.sampled_with.tokenizer
    return doubt(decoder, ids, recorded=texts, fingerprint=known)


def recorded_texts(record: TrialRecord, parent: Path) -> Iterator[str]:
    """Texts of messages, from the record itself and from the trial's files below `parent`.

    What is gone, too large or no JSON gives none.
    """
    for span in record.spans:
        if span.extra is not None:
            yield from _texts(parse_json(span.extra.encode("utf-8", "replace")))
    directory, _, episode = record.artifact_dir.partition("#")
    try:
        if (parent / directory).is_dir():
            yield from _of_directory(TrialFiles(parent / directory), record.step_name)
        elif directory.endswith((".json", ".jsonl")):
            yield from _of_file(TrialFiles((parent / directory).parent), directory, episode)
    except (DistillError, OSError):
        return


def _of_directory(files: TrialFiles, step: str | None) -> Iterator[str]:
    for folder in ("agent", *([f"steps/{step}/agent"] if step else [])):
        for name in files.names(folder):
            if name.startswith("trajectory") and name.endswith(".json"):
                yield from _texts(files.read_json(f"{folder}/{name}"))


def _of_file(files: TrialFiles, path: str, episode: str) -> Iterator[str]:
    """Of a file with one document, or with a line an episode."""
    name = path.rpartition("/")[2]
    data = files.read(name, _FILE_BYTES)
    if isinstance(data, Absent):
        return
    mark = json.dumps(episode).encode()
    lines = data.split(b"\n") if name.endswith(".jsonl") else [data]
    for line in lines:
        if len(line) <= _LINE_BYTES and (len(lines) == 1 or mark in line):
            yield from _texts(parse_json(line))


def _texts(value: Any) -> Iterator[str]:
    """The texts of messages anywhere in a document, in its order."""
    left = [("", value)]
    while left:
        name, value = left.pop()
        if isinstance(value, str) and name in _TEXTS:
            yield value
        elif isinstance(value, dict):
            left += reversed(value.items())
        elif isinstance(value, list):
            left += ((name, one) for one in reversed(value))
