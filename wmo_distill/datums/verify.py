"""Checks datum shards against their manifest and the invariants of their rows."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.dataset import DatumRow, rows_of
from wmo_distill.datums.datum import Account, TrainDatum
from wmo_distill.datums.manifest import DATUMS, PARTS_DIR
from wmo_distill.datums.options import Baseline, DatumOptions, RewardOf
from wmo_distill.datums.table import DATUM_SCHEMA, PER_TOKEN, datum_id
from wmo_distill.errors import DistillError
from wmo_distill.outputs.faults import Fault, differences, first_faults, is_readable
from wmo_distill.outputs.manifest import MANIFEST, PartFile
from wmo_distill.outputs.settled import settled
from wmo_distill.predicates import is_measured
from wmo_distill.progress import Listener
from wmo_distill.shards.faults import batch_faults

_SUMS = ("datums", "loss_tokens", "context_tokens", "breaks", "with_routed_experts")


@dataclass(slots=True)
class _Seen:
    """What the parts hold, to be compared with the manifest."""

    account: Account = field(default_factory=Account)
    keys: set[tuple[str, int, int]] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    """The episodes of which a sequence ends the main chat."""
    stated: dict[str, int] = field(default_factory=dict)
    """The n_fragments of each episode."""


@settled
def verify_datums(datums: Path, progress: Listener | None) -> list[Fault]:
    """Every fault found; UsageError where there is no manifest to check against.

    Reads every part once, a row group at a time.
    """
    manifest = DATUMS.read(datums, sealed=False)
    seen, options = _Seen(), manifest.options
    faults = list(
        DATUMS.faults(
            datums, manifest.parts, lambda p: _part_faults(datums, p, options, seen), progress
        )
    )
    # A part that is not there is one fault, not one for each sum.
    if all(is_readable(datums / part.file) for part in manifest.parts):
        stats, found = manifest.summary.stats, seen.account.stats()
        sums = [
            (f"{name}, from the rows,", getattr(found, name), getattr(stats, name))
            for name in _SUMS
        ]
        faults += differences(MANIFEST, sums)
        faults += first_faults(PARTS_DIR, _fragment_faults(seen))
    return faults


def _fragment_faults(seen: _Seen) -> Iterator[Fault]:
    found = Counter(episode for episode, _, _ in seen.keys)
    for episode, stated in seen.stated.items():
        if found[episode] != stated:
            yield Fault(PARTS_DIR, None, f"{stated} fragments of {episode}", str(found[episode]))


def _part_faults(
    datums: Path, part: PartFile, options: DatumOptions, seen: _Seen
) -> Iterator[Fault]:
    def check(batch: pa.RecordBatch, first: int) -> Iterator[Fault]:
        for at, expected, found in _batch_breaches(batch, options, seen):
            yield Fault(part.file, first + at, expected, found)

    return batch_faults(datums, part, DATUM_SCHEMA, check)


def _batch_breaches(
    batch: pa.RecordBatch, options: DatumOptions, seen: _Seen
) -> Iterator[tuple[int, str, str]]:
    sizes = {name: pc.list_value_length(batch.column(name)) for name in PER_TOKEN}
    odd = False
    for name in PER_TOKEN:
        for at in _rows_where(pc.not_equal(sizes[name], sizes["token_ids"])):
            odd = True
            yield at, f"{sizes['token_ids'][at]} {name}, one a token", str(sizes[name][at])
    if odd:
        return  # what is aligned with what is not known
    logprobs = batch.column("sampled_logprobs")
    filler = pc.and_not(pc.is_valid(logprobs.flatten()), batch.column("loss_mask").flatten())
    for at in sorted(set(pc.list_parent_indices(logprobs).filter(filler).to_pylist())):
        yield at, "no sampled_logprobs where nothing is trained", "some"
    rows, fault = _whole_rows(batch)
    if fault is not None:
        yield len(rows), "a row that can be read", fault
    for at, row in enumerate(rows):
        seen.account.keep([row.datum])
        if row.datum.ends_chat:
            if row.datum.episode_id in seen.ended:
                yield at, "one sequence with which an episode's main chat ends", "another"
            seen.ended.add(row.datum.episode_id)
        key = (row.datum.episode_id, row.datum.segment, row.datum.fragment_index)
        if key in seen.keys:
            yield at, "each episode_id, segment and fragment_index once", str(key)
        seen.keys.add(key)
        stated = seen.stated.setdefault(row.datum.episode_id, row.n_fragments)
        if stated != row.n_fragments:
            yield at, f"n_fragments {stated} as in its other rows", str(row.n_fragments)
        for expected, found in _row_breaches(row, options):
            yield at, expected, found


def _whole_rows(batch: pa.RecordBatch) -> tuple[list[DatumRow], str | None]:
    """(the rows up to the first one that cannot be read, what is wrong with that one)."""
    rows: list[DatumRow] = []
    try:
        rows.extend(rows_of(batch))
    except (ValueError, DistillError) as error:
        return rows, str(error)
    return rows, None


def _rows_where(found: pa.BooleanArray) -> list[int]:
    marks = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return [int(at) for at in np.flatnonzero(marks)]


def _row_breaches(row: DatumRow, options: DatumOptions) -> Iterator[tuple[str, str]]:
    datum = row.datum
    n, mask = datum.token_ids.size, datum.loss_mask
    if n and datum.token_ids.min() < 0:
        yield "token ids of 0 and more", str(datum.token_ids.min())
    if datum_id(datum) != row.datum_id:
        yield f"datum_id {datum_id(datum)}, the digest of its token ids", row.datum_id
    sampled = _sampled(datum.call_starts, datum.call_lengths, n)
    if sampled is None:
        runs = f"{datum.call_starts}, {datum.call_lengths}"
        yield f"sampled runs in order within {n} tokens", runs
    elif (mask & ~sampled).any():
        at = int(np.flatnonzero(mask & ~sampled)[0])
        yield "trained tokens in sampled runs alone", f"token {at} outside"
    trained = datum.sampled_logprobs[mask]
    if options.purpose == "rl" and np.isnan(trained).any():
        yield "a log-probability at each trained token", f"{np.isnan(trained).sum()} without"
    for name, numbers in (
        ("sampled_logprobs", trained),
        ("advantages", datum.advantages),
        ("teacher_logprobs", datum.teacher_logprobs),
        ("rescored_logprobs", datum.rescored_logprobs),
    ):
        if numbers is not None and np.isinf(numbers).any():
            yield f"finite {name}", "an infinite one"
    if datum.advantages is not None and np.isnan(datum.advantages).any():
        yield "an advantage at each token", f"{np.isnan(datum.advantages).sum()} without"
    yield from _call_breaches(datum, options)
    yield from _reward_breaches(row, options)
    if not (np.isfinite(row.weight) and row.weight >= 0):
        yield "a finite weight of 0 or more", str(row.weight)
    if options.max_datum_tokens is not None and n > options.max_datum_tokens:
        yield f"at most {options.max_datum_tokens} tokens", str(n)


def _call_breaches(datum: TrainDatum, options: DatumOptions) -> Iterator[tuple[str, str]]:
    """A finish reason for each call; the end of the main chat in segment 0 alone."""
    calls = len(datum.call_starts)
    if len(datum.finish_reasons) != calls:
        yield f"{calls} finish_reasons, one a call", str(len(datum.finish_reasons))
    if datum.ends_chat and datum.segment:
        yield "ends_chat in segment 0 alone", f"in segment {datum.segment}"
    trained = datum.sampled_logprobs[datum.loss_mask]
    if options.purpose == "rl" and (trained <= IMPLAUSIBLE_LOGPROB).any():
        yield f"trained log-probabilities above {IMPLAUSIBLE_LOGPROB}", str(trained.min())


def _reward_breaches(row: DatumRow, options: DatumOptions) -> Iterator[tuple[str, str]]:
    """The reward is the chosen one, and only a measured one gives advantages."""
    whole = options.reward is RewardOf.STEP or row.step_index is None
    name = "step_reward" if whole else "trial_reward"
    if (whole or options.reward is RewardOf.TRIAL) and row.reward != getattr(row, name):
        yield f"reward {getattr(row, name)}, the {name}", str(row.reward)
    if options.teacher is None and row.datum.advantages is not None:
        if options.advantages is Baseline.NONE:
            yield "no advantages", "some"
        elif not is_measured(row.reward, row.reward_valid):
            yield "advantages of measured rewards alone", f"reward {row.reward}, not valid"


def _sampled(
    starts: tuple[int, ...], lengths: tuple[int, ...], n: int
) -> "np.ndarray[tuple[int], np.dtype[np.bool_]] | None":
    """Where sampled runs are; None unless they are within `n` tokens, in order and apart."""
    found = np.zeros(n, bool)
    if len(starts) != len(lengths):
        return None
    end = 0
    for start, length in zip(starts, lengths, strict=True):
        if start < end or length < 0 or start + length > n:
            return None
        end = start + length
        found[start:end] = True
    return found
