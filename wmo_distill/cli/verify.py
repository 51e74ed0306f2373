"""`wmo-distill verify`: is a dataset, or what was made of it, as it was written?"""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.output import Printing, end, put, put_json
from wmo_distill.visible import visible


def verify(
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="What `build`, `datums`, `export` or `score` wrote."),
    ],
    printing: Printing,
) -> None:
    """Check every file, count and row of a dataset, datums, an export or a score cache.

    Exit with 1 at any fault.
    """
    from dataclasses import asdict

    from wmo_distill.datums.manifest import DATUMS
    from wmo_distill.datums.verify import verify_datums
    from wmo_distill.exporters.files import EXPORT
    from wmo_distill.exporters.verify import verify_export
    from wmo_distill.outputs.faults import CHANGE_PERMISSIONS
    from wmo_distill.outputs.manifest import kind_of
    from wmo_distill.scorers.cache import SCORES
    from wmo_distill.scorers.verify import verify_scores
    from wmo_distill.shards.manifest import DATASET
    from wmo_distill.shards.verify import verify as verify_dataset

    checks = {
        DATUMS.mark[1]: (verify_datums, DATUMS.again),
        EXPORT.mark[1]: (verify_export, EXPORT.again),
        SCORES.mark[1]: (verify_scores, SCORES.again),
    }
    check, again = checks.get(kind_of(out) or "", (verify_dataset, DATASET.again))
    with printing.working() as progress:
        faults = check(out, progress=progress)
    if printing.as_json:
        put_json([asdict(fault) for fault in faults])
    elif not printing.quiet:
        for fault in faults:
            put(visible(str(fault)))
    if faults:
        closed = sum(fault.found.endswith(CHANGE_PERMISSIONS) for fault in faults)
        do = f"restore the files, or {again}" if closed < len(faults) else "then verify again"
        end(1, f"{out}: {len(faults)} faults; {do}")
    if not printing.as_json and not printing.quiet:
        put(f"{visible(str(out))}: no fault")
