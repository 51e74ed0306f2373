"""The two forms of a capture, JSON lines and an SQLite store: records by their places."""

import io
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from wmo_distill.disk import RegularFile
from wmo_distill.files import Absent, TrialFiles
from wmo_distill.limits import TEXT_BYTES
from wmo_distill.sources.growth import Mark, mark_by_size
from wmo_distill.sources.sqlite import Unreadable, from_database, row_of, size_of
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
Raw = tuple[Any, ...]
"""The values of a record as they are there: a line, a payload or the columns of a row; else ()."""
Parse = Callable[[bytes], Any]
_WIRE = ("sampling_session_id", "seq_id", "created_at", "metadata")
_LISTS = ("prompt_tokens", "sampled_tokens", "logprobs")
_IN_LINES = ListNames("prompt_tokens", "tokens", "logprobs")
TABLES = {
    "wire_rows": {"cursor", *COORDINATES, *_WIRE, *_LISTS, "sample_idx", "policy_version"},
    "annotations": {"cursor", "kind", "payload"},
}

_NAMES = sorted(TABLES["wire_rows"])
"""The order in which a row's values make its mark."""
# In the order of the table: SQLite walks through a row from its start to what it is asked for.
_COLUMNS = ("cursor", *COORDINATES, *_WIRE[:2], "sample_idx", "policy_version", *_WIRE[2:3],
            *_LISTS, "metadata")  # fmt: skip
_WIRE_ROW = f"SELECT {', '.join(_COLUMNS)} FROM wire_rows WHERE cursor = ?"
_by_name = itemgetter(*map(_COLUMNS.index, _NAMES))
# How many sequences were asked for is written behind the token lists of a row, which SQLite walks
# through to it; only in a group of answers to one prompt does it say which rollouts there are.
_HEADS = f"""SELECT cursor, {", ".join((*COORDINATES, *_WIRE[:-1]))},
    CASE WHEN traj_idx IS NULL AND group_idx IS NOT NULL THEN metadata END FROM wire_rows"""
_LONG_COLUMNS = ("wire_rows", (*_LISTS, "metadata")), ("annotations", ("payload",))
_ANNOTATION = "SELECT payload FROM annotations WHERE cursor = ?"


class Capture(Protocol):
    """Records of calls, by place."""

    def heads(self) -> Iterator[tuple[Place, Head | None]]:
        """Every record of a call; None for one that is damaged at its start."""
        ...

    def raw(self, place: Place) -> Raw:
        """What is there now, read from the file; its mark is that of the record."""
        ...

    def record(self, place: Place, raw: Raw, parse: Parse = parsed) -> Record | None:
        """One record as a JSON line holds it, as `parse` reads that; None if it is damaged."""
        ...

    def size_mark(self, place: Place) -> Mark:
        """Of a record by its place and its size, without reading it."""
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
    with lines:
        return read(Lines(lines))


class Lines:
    """JSON lines; what follows the last line break counts if it is whole."""

    def __init__(self, file: RegularFile) -> None:
        self._file = file

    def heads(self) -> Iterator[tuple[Place, Head | None]]:
        start = 0
        self._file.seek(0)
        buffered = io.BufferedReader(self._file, 1 << 20)
        while line := buffered.readline(TEXT_BYTES):
            place = Line(start, len(line))
            start += len(line)
            if not line.strip():
                continue
            value = parsed_head(line)
            if value is not None and value.get("kind", "sample") != "sample":
                continue
            yield place, head_of(value)
        buffered.detach()

    def raw(self, place: Place) -> Raw:
        assert isinstance(place, Line)
        self._file.seek(place.start)
        return (self._file.read(place.size),)

    def record(self, place: Place, raw: Raw, parse: Parse = parsed) -> Record | None:
        value = parse(raw[0])
        return value if isinstance(value, dict) else None

    def size_mark(self, place: Place) -> Mark:
        assert isinstance(place, Line)
        return mark_by_size(place.size, place.start)


class Store:
    """Rows of a store: one a sequence in `wire_rows`, calls without any in `annotations`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def heads(self) -> Iterator[tuple[Place, Head | None]]:
        for cursor, *values in self._connection.execute(_HEADS):
            row = _texts(zip((*COORDINATES, *_WIRE), values, strict=True))
            n = _metadata(row).get("num_samples")
            at = seconds_of(row["created_at"])
            yield cursor, Head(_scope(row), at, n if type(n) is int else 1, key_of(row))
        query = "SELECT cursor, payload FROM annotations WHERE kind = 'sample'"
        for cursor, payload in self._connection.execute(query):
            yield -cursor, head_of(parsed_head(payload) if isinstance(payload, bytes) else None)

    def raw(self, place: Place) -> Raw:
        assert isinstance(place, int)
        if place < 0:
            return row_of(self._connection, _ANNOTATION, -place) or ()
        found = row_of(self._connection, _WIRE_ROW, place)
        return () if found is None else _by_name(found)

    def record(self, place: Place, raw: Raw, parse: Parse = parsed) -> Record | None:
        assert isinstance(place, int)
        if not raw:
            return None
        return _annotation(raw, parse) if place < 0 else _wire(raw, parse)

    def size_mark(self, place: Place) -> Mark:
        assert isinstance(place, int)
        table, columns = _LONG_COLUMNS[place < 0]
        sizes = [size_of(self._connection, table, name, abs(place)) for name in columns]
        return mark_by_size(sum(size or 0 for size in sizes), place, *sizes)


def _annotation(raw: Raw, parse: Parse) -> Record | None:
    value = parse(raw[0]) if isinstance(raw[0], bytes) else None
    return value if isinstance(value, dict) else None


def _wire(raw: Raw, parse: Parse) -> Record | None:
    row = _texts(zip(_NAMES, raw, strict=True))
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


def own_record(record: Record | None, rollout: Rollout) -> Record | None:
    """A record if it still is one of the rollout's."""
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
