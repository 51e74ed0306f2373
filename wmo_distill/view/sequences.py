"""What training sequences say of an episode's tokens: each call found in the sequence it is in.

A sequence begins with the whole prompt and completion of each of its calls, so token k of a call
is token k of its sequence. Nothing is taken from a sequence whose ids are not those of the call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from wmo_distill.datums.chats import Chat
from wmo_distill.datums.dataset import DatumRow, datum_parts, rows_of
from wmo_distill.datums.datum import TrainDatum
from wmo_distill.datums.table import DATUM_SCHEMA
from wmo_distill.outputs.stored import Stored
from wmo_distill.segment import Segment
from wmo_distill.view.flat import Call, Flat

# Experts are large, and on no page.
_EXPERTS = DATUM_SCHEMA.field("routed_experts")
_WANTED = [name for name in DATUM_SCHEMA.names if name != _EXPERTS.name]
VALUES = ("advantages", "teacher_logprobs", "rescored_logprobs")


class Sequences:
    """The sequences of DATUMS, by episode."""

    def __init__(self, datums: Path) -> None:
        """UsageError where there are none, DistillError where a part is damaged."""
        self._parts: list[Stored] = datum_parts(datums)
        frames = [
            pl.DataFrame(pl.from_arrow(table)).with_columns(
                part=pl.lit(number, pl.Int32), row_group=pl.lit(group, pl.Int32)
            )
            for number, part in enumerate(self._parts)
            for group, table in part.tables(["episode_id"])
        ]
        self._places = pl.concat(frames, rechunk=True) if frames else None

    def of(self, episode_id: str) -> list[DatumRow]:
        """The sequences of an episode, in the order of the parts."""
        if self._places is None:
            return []
        own = self._places.filter(pl.col("episode_id") == episode_id)
        found: list[DatumRow] = []
        for number, group in own.select("part", "row_group").unique(maintain_order=True).rows():
            part = self._parts[number]
            with part.open() as file:
                table = part.table(file, group, _WANTED)
            with part.blamed(group):
                own_rows = table.filter(pc.equal(table.column("episode_id"), episode_id))
                nothing = pa.nulls(own_rows.num_rows, _EXPERTS.type)
                at = DATUM_SCHEMA.get_field_index(_EXPERTS.name)
                for batch in own_rows.add_column(at, _EXPERTS, nothing).to_batches():
                    found += rows_of(batch)
        return found


def with_sequences(flat: Flat, chats: Sequence[Chat], rows: Sequence[DatumRow]) -> Flat:
    """The line with what its sequences say.

    `sequence` is the number of a token's sequence in `rows`, -1 where it is in none; `mask` whether
    it is trained; the others are there where a sequence has them, NaN where nothing is known.
    """
    size = len(flat)
    sequence = np.full(size, -1, np.int32)
    mask = np.zeros(size, bool)
    values: dict[str, Any] = {}
    matched = set()
    for call, number in _matches(flat, chats, rows):
        datum = rows[number].datum
        here = slice(call.start, call.stop)
        there = slice(call.kept, call.kept + call.stop - call.start)
        matched.add(number)
        sequence[here] = number
        mask[here] = datum.loss_mask[there]
        for name in VALUES:
            column = getattr(datum, name)
            if column is not None:
                whole = values.setdefault(name, np.full(size, np.nan))
                whole[here] = column[there]
    return replace(
        flat,
        of_datums={"sequence": sequence, "mask": mask, **values},
        sequences=tuple(_about(row, n in matched) for n, row in enumerate(rows)),
    )


def _about(row: DatumRow, is_matched: bool) -> dict[str, Any]:
    return {
        "datum_id": row.datum_id,
        "segment": row.datum.segment,
        "fragment_index": row.datum.fragment_index,
        "tokens": row.datum.token_ids.size,
        "trained": row.datum.loss_tokens,
        "weight": row.weight,
        "matched": is_matched,
    }


def _matches(
    flat: Flat, chats: Sequence[Chat], rows: Sequence[DatumRow]
) -> Iterator[tuple[Call, int]]:
    """Each call that is in a sequence, and the number of that sequence.

    The same ids may be in several sequences: a run of sampled ids is that of one call alone, the
    first that it fits.
    """
    by_number = {chat.calls.number: chat.calls for chat in chats}
    left = [dict(zip(r.datum.call_starts, r.datum.call_lengths, strict=True)) for r in rows]
    last: dict[int, int] = {}
    """By sequence the last call that was found in it."""
    for call in flat.calls:
        chat = by_number[call.segment]
        for number, row in enumerate(rows):
            if row.datum.segment != call.segment:
                continue
            goes_on = call.cause is None and last.get(number) == call.at - 1
            if _is_in(row.datum, chat, call, left[number], goes_on):
                left[number].pop(int(chat.prompt_lens[call.at]), None)
                last[number] = call.at
                yield call, number
                break


def _is_in(
    datum: TrainDatum, chat: Segment, call: Call, left: dict[int, int], goes_on: bool
) -> bool:
    """Whether a sequence begins with a call; where that `goes_on`, all that it keeps does."""
    prompt = call.kept + call.sampled_at - call.start
    size = call.kept + call.stop - call.start
    if datum.token_ids.size < size or (size > prompt and left.get(prompt) != size - prompt):
        return False
    if not np.array_equal(datum.token_ids[prompt:size], chat.sampled(call.at)):
        return False
    if not _same_logprobs(datum, chat, call.at, slice(prompt, size)):
        return False
    known = call.kept if goes_on else 0
    asked = chat.suffix(call.at) if goes_on else chat.prompt(call.at)
    return np.array_equal(datum.token_ids[known:prompt], asked)


def _same_logprobs(datum: TrainDatum, chat: Segment, at: int, here: slice) -> bool:
    """Whether a sequence trains a call's ids with the log-probabilities that the call recorded."""
    trained = datum.loss_mask[here]
    found = datum.sampled_logprobs[here][trained]
    values = chat.sampled_logprobs[at]
    if values is None:
        return bool(np.isnan(found).all())
    return np.array_equal(found, values[trained], equal_nan=True)
