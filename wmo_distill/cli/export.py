"""`wmo-distill export`: training sequences in a trainer's form."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.output import Progress, columns, printable, put, put_json


def export(
    datums: Annotated[
        Path | None,
        typer.Argument(metavar="DATUMS", help="What `datums` wrote.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where the rows go."),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="The trainer; --list names them.")
    ] = "",
    assume_mode: Annotated[
        bool,
        typer.Option("--assume", help="Take log-probabilities of an unknown mode for RL too."),
    ] = False,
    list_targets: Annotated[
        bool, typer.Option("--list", help="Print the targets and end.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Write training sequences in the form that a trainer reads, counting what it cannot take."""
    from wmo_distill.errors import UsageError
    from wmo_distill.exporters.registry import TARGETS
    from wmo_distill.exporters.run import export_datums

    if list_targets:
        put(columns([(name, target.about) for name, target in TARGETS.items()], indent=""))
        return
    for given, name in ((datums, "DATUMS"), (out, "--out"), (to or None, "--to")):
        if given is None:
            raise UsageError(
                f"{name}: expected one, found none; say "
                "`wmo-distill export DATUMS -o DIR --to TARGET`, --list names the targets"
            )
    assert datums is not None
    assert out is not None
    progress = Progress("datums", quiet=quiet)
    try:
        summary = export_datums(datums, out, to, assume_mode=assume_mode, progress=progress)
    finally:
        progress.close()
    if as_json:
        put_json(summary)
    elif not quiet:
        rows = [
            ("datums", f"{summary.datums:,}"),
            ("exported", f"{summary.exported:,}"),
            *((f"refused, {reason}", f"{n:,}") for reason, n in summary.refused.items()),
            ("tokens", f"{summary.tokens:,}, of which {summary.loss_tokens:,} trained"),
        ]
        if summary.lost_first_tokens:
            rows.append(("not trained, first token", f"{summary.lost_first_tokens:,}"))
        put(f"{printable(str(out))}: {summary.target}\n{columns(rows)}")
