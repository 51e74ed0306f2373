"""Datum shards to a directory of a trainer's rows, streamed, with a count of every refusal."""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.datums.dataset import DatumRow, iter_datums
from wmo_distill.datums.manifest import read_datum_manifest
from wmo_distill.datums.options import RewardOf
from wmo_distill.errors import UsageError
from wmo_distill.exporters.files import EXPORT, RowFiles, commit, difference
from wmo_distill.exporters.grouping import GroupCounts, GroupSummary
from wmo_distill.exporters.options import ExportOptions
from wmo_distill.exporters.registry import target_named
from wmo_distill.exporters.target import Place, Refusal, Target, offered
from wmo_distill.outputs.parts import writing
from wmo_distill.progress import Listener, Progress


class ExportSummary(BaseModel):
    """datums == exported + all refused."""

    model_config = ConfigDict(frozen=True)

    target: str
    datums: int = 0
    exported: int = 0
    tokens: int = 0
    """All tokens of exported sequences, context and trained."""
    loss_tokens: int = 0
    """Trained tokens of exported sequences."""
    refused: dict[Refusal, int] = Field(default_factory=dict)
    refused_loss_tokens: int = 0
    lost_first_tokens: int = 0
    """Trained tokens at position 0, which nothing predicts."""
    not_carried: list[str] = Field(default_factory=list)
    """Columns that some of these sequences have and the target's rows do not hold."""
    reward: RewardOf | None = None
    """Whose reward the rows hold, None for a target without rewards."""
    groups: GroupSummary = GroupSummary()
    files: list[str] = Field(default_factory=list)


def export_datums(
    datums: Path | str,
    out: Path | str,
    to: str,
    options: ExportOptions | None = None,
    *,
    progress: Listener | None = None,
    **changes: Any,
) -> ExportSummary:
    """Write the sequences in `datums` to `out` in the form of target `to`.

    `changes` are fields of `ExportOptions`. UsageError for an unknown target, a `datums` that holds
    none, or an `out` that is something else.
    """
    datums, out = Path(datums), Path(out)
    options = ExportOptions.of(options, **changes)
    target = target_named(to)
    if options.only is not None:
        raise UsageError(
            f"--only: expected --to messages or sharegpt, found --to {to}; sequences are chosen by "
            "`wmo-distill datums --only`"
        )
    manifest = read_datum_manifest(datums)
    total = manifest.summary.stats.datums
    counts = _Counts(target)
    differs = partial(difference, to, options)
    with writing(out, EXPORT, fresh=options.fresh, differs=differs) as parts:
        with RowFiles(parts, target.schema) as files:
            taught = manifest.options.teacher is not None
            rows = iter_datums(datums)
            for row, place in placed(
                rows, target, counts, assume_mode=options.assume_mode, taught=taught
            ):
                files.add(target.convert(row, place), row.datum.token_ids.size)
                if progress is not None:
                    progress(
                        Progress(
                            done=counts.datums,
                            total=total,
                            unit="sequences",
                            outcomes=counts.outcomes(),
                            parts=len(parts.parts),
                        )
                    )
        names = [part.file for part in parts.parts]
        summary = counts.summary(target, manifest.options.reward, names)
        commit(parts, manifest.source, options.recorded(), summary)
    return summary


class _Counts:
    """Sums as they grow."""

    def __init__(self, target: Target) -> None:
        self.datums = 0
        self.groups = GroupCounts(target.grouping)
        self.sums = {"exported": 0, "tokens": 0, "loss_tokens": 0, "refused_loss_tokens": 0}
        self.lost_first = 0
        self.refused: dict[Refusal, int] = {}
        self.offered: set[str] = set()

    def outcomes(self) -> dict[str, int]:
        return {"exported": self.sums["exported"]} | {str(r): n for r, n in self.refused.items()}

    def summary(self, target: Target, reward: RewardOf, files: list[str]) -> ExportSummary:
        return ExportSummary(
            target=target.name,
            reward=reward if target.needs_reward else None,
            groups=self.groups.summary(),
            datums=self.datums,
            refused=self.refused,
            lost_first_tokens=self.lost_first,
            not_carried=sorted(self.offered - target.carries),
            files=files,
            **self.sums,
        )


def placed(
    rows: Iterator[DatumRow],
    target: Target,
    counts: _Counts,
    *,
    assume_mode: bool,
    taught: bool = False,
) -> Iterator[tuple[DatumRow, Place]]:
    """The rows that the target takes, each with its place among them."""
    index = episodes = 0
    groups: dict[Any, int] = {}
    for _, run in groupby(rows, key=lambda row: row.datum.episode_id):
        taken = []
        for row in run:
            counts.datums += 1
            reason = target.refusal(row, assume_mode=assume_mode, taught=taught)
            if reason is None:
                taken.append(row)
            else:
                counts.refused[reason] = counts.refused.get(reason, 0) + 1
                counts.sums["refused_loss_tokens"] += row.datum.loss_tokens
        # The main chat comes last: what an episode ends with is its end.
        taken.sort(key=lambda row: row.datum.segment == 0)
        for step, row in enumerate(taken):
            key = row.group_id, row.datum.step_name
            group = groups.setdefault(key, len(groups))
            counts.sums["exported"] += 1
            counts.offered |= offered(row)
            counts.sums["tokens"] += row.datum.token_ids.size
            counts.sums["loss_tokens"] += row.datum.loss_tokens
            counts.lost_first += int(row.datum.loss_mask[0])
            place = Place(index, episodes, group, step, step == len(taken) - 1, len(taken))
            counts.groups.add(row, place)
            yield row, place
            index += 1
        episodes += bool(taken)
