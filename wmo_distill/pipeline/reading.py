"""Trials to parts, by an engine; a batch that fails is read again trial by trial."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from wmo_distill.engines.outcome import Died, Done, Engine, Engines, Failed
from wmo_distill.errors import DistillError
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.batch import (
    Batch,
    BatchResult,
    Entry,
    Reader,
    Unit,
    Work,
    copy_rows,
    failed,
    over_time,
    run_batch,
)
from wmo_distill.pipeline.plan import PART_BYTES, PART_TRIALS, cut, units_in_order
from wmo_distill.pipeline.watchdog import ENDED_BY
from wmo_distill.shards.ledger import Reason
from wmo_distill.shards.manifest import PartInfo
from wmo_distill.shards.writer import PartWriter

APART_BYTES = 64_000_000
"""A larger trial is read by a worker process, even a single one, which may run out of memory.

What smaller ones take is known to be little, and a process costs about 0.3 s to start.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """The input of one part, and of a trial that this process reads itself."""

    part_bytes: int = PART_BYTES
    part_trials: int = PART_TRIALS
    apart_bytes: int = APART_BYTES


@dataclass(slots=True)
class Reading:
    """Reads works into parts; `engines` change the time it takes and nothing else."""

    options: BuildOptions
    reader: Reader
    engines: Engines
    limits: Limits = Limits()
    workers: int = field(default=0, init=False)
    """Processes of the engine that read last, 0 for this one or where it has no number."""
    _parts: int = field(default=0, init=False)

    def read(
        self,
        place: Path,
        works: Sequence[Work],
        *,
        apart: bool = False,
        notice: Callable[[Entry], None] | None = None,
    ) -> Iterator[BatchResult]:
        """Write parts into `place`; gives their results in order.

        `apart` from this process, however small, where a trial may end the process that reads it,
        as any large one may. `notice` is called after each trial that this process reads.
        OSError or DistillError where a part cannot be written.
        """
        parts = cut(
            units_in_order(works),
            most_bytes=self.limits.part_bytes,
            most_trials=self.limits.part_trials,
        )
        sizes = [work.state.bytes for work in works]
        apart |= self.limits.apart_bytes < max(sizes, default=0) <= self.options.max_file_size
        engine = self.engines.engine(len(parts), sum(sizes), apart=apart)
        batches = [self._batch(place, units, engine, notice) for units in parts]
        self.workers = getattr(engine, "count", 0)
        with closing(_as_generator(engine, batches)) as outcomes:
            for batch, outcome in zip(batches, outcomes, strict=True):
                yield self._result(batch, outcome, engine)

    def _batch(
        self,
        place: Path,
        units: tuple[Unit, ...],
        engine: Engine,
        notice: Callable[[Entry], None] | None,
    ) -> Batch:
        self._parts += 1
        file = place / f"new-{self._parts:05d}.parquet"
        seen = None if engine.apart else notice
        return Batch(file, units, self.options, self.reader, engine.apart, seen)

    def _result(
        self, batch: Batch, outcome: Done[BatchResult] | Failed | Died, engine: Engine
    ) -> BatchResult:
        if isinstance(outcome, Done):
            return outcome.value
        _raise_own(outcome)
        return self._one_by_one(batch, self.engines.engine(1, 0, apart=engine.apart))

    def _one_by_one(self, batch: Batch, engine: Engine) -> BatchResult:
        """Each trial into a part of its own, then their rows into the part of the batch."""
        singles = [
            replace(
                batch,
                file=batch.file.with_suffix(f".{i}.parquet"),
                units=(Unit(work),),
                notice=None,
            )
            for i, work in enumerate(batch.works)
        ]
        entries: list[Entry] = []
        with PartWriter(batch.file) as part:
            for single, outcome in zip(singles, _as_generator(engine, singles), strict=True):
                if isinstance(outcome, Done):
                    entries += outcome.value.entries
                    if outcome.value.part is not None:
                        copy_rows(single.file, part, [single.works[0].path])
                        single.file.unlink()
                else:
                    _raise_own(outcome)
                    entries.append(_lost(single, outcome))
        info: PartInfo | None = part.info
        if not part.info.rows:
            batch.file.unlink()
            info = None
        return BatchResult(info, tuple(entries))


def _as_generator(
    engine: Engine, batches: Sequence[Batch]
) -> Generator[Done[BatchResult] | Failed | Died, None, None]:
    yield from engine.map(run_batch, batches)


def _raise_own(outcome: Failed | Died) -> None:
    """A fault of the disk or of this program's own accounts is no trial's fault."""
    if isinstance(outcome, Failed) and isinstance(outcome.error, OSError | DistillError):
        raise outcome.error


def _lost(batch: Batch, outcome: Failed | Died) -> Entry:
    (work,) = batch.works
    if isinstance(outcome, Failed):
        return failed(work, Reason.READ_FAILED, outcome.error)
    if ENDED_BY is not None and outcome.exit_code == -ENDED_BY:
        return over_time(work, batch.options)
    entry = failed(work, Reason.WORKER_DIED)
    return replace(entry, error=f"the worker process ended with exit code {outcome.exit_code}")
