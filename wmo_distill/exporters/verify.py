"""Checks an export against its manifest: the bytes of every file, and its rows."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wmo_distill.exporters.files import EXPORT
from wmo_distill.outputs.faults import Fault, differences
from wmo_distill.outputs.manifest import MANIFEST, PartFile


def verify_export(out: Path | str) -> list[Fault]:
    """Every fault found; UsageError where there is no manifest to check against."""
    out = Path(out)
    manifest = EXPORT.read(out, sealed=False)
    rows = manifest.summary.get("rows", manifest.summary.get("exported"))
    stated = sum(part.rows for part in manifest.parts)
    return [
        *differences(MANIFEST, [("rows of all parts,", rows, stated)]),
        *EXPORT.faults(out, manifest.parts, lambda part: _row_faults(out, part)),
    ]


def _row_faults(out: Path, part: PartFile) -> Iterator[Fault]:
    try:
        if part.file.endswith(".parquet"):
            rows = pq.read_metadata(out / part.file).num_rows
        else:
            with open(out / part.file, "rb") as lines:
                rows = sum(1 for _ in lines)
    except (OSError, ValueError, pa.ArrowException) as error:
        yield Fault(part.file, None, "a readable file", str(error))
        return
    yield from differences(part.file, [("rows as in the manifest,", part.rows, rows)])
