"""The two forms of a capture, JSON lines and an SQLite store: records by their places."""

import io
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.limits import TEXT_BYTES
from wmo_distill.sources.growth import Mark, mark_of
from wmo_distill.sources.sqlite import Unreadable, from_database, row_of
from wmo_distill.sources.tinker.places import (
    COORDINATES,
    Head,
    Line,
    Place,
    Rollout,
    coordinates_of,
    head_of,
    key_of,
    parsed_head,
    seconds_of,
)
from wmo_distill.sources.values import object_in
from wmo_distill.tokenjson.reader import RecordReader, parsed
from wmo_distill.tokenjson.skeleton import ListNames

_T = TypeVar("_T")

Record = Mapping[str, Any]
Parse = Callable[[bytes], Any]
_WIRE = ("sampling_session_id", "seq_id", "created_at", "metadata")
_LISTS = ("prompt_tokens", "sampled_tokens", "logprobs")
_IN_LINES = ListNames("prompt_tokens", "tokens", "logprobs")
TABLES = {
    "wire_rows": {"cursor", *COORDINATES, *_WIRE, *_LISTS, "sample_idx", "policy_version"},
    "annotations": {"cursor", "kind", "payload"},
}

_NAMES = sorted(TABLES["wire_rows"])
_WIRE_ROW = f"SELECT {', '.join(_NAMES)} FROM wire_rows WHERE cursor = ?"
_ANNOTATION = "SELECT payload FROM annotations WHERE cursor = ?"


class Capture(Protocol):
    """Records of calls, by place."""

    def heads(self) -> Iterator[tuple[Place, Head | None]]:
        """Every record of a call; None for one that is damaged at its start."""
        ...

    def record(self, place: Place, parse: Parse = parsed) -> Record | None:
        """One record as a JSON line holds it, as `parse` reads that; None if it is damaged."""
        ...

    def mark(self, place: Place) -> Mark:
        """Of the record that is there now."""
        ...


def from_capture(
    files: TrialFiles, file: str, read: Callable[[Capture], _T], *, is_store: bool
) -> _T:
    """What `read` finds in a capture below the run's directory; it may be called again.

    Unreadable where no capture is there, or its database is damaged.
    """
    if is_store:
        return from_database(files, file, lambda connection: read(Store(connection)))
    lines = files.open(file)
    if isinstance(lines, Absent):
        raise Unreadable
    with io.BufferedReader(lines, 1 << 20) as buffered:
        return read(Lines(buffered))  # type: ignore[arg-type]


class Lines:
    """JSON lines; what follows the last line break counts if it is whole."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def heads(self) -> Iterator[tuple[Place, Head | None]]:
        start = 0
        while line := self._file.readline(TEXT_BYTES):
            place = Line(start, len(line))
            start += len(line)
            if not line.strip():
                continue
            value = parsed_head(line)
            if value is not None and value.get("kind", "sample") != "sample":
                continue
            yield place, head_of(value)

    def record(self, place: Place, parse: Parse = parsed) -> Record | None:
        value = parse(self._line(place))
        return value if isinstance(value, dict) else None

    def mark(self, place: Place) -> Mark:
        return mark_of(self._line(place))

    def _line(self, place: Place) -> bytes:
        assert isinstance(place, Line)
        self._file.seek(place.start)
        return self._file.read(place.size)


class Store:
    """Rows of a store: one a sequence in `wire_rows`, calls without any in `annotations`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def heads(self) -> Iterator[tuple[Place, Head | None]]:
        columns = ", ".join(("cursor", *COORDINATES, *_WIRE))
        for cursor, *values in self._connection.execute(f"SELECT {columns} FROM wire_rows"):
            row = _texts(zip((*COORDINATES, *_WIRE), values, strict=True))
            n = _metadata(row).get("num_samples")
            at = seconds_of(row["created_at"])
            yield cursor, Head(_scope(row), at, n if type(n) is int else 1, key_of(row))
        query = "SELECT cursor, payload FROM annotations WHERE kind = 'sample'"
        for cursor, payload in self._connection.execute(query):
            yield -cursor, head_of(parsed_head(payload) if isinstance(payload, bytes) else None)

    def record(self, place: Place, parse: Parse = parsed) -> Record | None:
        assert isinstance(place, int)
        return self._annotation(-place, parse) if place < 0 else self._wire(place, parse)

    def mark(self, place: Place) -> Mark:
        assert isinstance(place, int)
        query = _ANNOTATION if place < 0 else _WIRE_ROW
        return mark_of(*(row_of(self._connection, query, abs(place)) or ()))

    def _annotation(self, cursor: int, parse: Parse) -> Record | None:
        row = row_of(self._connection, _ANNOTATION, cursor)
        value = parse(row[0]) if row and isinstance(row[0], bytes) else None
        return value if isinstance(value, dict) else None

    def _wire(self, cursor: int, parse: Parse) -> Record | None:
        found = row_of(self._connection, _WIRE_ROW, cursor)
        if found is None:
            return None
        row = _texts(zip(_NAMES, found, strict=True))
        lists = _lists([row[name] for name in _LISTS], parse)
        metadata = _metadata(row)
        return {
            **metadata,
            "scope": {**_scope(row), **object_in(metadata.get("scope"))},
            "created_at": row["created_at"],
            "sampling_session_id": row["sampling_session_id"],
            "seq_id": row["seq_id"],
            "model_path": row["policy_version"],
            "prompt_tokens": lists[0],
            "samples": [
                {
                    "tokens": lists[1],
                    "logprobs": lists[2],
                    "stop_reason": metadata.get("stop_reason"),
                    "index": row["sample_idx"],
                }
            ],
        }


def reader() -> RecordReader:
    """For the records of one rollout."""
    return RecordReader(_IN_LINES, _holders)


def _holders(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A record, and the answers in it."""
    yield record
    samples = record.get("samples")
    yield from map(object_in, samples if isinstance(samples, list) else ())


def own_record(capture: Capture, place: Place, rollout: Rollout, parse: Parse) -> Record | None:
    """A record if it still is one of the rollout's."""
    record = capture.record(place, parse)
    if record is None or not isinstance(record.get("scope"), dict):
        return None
    return record if coordinates_of(record["scope"]) == rollout.coordinates else None


def _texts(values: Any) -> dict[str, Any]:
    """Columns by name, with texts where SQLite has bytes; lists stay as they are."""
    return {
        name: value.decode("utf-8", "replace")
        if isinstance(value, bytes) and name not in (*_LISTS, "metadata")
        else value
        for name, value in values
    }


def _scope(row: Mapping[str, Any]) -> dict[str, Any]:
    scope = {name: row[name] for name in COORDINATES if row[name] is not None}
    # The store's own word for a call without a run.
    return {} if scope == {"run_id": "unattributed"} else scope


def _metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    data = row["metadata"]
    return object_in(parsed(data) if isinstance(data, bytes) else None)


def _lists(columns: Sequence[object], parse: Parse) -> Sequence[Any]:
    """Prompt, answer and log-probabilities of a row, read as those of one record.

    A column without a key cannot be read as anything else; a list of numbers has none.
    """
    texts = [column for column in columns if isinstance(column, bytes) and b'"' not in column]
    if len(texts) == len(columns):
        value = parse(b'{"prompt_tokens":%b,"samples":[{"tokens":%b,"logprobs":%b}]}' % (*texts,))
        match value:
            case {"prompt_tokens": prompt, "samples": [{"tokens": ids, "logprobs": row}]}:
                return prompt, ids, row
    return [_list(column) for column in columns]


def _list(data: object) -> Any:
    """A list of a column; what is no JSON text is damaged, null is missing."""
    if data is None:
        return None
    return parsed(data) if isinstance(data, bytes) else Absent.UNREADABLE
