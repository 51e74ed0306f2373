"""Datums of a whole row group at once, for the rows whose chat only ever extends.

Everything else (breaks, limits, missing log-probabilities) is left to the record by record way,
which gives the same datums.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB, Ids, Lists, Logprobs
from wmo_distill.datums.build import DatumRules
from wmo_distill.shards.decode import SpanColumns

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CleanRow:
    """The one sequence of an unbroken chat, all of its sampled tokens trained."""

    token_ids: Ids
    loss_mask: NDArray[np.bool_]
    sampled_logprobs: Logprobs
    call_starts: tuple[int, ...]
    call_lengths: tuple[int, ...]
    finish_reasons: tuple[str | None, ...]
    subagent_tokens: int
    """Sampled in the row's other segments, which are not trained."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """The main calls of a row group in order; `row` is not falling."""

    index: _Ints
    row: _Ints
    suffix: _Ints
    sampled: _Ints


def clean_rows(spans: SpanColumns, rules: DatumRules) -> Mapping[int, CleanRow]:
    """The rows, by number, that are one whole sequence under `rules`."""
    rows = spans.starts.size - 1
    row_of = np.repeat(np.arange(rows), np.diff(spans.starts))
    suffix = np.diff(spans.calls.prompt_suffix.starts).astype(np.int64)
    sampled = np.diff(spans.calls.sampled_token_ids.starts).astype(np.int64)
    main = np.flatnonzero(spans.segment == 0)
    bad = np.zeros(rows, np.bool_)
    if rules.reference or not main.size:
        return {}
    if rules.subagents:
        bad[row_of[spans.segment != 0]] = True
    row, before = row_of[main], np.r_[-1, main[:-1]]
    first = np.r_[True, row[1:] != row[:-1]]
    length = spans.calls.prefix_len + suffix + sampled
    expected = np.where(first, 0, length[before])
    extends = spans.calls.prefix_len[main] == expected
    index = spans.calls.call_index
    extends &= first | ((expected > 0) & (index[main] > index[before]))
    bad[row[~extends]] = True
    bad[row_of[_unscored(spans, sampled)]] = True

    size = np.bincount(row, weights=(suffix + sampled)[main], minlength=rows).astype(np.int64)
    trained = np.bincount(row, weights=sampled[main], minlength=rows).astype(np.int64)
    last = np.zeros(rows, np.int64)
    last[row] = sampled[main]
    asked = size if rules.budget_rule == "sequence" else size - last
    bad |= trained == 0
    if rules.context_budget is not None:
        bad |= asked > rules.context_budget
    if rules.max_datum_tokens is not None:
        bad |= size > rules.max_datum_tokens
    kept = main[~bad[row]]
    if not kept.size:
        return {}
    calls = _Calls(kept, row_of[kept], suffix[kept], sampled[kept])
    others = np.bincount(row_of, weights=sampled, minlength=rows).astype(np.int64) - trained
    return _sequences(spans, calls, size, others)


def _unscored(spans: SpanColumns, sampled: _Ints) -> NDArray[np.bool_]:
    """Which calls sampled a token whose log-probability is missing, not finite or implausible."""
    logprobs = spans.calls.sampled_logprobs
    lengths = np.diff(logprobs.starts)
    unscored: NDArray[np.bool_] = (lengths != sampled) | ((sampled > 0) & ~logprobs.present)
    first, last = logprobs.starts[0], logprobs.starts[-1]
    values = logprobs.values[first:last]
    used = np.isfinite(values) & (values > IMPLAUSIBLE_LOGPROB)
    if not used.all():
        places = np.flatnonzero(~used) + first
        unscored[np.searchsorted(logprobs.starts, places, side="right") - 1] = True
    return unscored


def _sequences(
    spans: SpanColumns, calls: _Calls, size: _Ints, others: _Ints
) -> dict[int, CleanRow]:
    """Suffixes and sampled runs in turn, in one array, cut at the rows."""
    runs = np.empty(2 * calls.index.size, np.int64)
    runs[0::2], runs[1::2] = calls.suffix, calls.sampled
    mask = np.repeat(np.tile(np.array([False, True]), calls.index.size), runs)
    ids = np.empty(mask.size, np.int32)
    logprobs = np.zeros(mask.size, np.float64)
    wanted = np.zeros(spans.segment.size, np.bool_)
    wanted[calls.index] = True
    ids[~mask] = _elements(spans.calls.prompt_suffix, wanted)
    ids[mask] = _elements(spans.calls.sampled_token_ids, wanted)
    logprobs[mask] = _elements(spans.calls.sampled_logprobs, wanted)
    for array in (ids, mask, logprobs):
        array.flags.writeable = False

    begins = np.cumsum(runs) - runs
    found: dict[int, CleanRow] = {}
    numbers, first = np.unique(calls.row, return_index=True)
    edges = np.r_[first, calls.row.size]
    for number, start, end in zip(numbers.tolist(), edges[:-1], edges[1:], strict=True):
        at = int(begins[2 * start])
        place = slice(at, at + int(size[number]))
        spoken = np.flatnonzero(calls.sampled[start:end]) + start
        found[number] = CleanRow(
            ids[place],
            mask[place],
            logprobs[place],
            tuple((begins[2 * spoken + 1] - at).tolist()),
            tuple(calls.sampled[spoken].tolist()),
            tuple(spans.calls.finish_reason[i] for i in calls.index[spoken].tolist()),
            int(others[number]),
        )
    return found


def _elements(lists: Lists, wanted: NDArray[np.bool_]) -> NDArray[Any]:
    """The elements of the wanted lists, one after the other."""
    values: NDArray[Any] = lists.values[lists.starts[0] : lists.starts[-1]]
    return values if wanted.all() else values[np.repeat(wanted, np.diff(lists.starts))]
