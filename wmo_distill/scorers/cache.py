"""Scores on disk: Parquet parts keyed by datum_id and teacher, which outlive the datums.

A part is never changed. A later score of one key and at least as many candidates replaces an
earlier one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wmo_distill.arrays import Logprobs
from wmo_distill.datums.topk import Candidates
from wmo_distill.disk import is_there
from wmo_distill.outputs.faults import Fault, damage
from wmo_distill.outputs.manifest import MANIFEST, Kind, OutputManifest, PartFile
from wmo_distill.outputs.parts import Parts, check_out, writing
from wmo_distill.outputs.stored import Stored
from wmo_distill.scorers.scorer import Needed, Score
from wmo_distill.shards.lists import list_array

VERSION_KEY = b"wmo_distill.score_schema_version"
SCHEMA_VERSION = 1
# Values of a row group, and how many row groups stay in memory.
_GROUP_VALUES = 500_000
_GROUPS = 8
_FLOATS = pa.list_(pa.field("element", pa.float64()))
SCORE_SCHEMA = pa.schema(
    [
        pa.field("datum_id", pa.string(), nullable=False),
        pa.field("teacher", pa.string(), nullable=False),
        pa.field("top_k", pa.int32(), nullable=False),
        # one a token, null at position 0 and where the scorer gave no number
        pa.field("logprobs", _FLOATS, nullable=False),
        # the likeliest tokens of all positions, one after the other, and how many each has
        pa.field("top_counts", pa.list_(pa.field("element", pa.int32()))),
        pa.field("top_ids", pa.list_(pa.field("element", pa.int32()))),
        pa.field("top_logprobs", _FLOATS),
        # the positions after the first that are null; null: none are
        pa.field("missing", pa.list_(pa.field("element", pa.int32()))),
    ],
    metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()},
)
_KEYS = ["datum_id", "teacher", "top_k", "missing"]
KIND = "wmo-distill scores"


class ScoreManifest(OutputManifest):
    """The parts of a score cache; written after each of them."""

    kind: str = KIND
    schema_version: int = SCHEMA_VERSION


SCORES = Kind(
    noun="scores",
    command="score",
    model=ScoreManifest,
    mark=("kind", KIND),
    version=SCHEMA_VERSION,
    folder="",
    stem="scores",
    again="name another directory",
)


@dataclass(frozen=True, slots=True)
class _Place:
    part: Stored
    group: int
    row: int
    top_k: int
    missing: tuple[int, ...] = ()
    """Positions after the first without a number."""


class ScoreCache:
    """Scores in a directory; the keys are in memory, and the row groups that were read last.

    One run at a time may add to a directory; readers see what there was when they began.
    """

    def __init__(self, directory: Path | str) -> None:
        """UsageError where `directory` holds something else."""
        self.directory = Path(directory)
        self.faults: list[Fault] = []
        """Damaged parts. They are not used: their sequences count as not scored."""
        self._writer: Parts[ScoreManifest] | None = None
        check_out(self.directory, SCORES)
        there = is_there(self.directory / MANIFEST)
        self._load(SCORES.read(self.directory).parts if there else ())

    def _load(self, parts: Sequence[PartFile]) -> None:
        """Take in the parts whose bytes are those that were written."""
        self._parts = list(parts)
        self._places: dict[tuple[str, str], _Place] = {}
        self._groups: dict[tuple[Path, int, bool], pa.Table] = {}
        self.faults = []
        for part in parts:
            if found := damage(self.directory, part):
                self.faults += found
            else:
                self._learn(part)

    def __len__(self) -> int:
        return len(self._places)

    def teachers(self) -> dict[str, int]:
        """How many sequences each teacher has scored."""
        counts: dict[str, int] = {}
        for _, teacher in self._places:
            counts[teacher] = counts.get(teacher, 0) + 1
        return counts

    def has(
        self, datum_id: str, teacher: str, top_k: int = 0, needed: Needed | None = None
    ) -> bool:
        """Whether there is a score with so many candidates, and numbers at the `needed` tokens."""
        place = self._places.get((datum_id, teacher))
        if place is None or place.top_k < top_k:
            return False
        return needed is None or not needed[list(place.missing)].any()

    def get(self, datum_id: str, teacher: str) -> Score | None:
        """The score of a sequence by a teacher."""
        place = self._places.get((datum_id, teacher))
        if place is None:
            return None
        table = self._read(place, tops=True)
        logprobs = _list(table, "logprobs", place.row)
        assert logprobs is not None
        return Score(logprobs.astype(np.float64), _top(table, place.row))

    def logprobs(self, datum_id: str, teacher: str) -> Logprobs | None:
        """The log-probabilities of `get` alone, without reading the candidates."""
        place = self._places.get((datum_id, teacher))
        if place is None:
            return None
        found = _list(self._read(place, tops=False), "logprobs", place.row)
        return None if found is None else found.astype(np.float64)

    def add(self, teacher: str, scores: Sequence[tuple[str, Score, int]]) -> None:
        """Write a part of (datum_id, score, top_k)."""
        if not scores:
            return
        if self._writer is None:
            with self.writing():
                self.add(teacher, scores)
            return
        longest = max(score.logprobs.size * (1 + 2 * k) for _, score, k in scores)
        pq.write_table(
            _table(teacher, scores),
            self._writer.begin(),
            compression="zstd",
            compression_level=1,
            use_dictionary=["teacher"],
            row_group_size=max(1, _GROUP_VALUES // max(1, longest)),
            write_page_checksum=True,
        )
        parts = [*self._parts, self._writer.end(len(scores))]
        self._writer.commit(ScoreManifest(parts=parts))
        self._parts = parts  # only now: scores that could not be kept may be given again
        self._learn(parts[-1])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the one run that adds to the directory; UsageError where there is another."""
        with writing(self.directory, SCORES) as self._writer:
            try:
                before = () if self._writer.before is None else self._writer.before.parts
                # A damaged part stays until someone removes the file.
                kept = [part for part in before if is_there(self.directory / part.file)]
                if kept != self._parts:
                    self._load(kept)
                yield
            finally:
                self._writer = None

    def _learn(self, listed: PartFile) -> None:
        part = SCORES.stored(self.directory, listed, SCORE_SCHEMA)
        for group, keys in part.tables(_KEYS):
            with part.blamed(group):
                for row, key in enumerate(keys.to_pylist()):
                    name = key["datum_id"], key["teacher"]
                    known = self._places.get(name)
                    if known is None or key["top_k"] >= known.top_k:
                        missing = tuple(key["missing"] or ())
                        self._places[name] = _Place(part, group, row, key["top_k"], missing)

    def _read(self, place: _Place, *, tops: bool) -> pa.Table:
        key = place.part.path, place.group, tops
        if key not in self._groups:
            if len(self._groups) >= _GROUPS:
                del self._groups[next(iter(self._groups))]
            columns = None if tops else ["logprobs"]
            with place.part.open() as file:
                self._groups[key] = place.part.table(file, place.group, columns).combine_chunks()
        return self._groups[key]


def _table(teacher: str, scores: Sequence[tuple[str, Score, int]]) -> pa.Table:
    values = [score.logprobs for _, score, _ in scores]
    flat = pa.array(np.concatenate(values), from_pandas=True)
    counts: list[Any] = []
    ids: list[Any] = []
    logprobs: list[Any] = []
    for _, score, _ in scores:
        rows = None if score.top is None else [row or () for row in score.top]
        counts.append(None if rows is None else [len(row) for row in rows])
        ids.append(None if rows is None else [token for row in rows for token, _ in row])
        logprobs.append(None if rows is None else [value for row in rows for _, value in row])
    return pa.Table.from_arrays(
        [
            pa.array([name for name, _, _ in scores]),
            pa.array([teacher] * len(scores)),
            pa.array([k for _, _, k in scores], pa.int32()),
            list_array(values, flat, _FLOATS),
            pa.array(counts, SCORE_SCHEMA.field("top_counts").type),
            pa.array(ids, SCORE_SCHEMA.field("top_ids").type),
            pa.array(logprobs, _FLOATS),
            pa.array([_gaps(one) for one in values], SCORE_SCHEMA.field("missing").type),
        ],
        schema=SCORE_SCHEMA,
    )


def _gaps(logprobs: Logprobs) -> list[int] | None:
    """The positions after the first without a number, None where there is none."""
    return (np.flatnonzero(np.isnan(logprobs[1:])) + 1).tolist() or None


def _list(table: pa.Table, name: str, row: int) -> np.ndarray[Any, Any] | None:
    scalar = table.column(name)[row]
    if not scalar.is_valid:
        return None
    values: Logprobs = scalar.values.to_numpy(zero_copy_only=False)
    return values


def _top(table: pa.Table, row: int) -> list[Candidates | None] | None:
    counts = _list(table, "top_counts", row)
    ids, logprobs = _list(table, "top_ids", row), _list(table, "top_logprobs", row)
    if counts is None or ids is None or logprobs is None:
        return None
    pairs = list(zip(ids.tolist(), logprobs.tolist(), strict=True))
    ends = np.cumsum(counts).tolist()
    return [pairs[end - n : end] or None for n, end in zip(counts.tolist(), ends, strict=True)]
