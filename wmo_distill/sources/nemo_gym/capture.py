"""One rollout's token capture: the calls that were recorded, and those that were not.

An intent is written before the engine is asked, so an intent without a record is a call that
was lost, or that failed. A marker file and a flag of the state say the same of calls that have
no intent. Where the state holds the digest of a record, the record is held against it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from wmo_distill.files import Absent, TrialFiles, plain_text
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness
from wmo_distill.sources.nemo_gym.index import lines_of
from wmo_distill.sources.nemo_gym.lines import NAMES, experts_of, reader
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import at, moment
from wmo_distill.tokenjson.reader import RecordReader
from wmo_distill.tokenjson.rows import id_row, logprob_row

_VERSION = 1
_BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What the files of one rollout hold."""

    calls: Sequence[Call] = ()
    """In order of their completion."""
    model: str | None = None
    retired: bool = False
    """Whether the recorder handed the tokens over and deleted them."""
    unreadable: int = 0
    """Records that cannot be read, the one that broke off among them."""
    lost: int = 0
    """Further calls that the files know of and that no record holds."""
    declared: Completeness = Completeness.SILENT
    issues: tuple[Issue, ...] = ()


@dataclass(slots=True)
class _Records:
    """The records of a capture as they are read."""

    digests: dict[str, object]
    extra: bool
    calls: list[Call] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    model: str | None = None
    unreadable: int = 0
    _reader: RecordReader = field(default_factory=reader)
    _latest: datetime = _BEGINNING

    def add(self, data: bytes) -> None:
        value = self._reader.read(data)
        if not isinstance(value, dict) or not self._is_sound(value, data):
            self.unreadable += 1
            return
        key, model = value.get("model_call_id"), value.get("model")
        if isinstance(key, str):
            self.keys.add(key)
        if self.model is None and isinstance(model, str):
            self.model = plain_text(model)
        self.calls.append(
            Call(
                0,
                id_row(value.get(NAMES.prompt)),
                id_row(value.get(NAMES.completion)),
                logprob_row(value.get(NAMES.logprobs)),
                experts_of(value) if self.extra else None,
                key=key if isinstance(key, str) else None,
                at=moment(value.get("created_at")),
            )
        )

    def _is_sound(self, value: Mapping[str, Any], data: bytes) -> bool:
        """Whether a record is of a known version, and as it was when it was written."""
        version = value.get("schema_version", _VERSION)
        if type(version) is not int or version > _VERSION:
            return False
        key = value.get("model_call_id")
        digest = self.digests.get(key) if isinstance(key, str) else None
        if not isinstance(digest, str):
            return True
        return digest == hashlib.sha256(data.removesuffix(b"\n")).hexdigest()

    def ordered(self) -> list[Call]:
        """By time; a call without one follows the call that was recorded before it."""
        times = []
        for call in self.calls:
            self._latest = _zoned(call.at) or self._latest
            times.append(self._latest)
        order = sorted(range(len(times)), key=times.__getitem__)
        return [self.calls[k]._replace(call_index=n) for n, k in enumerate(order)]


def read_capture(files: TrialFiles, stem: str, *, extra: bool) -> Capture:
    """The capture whose files begin with `stem`, relative to the root of `files`."""
    state = files.read_json(f"{stem}.tokens.state.json")
    digests = at(state, "entry_digests")
    records = _Records(digests if isinstance(digests, dict) else {}, extra)
    opened = files.open(f"{stem}.tokens.jsonl")
    if not isinstance(opened, Absent):
        for _, _, data in lines_of(opened):
            records.add(data)
    intents = _ids(files, f"{stem}.tokens.intents")
    marked = _ids(files, f"{stem}.tokens.incomplete")
    expected = {*(intents or ()), *(marked or ()), *records.digests} - {""}
    missing = len(expected - records.keys)
    incomplete = bool(
        missing
        or marked
        or records.unreadable
        or opened is Absent.UNREADABLE
        or at(state, "incomplete") is True
    )
    declared = at(state, "incomplete") is False and (intents is not None or not records.calls)
    silent = Completeness.COMPLETE if declared else Completeness.SILENT
    return Capture(
        calls=records.ordered(),
        model=records.model,
        retired=at(state, "retired") is True,
        unreadable=records.unreadable,
        lost=max(0, missing - records.unreadable),
        declared=Completeness.INCOMPLETE if incomplete else silent,
        issues=(Issue.VALUE_DAMAGED,) * (state is Absent.UNREADABLE),
    )


def _ids(files: TrialFiles, name: str) -> list[str] | None:
    """The whole lines of a file of call ids, an empty one too; None where there is no file."""
    data = files.read(name)
    if isinstance(data, Absent):
        return None
    return [line.strip().decode("utf-8", "replace") for line in data.split(b"\n")[:-1]]


def _zoned(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=time.tzinfo or UTC)
