"""`wmo-distill verify`: does a dataset, or what was made of it, keep the laws of its format?"""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.output import Json, put, say
from wmo_distill.report.tables import printable


def verify(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="What `build` or `datums` wrote.")],
    printing: Json,
) -> None:
    """Check every file, count and row of a dataset or its datums; exit with 1 at any fault."""
    import json
    from dataclasses import asdict

    from wmo_distill.datums.manifest import KIND
    from wmo_distill.datums.verify import verify_datums
    from wmo_distill.outputs import kind_of
    from wmo_distill.shards.verify import verify as verify_dataset

    of_datums = kind_of(out) == KIND
    faults = verify_datums(out) if of_datums else verify_dataset(out)
    if printing.as_json:
        put(json.dumps([asdict(fault) for fault in faults], indent=2))
    else:
        for fault in faults:
            put(printable(str(fault)))
    if faults:
        say(
            f"{printable(str(out))}: {len(faults)} faults; restore the files, or "
            f"{'make the datums' if of_datums else 'build the dataset'} again with --fresh"
        )
        raise typer.Exit(1)
    if not printing.as_json:
        put(f"{printable(str(out))}: no fault")
