"""One conversation of a toy policy, recorded in eight ways, is one and the same in the records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sources.recorders import WRITERS, Sampled, conversation, sink
from wmo_distill import TrialRecord, build, build_datum_shards, iter_datums, iter_records, verify
from wmo_distill.records import SegmentKind

Writer = Callable[[Sequence[Sampled], Path], Path]
CHATS = [(1, 5, 3), (2, 6, None), (3, 1, None), (4, 12, 7)]
each_writer = pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)


def built(writer: Writer, calls: Sequence[Sampled], place: Path) -> TrialRecord:
    sinks = place / "sinks" if writer is sink else None
    root = writer(calls, place)
    build([root], place / "out", workers=1, sinks=sinks, declare={"logprob_mode": "raw"})
    assert verify(place / "out") == []
    (record,) = iter_records(place / "out")
    return record


def said(record: TrialRecord) -> list[tuple[Any, ...]]:
    """Every call in order: its segment, its place, ids and the bits of its log-probabilities."""
    return [
        (
            span.segment,
            span.call_index,
            span.prompt_token_ids.tolist(),
            span.sampled.tolist(),
            None if span.sampled_logprobs is None else span.sampled_logprobs.tobytes(),
        )
        for span in record.spans
    ]


@each_writer
@pytest.mark.parametrize(("seed", "turns", "rewritten"), CHATS)
def test_every_recorder_gives_the_calls_of_the_policy(
    writer: Writer, seed: int, turns: int, rewritten: int | None, tmp_path: Path
) -> None:
    calls = conversation(seed, turns, rewritten)
    record = built(writer, calls, tmp_path)
    assert said(record) == [
        (0, index, call.prompt, call.ids, np.array(call.logprobs, np.float64).tobytes())
        for index, call in enumerate(calls)
    ]
    assert [segment.kind for segment in record.segments] == [SegmentKind.MAIN]
    assert record.counts.fragments == (1 if rewritten is None else 2)
    assert not [issue for issue in record.issues if issue.drops_call]


def test_the_counts_and_the_sequences_are_the_same(tmp_path: Path) -> None:
    calls = conversation(1)
    counts, sequences = [], []
    for writer in WRITERS:
        place = tmp_path / writer.__name__
        counts.append(built(writer, calls, place).counts)
        build_datum_shards(place / "out", place / "datums", purpose="sft")
        rows = [row.datum for row in iter_datums(place / "datums")]
        sequences.append(
            [
                (d.token_ids.tolist(), d.loss_mask.tolist(), d.sampled_logprobs.tobytes())
                for d in rows
            ]
        )
    assert all(count == counts[0] for count in counts)
    assert len(sequences[0]) == 2
    assert all(found == sequences[0] for found in sequences)


def test_verifiers_rounds_and_says_so(tmp_path: Path) -> None:
    """As 0.4 writes: four decimals; ids and boundaries stay."""
    calls = [
        Sampled(c.prompt, c.ids, [round(x, 4) for x in c.logprobs], c.goes_on)
        for c in conversation(5)
    ]
    (writer,) = (w for w in WRITERS if w.__name__ == "verifiers")
    record = built(writer, calls, tmp_path)
    assert "logprobs_rounded" in record.issues
    assert [span.sampled.tolist() for span in record.spans] == [call.ids for call in calls]
