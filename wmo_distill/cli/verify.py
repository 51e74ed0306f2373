"""`wmo-distill verify`: does a dataset keep the laws of its format?"""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.output import printable, put, say


def verify(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A dataset that `build` wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the faults as JSON.")] = False,
) -> None:
    """Check every file, count and row of a dataset; exit with 1 if anything is wrong."""
    import json
    from dataclasses import asdict

    from wmo_distill.shards.verify import verify as find_faults

    faults = find_faults(out)
    if as_json:
        put(json.dumps([asdict(fault) for fault in faults], indent=2))
    else:
        for fault in faults:
            put(printable(str(fault)))
    if faults:
        say(
            f"{printable(str(out))}: {len(faults)} faults; restore the files, or build the dataset "
            "again with --fresh"
        )
        raise typer.Exit(1)
    if not as_json:
        put(f"{printable(str(out))}: no fault")
