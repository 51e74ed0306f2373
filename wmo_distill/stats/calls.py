"""The calls of a batch of records as flat arrays: what a pass over tokens needs of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.datums.merge import merge
from wmo_distill.shards.decode import SpanColumns

READ = (
    "segment", "call_index", "prefix_len", "prompt_suffix", "sampled_token_ids",
    "sampled_logprobs", "finish_reason", "sampling",
)  # fmt: skip
"""The fields of spans that are read."""


@dataclass(frozen=True, slots=True)
class MainCalls:
    """The calls of the main chats; entry i of each array is that of call i."""

    rows: int
    row: NDArray[np.intp]
    turn: NDArray[np.intp]
    """From 1 within the chat."""
    call_index: NDArray[np.int32]
    prompt: NDArray[np.int64]
    """Tokens of the prompt."""
    sampled: NDArray[np.int64]
    recorded: NDArray[np.bool_]
    """Whether the sampled ids are."""
    extends: NDArray[np.bool_]
    """Whether the prompt extends all that came before; True for the first."""
    logprobs: NDArray[np.float64]
    """Of the calls that have them, end to end; NaN where an element was not recorded."""
    logprob_row: NDArray[np.intp]

    @classmethod
    def of(cls, spans: pa.ListArray, rows: int) -> "MainCalls":
        offsets = spans.offsets.to_numpy()
        first, last = int(offsets[0]), int(offsets[-1])
        structs = spans.values.slice(first, last - first)
        child = {field.name: structs.field(i) for i, field in enumerate(structs.type)}
        main = child["segment"].to_numpy() == 0
        row = np.repeat(np.arange(rows), np.diff(offsets))[main]
        suffix, sampled = (_lengths(child[n])[main] for n in ("prompt_suffix", "sampled_token_ids"))
        prefix = child["prefix_len"].to_numpy()[main].astype(np.int64)
        begins = np.ones(row.size, bool)
        begins[1:] = row[1:] != row[:-1]
        starts = np.maximum.accumulate(np.where(begins, np.arange(row.size), 0))
        before = np.zeros(row.size, np.int64)
        before[1:] = (prefix + suffix + sampled)[:-1]
        logprobs = child["sampled_logprobs"]
        sizes = _lengths(logprobs)
        edges = logprobs.offsets.to_numpy()
        values = logprobs.values.slice(int(edges[0]), int(edges[-1] - edges[0]))
        of_main = np.repeat(main, sizes)
        flat = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        return cls(
            rows=rows,
            row=row,
            turn=np.arange(row.size) - starts + 1,
            call_index=child["call_index"].to_numpy()[main],
            prompt=prefix + suffix,
            sampled=sampled,
            recorded=child["sampled_token_ids"].is_valid().to_numpy(zero_copy_only=False)[main],
            extends=begins | ((prefix == before) & (before > 0)),
            logprobs=flat if of_main.all() else flat[of_main],
            logprob_row=np.repeat(row, sizes[main]),
        )

    def sums(self, values: NDArray[Any] | None = None) -> NDArray[Any]:
        """For each row how many calls it has, or the sum of a value of its calls."""
        return np.bincount(self.row, values, self.rows)

    def broken(self) -> NDArray[np.intp]:
        """Rows in which a prompt does not extend what came before, or calls are out of order."""
        odd = ~self.extends
        odd[1:] |= (self.row[1:] == self.row[:-1]) & (self.call_index[1:] < self.call_index[:-1])
        return np.unique(self.row[odd])


def break_causes(
    spans: pa.ListArray, rows: NDArray[np.intp], compactions: Sequence[Sequence[int] | None]
) -> dict[int, Counter[str]]:
    """The breaks of these rows' main chats by cause, as a build of datums finds them."""
    if not rows.size:
        return {}
    columns = SpanColumns.of(_with_all(spans.take(pa.array(rows))), check=False)
    found = {}
    for at, row in enumerate(rows.tolist()):
        merged = merge(columns.chats(at)[0], compactions=compactions[row] or ())
        causes = Counter(f.cause.value for f in merged.fragments if f.cause is not None)
        if causes:
            found[row] = causes
    return found


def _with_all(spans: pa.ListArray) -> pa.ListArray:
    """The same without the texts, which no break is known by."""
    structs, offsets = spans.values, spans.offsets
    names = [f.name for f in structs.type if f.name != "sampling"]
    bare = pa.StructArray.from_arrays([structs.field(name) for name in names], names=names)
    return type(spans).from_arrays(offsets, bare)


def _lengths(lists: pa.ListArray) -> NDArray[np.int64]:
    """Of each list, 0 where it is null."""
    sizes: NDArray[np.int64] = np.diff(lists.offsets.to_numpy()).astype(np.int64)
    return sizes
