"""Datum shards: the training sequences of a dataset, streamed into Parquet parts."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from wmo_distill.datums.groups import COLUMNS, EpisodeGroup, episode_groups
from wmo_distill.datums.manifest import DATUMS, DatumManifest, DatumSummary
from wmo_distill.datums.options import DatumOptions, RewardOf
from wmo_distill.datums.stream import Funnel, iter_rows
from wmo_distill.datums.teacher import Rescorer, Scores, Teacher
from wmo_distill.datums.versions import newest_step_of
from wmo_distill.datums.writer import DatumWriter
from wmo_distill.errors import UsageError
from wmo_distill.outputs.parts import writing
from wmo_distill.progress import Listener, Progress
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.scan import iter_batches, scan
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.shards.selection import chosen


def build_datum_shards(
    source: Path | str,
    out: Path | str,
    options: DatumOptions | None = None,
    *,
    scores: Scores | None = None,
    rescored: Scores | None = None,
    progress: Listener | None = None,
    **changes: Any,
) -> DatumSummary:
    """Write the datums of the dataset in `source` to `out`, replacing those of an earlier build.

    `changes` are fields of `DatumOptions`; datums of other options are replaced only if `fresh`.
    With a teacher in `options`, `scores` hold its log-probabilities, such as a ScoreCache; with
    `options.rescored`, a name, `rescored` holds the student's own, asked again. One row group of
    each is in memory. UsageError for a source that is no
    dataset, an `out` that is something else, an unknown task, or a name that has scored nothing.
    """
    source, out = Path(source), Path(out)
    options = DatumOptions.of(options, **changes)
    if options.discount != 1.0 and options.reward is not RewardOf.RETURN:
        raise UsageError(
            f"--discount: expected --reward return with it, found {options.reward.value}; "
            "it alters the sum of a step's reward and those after it alone"
        )
    manifest = read_manifest(source)
    with writing(
        out,
        DATUMS,
        fresh=options.fresh,
        differs=lambda before: options.difference(before.options.recorded()),
    ) as parts:
        tasks, groups = dataset_groups(source, options)
        _refuse_unknown_tasks(options, tasks)
        teacher = _teacher(options, scores)
        rescorer = _rescorer(options, rescored)
        newest = _newest_step(source, options)
        if teacher is not None and options.center:
            # The mean that centring takes off is known when every advantage has been seen once.
            for _ in iter_rows(source, options, groups, Funnel(), teacher, newest=newest):
                pass
            assert scores is not None
            teacher = Teacher(scores, options, shift=teacher.sums.mean or 0.0)
        funnel = Funnel()
        with DatumWriter(parts) as writer:
            made = iter_rows(source, options, groups, funnel, teacher, rescorer, newest=newest)
            for number, rows in enumerate(made):
                writer.add(rows)
                if progress is not None:
                    progress(
                        Progress(
                            done=number + 1,
                            total=len(groups),
                            unit="records",
                            outcomes=funnel.counts,
                            parts=len(parts.parts),
                        )
                    )
        summary = funnel.summary([part.file for part in parts.parts], teacher, rescorer)
        parts.commit(
            DatumManifest(
                source=manifest.dataset_hash,
                options=options,
                parts=parts.parts,
                summary=summary,
            )
        )
    return summary


def dataset_groups(source: Path, options: DatumOptions) -> tuple[set[str], dict[str, EpisodeGroup]]:
    """The tasks of a dataset, and the group of each of its episodes, by episode_id."""
    pass_at = read_manifest(source).options.get("pass_at")
    rows = scan(source).select(*COLUMNS, "task_id").collect().to_dicts()
    groups = episode_groups(rows, options, pass_at=pass_at)
    if options.where is not None:
        mask = chosen(options.where, SCHEMA, lambda columns: iter_batches(source, columns, _alone))
        for row, wanted in zip(rows, mask.tolist(), strict=True):
            groups[row["episode_id"]] = replace(groups[row["episode_id"]], selected=wanted)
    return {row["task_id"] for row in rows} - {None}, groups


def _alone(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch]


def _refuse_unknown_tasks(options: DatumOptions, known: Collection[str]) -> None:
    for task in options.tasks:
        if task not in known:
            names = ", ".join(map(repr, sorted(known)[:5])) + (", ..." if len(known) > 5 else "")
            raise UsageError(
                f"--task: expected a task of the dataset ({names or 'it has none'}), "
                f"found {task!r}; `wmo-distill stats` lists them"
            )


def _newest_step(source: Path, options: DatumOptions) -> int | None:
    if options.max_staleness is None:
        return None
    newest = newest_step_of(source)
    if newest is None:
        raise UsageError(
            "--max-staleness: expected a train_step, or policy versions that are whole numbers, "
            "found none in the dataset; build it with --declare train_step=N"
        )
    return newest


def _teacher(options: DatumOptions, scores: Scores | None) -> Teacher | None:
    if options.teacher is None and scores is None:
        for name in ("beta", "clip", "center", "teacher_discount"):
            if getattr(options, name) != DatumOptions.model_fields[name].default:
                raise UsageError(
                    f"{DatumOptions.flag(name)}: expected --scores and --teacher with it, "
                    "found neither; it alters a teacher's advantages alone"
                )
        return None
    if options.teacher is None or scores is None:
        raise UsageError(
            "--scores and --teacher: expected both or neither, found one; "
            "name the cache that `wmo-distill score` wrote, and the teacher that it was given"
        )
    _refuse_unknown_name("--teacher", options.teacher, scores)
    return Teacher(scores, options)


def _rescorer(options: DatumOptions, scores: Scores | None) -> Rescorer | None:
    if options.rescored is None and scores is None:
        return None
    if options.rescored is None or scores is None:
        raise UsageError(
            "--rescored and --rescored-name: expected both or neither, found one; name the cache "
            "that `wmo-distill check-logprobs --store` wrote, and the name that it was given"
        )
    _refuse_unknown_name("--rescored-name", options.rescored, scores)
    return Rescorer(scores, options.rescored)


def _refuse_unknown_name(option: str, name: str, scores: Scores) -> None:
    known = scores.teachers()
    if name not in known:
        names = ", ".join(sorted(known)) or "no scores at all"
        raise UsageError(
            f"{option}: expected one that has scored, found {name!r}; the cache holds "
            f"{names}: name another, or run `wmo-distill score`"
        )
