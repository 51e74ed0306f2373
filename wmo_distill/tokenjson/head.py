"""The start of a JSON document: which keys its outermost object has, without reading it whole."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wmo_distill.files import Absent, TrialFiles, parse_json, plain_text

FIRST_BYTES = 4096
HEAD_BYTES = 65536
_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
# The lone quote at the end is a string that the head cuts off.
_TOKEN = re.compile(rb'"(?>[^"\\]*(?:\\.[^"\\]*)*)"|[{}\[\]:,]|"', re.DOTALL)
_ENOUGH = {"id", "trial_name"}


@dataclass(frozen=True, slots=True)
class Head:
    """The keys seen in the outermost object, each with its value where that is a string.

    `whole` says that the object ended within the head, so that a key not seen is not there.
    """

    keys: dict[str, str | None] = field(default_factory=dict)
    whole: bool = False

    @property
    def is_trial(self) -> bool:
        """Whether a trial result or a trial config begins so."""
        return "trial_name" in self.keys

    @property
    def is_job_result(self) -> bool:
        return not self.is_trial and "n_total_trials" in self.keys

    @property
    def is_job_config(self) -> bool:
        return not self.is_trial and not self.keys.keys().isdisjoint(_JOB_CONFIG_KEYS)

    def text(self, key: str) -> str | None:
        """A key's value where it is a string of at least one character."""
        value = self.keys.get(key)
        return plain_text(value) if value else None


_JOB_CONFIG_KEYS = {"job_name", "jobs_dir", "n_attempts", "n_concurrent_trials", "orchestrator"}


def read_head(files: TrialFiles, relative: str) -> Head | Absent:
    """The keys of a document; a document that is no object, or is damaged early, has none."""
    opened = files.open(relative)
    if isinstance(opened, Absent):
        return opened
    data = b""
    with opened:
        for size in (FIRST_BYTES, HEAD_BYTES):
            data += opened.read(size - len(data))
            head = head_of(data)
            if head.whole or head.keys.keys() >= _ENOUGH:
                return head
        if len(data) < HEAD_BYTES or not opened.read(1):
            return _parsed(data, head)
    return head


def head_of(data: bytes) -> Head:
    """What the first bytes of a document say, as far as they can be followed."""
    data = data.removeprefix(_BOM)
    keys: dict[str, str | None] = {}
    if not data.lstrip(_SPACE).startswith(b"{"):
        return Head()
    depth = 0
    last: str | None = None
    key: str | None = None
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return Head(keys, whole=True)
        elif depth != 1:
            continue
        elif token == b":":
            key, last = last, None
            if key is not None:
                keys[key] = None
        elif token == b",":
            key = last = None
        elif token == b'"':
            break
        else:
            last = _string(token)
            if key is not None:
                keys[key] = last
                if keys.keys() >= _ENOUGH:
                    break
    return Head(keys)


def _parsed(data: bytes, head: Head) -> Head:
    """The exact answer for a document that fits into the head; `head` if it is no readable JSON."""
    value = parse_json(data)
    if isinstance(value, Absent):
        return head
    if not isinstance(value, dict):
        return Head(whole=True)
    return head_from(value)


def head_from(value: Mapping[str, Any]) -> Head:
    """What the head of a whole document says."""
    texts = {key: item if isinstance(item, str) else None for key, item in value.items()}
    return Head(texts, whole=True)


def _string(token: bytes) -> str | None:
    try:
        value = json.loads(token.decode())
    except ValueError:
        return None
    return value if isinstance(value, str) else None
