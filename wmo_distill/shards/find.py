"""One episode of a dataset: found by any part of its name, and its row read alone."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from wmo_distill.errors import DistillError, UsageError
from wmo_distill.outputs.stored import Stored
from wmo_distill.records import TrialRecord
from wmo_distill.shards.decode import decode
from wmo_distill.shards.manifest import DATASET, read_manifest
from wmo_distill.shards.regrades import regrades_of
from wmo_distill.shards.schema import SCHEMA, SPAN_FIELDS

NAMES = ("episode_id", "trial_id", "trial_name", "artifact_dir")
"""Each of them names a trial or an episode; a part may also be of `task_id`."""
_COLUMNS = [*NAMES, "task_id"]
_LISTED = 10
_WITHOUT_EXTRA = [name for name in SCHEMA.names if name != "spans"] + [
    f"spans.list.element.{field.name}" for field in SPAN_FIELDS if field.name != "extra"
]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the row of an episode is."""

    part: Stored = field(repr=False)
    group: int
    """Number of the row group in its part."""
    row: int
    """Number of the row in its group."""
    episode_id: str
    trial_name: str
    artifact_dir: str
    task_id: str | None
    attempt: int | None = None
    """Among those of its task; None as recorded."""

    @property
    def trial(self) -> tuple[Path, str]:
        """The same for the steps of one trial."""
        return self.part.path.parent, self.artifact_dir


def find(out: Path | str, name: str) -> Place:
    """The one episode that has this name, or else a name with this part in it.

    UsageError where none has, or several, which it lists.
    """
    found = candidates(out, name)
    if len(found) == 1:
        return found[0]
    raise _ambiguous(out, name, found)


def trial_of(out: Path | str, name: str) -> list[Place]:
    """As `find`, but a name may also be of several steps, if they are of one trial."""
    found = candidates(out, name)
    if len({place.trial for place in found}) == 1:
        return found
    raise _ambiguous(out, name, found)


def at_row(out: Path | str, number: int) -> Place:
    """The row of this number, from 0, over all parts; UsageError where there are fewer."""
    left = number
    for part, group, table in _tables(out):
        if left < table.num_rows:
            return _filled(out, _place(part, group, left, table))
        left -= table.num_rows
    raise UsageError(
        f"{out}: expected a row {number}, found {number - left:,} rows, which count from 0; "
        "give a smaller number"
    )


def read_at(place: Place, *, extra: bool = True) -> TrialRecord:
    """The record of one row: of its row group, only that row is decoded.

    Without `extra` the `extra` of its spans, which can be large, is not read.
    """
    with place.part.open() as file:
        if place.group >= file.num_row_groups:
            raise _replaced(place)
        table = place.part.table(file, place.group, None if extra else _WITHOUT_EXTRA)
    with place.part.blamed(place.group):
        records = list(decode(table.slice(place.row, 1)))
    if [record.episode_id for record in records] != [place.episode_id]:
        raise _replaced(place)
    (record,) = records
    return record if place.attempt is None else replace(record, attempt=place.attempt)


def candidates(out: Path | str, name: str) -> list[Place]:
    """The episodes of this name, else those with this part in a name, in the order of the rows."""
    exact: list[Place] = []
    partly: list[Place] = []
    for part, group, table in _tables(out):
        same = _any([pc.equal(table[column], name) for column in NAMES])
        exact += [_place(part, group, row, table) for row in same]
        if not exact:
            within = [pc.match_substring(table[c], name, ignore_case=True) for c in _COLUMNS]
            partly += [_place(part, group, row, table) for row in _any(within)]
    found = exact or partly
    return [_filled(out, place) for place in found] if len(found) == 1 else found


def _tables(out: Path | str) -> Iterator[tuple[Stored, int, pa.Table]]:
    """The names in each row group of each part."""
    out = Path(out)
    for info in read_manifest(out).parts:
        part = DATASET.stored(out, info, SCHEMA)
        for group, table in part.tables(_COLUMNS):
            yield part, group, table


def _any(masks: list[pa.ChunkedArray]) -> list[int]:
    """The rows that one of the masks has."""
    whole = masks[0]
    for mask in masks[1:]:
        whole = pc.or_kleene(whole, mask)
    rows: list[int] = pc.indices_nonzero(pc.fill_null(whole, False)).to_pylist()
    return rows


def _place(part: Stored, group: int, row: int, table: pa.Table) -> Place:
    shown = ("episode_id", "trial_name", "artifact_dir", "task_id")
    return Place(part, group, row, *(table[name][row].as_py() for name in shown))


def _filled(out: Path | str, place: Place) -> Place:
    """With the attempt that `scan` gives, where the row is one of those that count."""
    parts = [DATASET.stored(Path(out), info, SCHEMA) for info in read_manifest(Path(out)).parts]
    return replace(place, attempt=regrades_of(parts).attempts.get(place.episode_id))


def _ambiguous(out: Path | str, name: str, found: list[Place]) -> UsageError:
    if not found:
        return UsageError(
            f"{out}: expected an episode with {name!r} in its name, task or directory, found none; "
            f"`wmo-distill stats {out}` lists the tasks, ledger.parquet the trials"
        )
    names = Counter(place.trial_name for place in found)
    listed = ", ".join(
        place.trial_name if names[place.trial_name] == 1 else place.episode_id
        for place in found[:_LISTED]
    )
    more = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
    return UsageError(
        f"{out}: expected one episode with {name!r} in its name, found {len(found):,}: "
        f"{listed}{more}; give more of it"
    )


def _replaced(place: Place) -> DistillError:
    return DistillError(
        f"{place.part.path}: expected the row of {place.episode_id}, found another; the dataset "
        "was built again meanwhile: run the same command again"
    )
