"""Checks an export against its manifest: the bytes of every file, and its rows."""

from collections.abc import Iterator
from pathlib import Path

from wmo_distill.exporters.files import EXPORT
from wmo_distill.files import open_file
from wmo_distill.outputs.faults import Fault, differences
from wmo_distill.outputs.manifest import MANIFEST, PartFile
from wmo_distill.outputs.settled import settled
from wmo_distill.outputs.stored import DAMAGE, parquet_file, plain_cause, read_group
from wmo_distill.progress import Listener


@settled
def verify_export(out: Path, progress: Listener | None) -> list[Fault]:
    """Every fault found; UsageError where there is no manifest to check against."""
    manifest = EXPORT.read(out, sealed=False)
    rows = manifest.summary.get("rows", manifest.summary.get("exported"))
    stated = sum(part.rows for part in manifest.parts)
    return [
        *differences(MANIFEST, [("rows of all parts,", rows, stated)]),
        *EXPORT.faults(out, manifest.parts, lambda part: _row_faults(out, part), progress),
    ]


def _row_faults(out: Path, part: PartFile) -> Iterator[Fault]:
    try:
        if part.file.endswith(".parquet"):
            with parquet_file(out / part.file, part.footer) as file:
                groups = range(file.num_row_groups)
                rows = sum(read_group(file, group).num_rows for group in groups)
        else:
            with open_file(out / part.file) as lines:
                rows = sum(1 for _ in lines)
    except DAMAGE as error:
        yield Fault(part.file, None, "a readable file", plain_cause(error))
        return
    yield from differences(part.file, [("rows as in the manifest,", part.rows, rows)])
