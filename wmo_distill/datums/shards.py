"""Datum shards: the training sequences of a dataset, streamed into Parquet parts."""

from collections.abc import Callable
from pathlib import Path

from wmo_distill.datums.groups import COLUMNS, episode_groups
from wmo_distill.datums.manifest import (
    DatumManifest,
    DatumSummary,
    earlier_parts,
    write_datum_manifest,
)
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.stream import Funnel, iter_rows
from wmo_distill.datums.writer import DatumWriter, next_number
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.scan import scan


def build_datum_shards(
    source: Path | str,
    out: Path | str,
    options: DatumOptions = DatumOptions(),  # noqa: B008 - frozen
    *,
    progress: Callable[[int, int], None] | None = None,
) -> DatumSummary:
    """Write the datums of the dataset in `source` to `out`, replacing those of an earlier build.

    One row group of each is in memory. UsageError for a source that is no dataset, or an `out`
    that is something else.
    """
    source, out = Path(source), Path(out)
    manifest = read_manifest(source)
    old = earlier_parts(out)
    episodes = scan(source).select(COLUMNS).collect().to_dicts()
    groups = episode_groups(episodes, options)
    funnel = Funnel()
    with DatumWriter(out, next_number(old)) as writer:
        for number, rows in enumerate(iter_rows(source, options, groups, funnel)):
            writer.add(rows)
            if progress is not None:
                progress(number + 1, len(episodes))
    summary = funnel.summary(writer.names)
    write_datum_manifest(
        out,
        DatumManifest(
            source=manifest.dataset_hash, options=options, parts=writer.names, summary=summary
        ),
    )
    for name in old:
        (out / name).unlink(missing_ok=True)
    return summary
