"""`wmo-distill export`: training sequences in a trainer's form."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import Writing, end, put, put_json, say
from wmo_distill.exporters.options import ExportOptions
from wmo_distill.report.tables import counts, table
from wmo_distill.visible import visible

if TYPE_CHECKING:
    from wmo_distill.exporters.messages import MessageSummary
    from wmo_distill.exporters.run import ExportSummary


def export(
    datums: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATUMS",
            help="What `datums` wrote; for messages and sharegpt what `build` wrote.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Directory to write."),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="Trainer to write for, as in --list.")
    ] = "",
    list_targets: Annotated[bool, typer.Option("--list", help="Print the targets.")] = False,
    options: ExportOptions,
    printing: Writing,
) -> None:
    """Write training sequences in the form that a trainer reads, counting what it cannot take."""
    from wmo_distill.errors import UsageError
    from wmo_distill.exporters.messages import FORMS, export_messages
    from wmo_distill.exporters.registry import TARGETS
    from wmo_distill.exporters.run import export_datums
    from wmo_distill.outputs.metrics import RUNS
    from wmo_distill.report.export import render_export, wrong_groups

    if list_targets:
        abouts = {name: target.about for name, target in TARGETS.items()}
        abouts |= {name: f"{about}, of a dataset" for name, (about, _, _) in FORMS.items()}
        if printing.as_json:
            put_json(abouts)
        else:
            put(table(abouts.items(), indent=""))
        return
    for given, name in ((datums, "DATUMS"), (out, "--out"), (to or None, "--to")):
        if given is None:
            raise UsageError(
                f"{name}: expected one, found none; say "
                "`wmo-distill export DATUMS -o DIR --to TARGET`, --list names the targets"
            )
    assert datums is not None
    assert out is not None
    summary: ExportSummary | MessageSummary
    with printing.writing(out, RUNS) as progress:
        if to not in FORMS and to not in TARGETS:
            names = ", ".join(sorted([*TARGETS, *FORMS]))
            raise UsageError(f"--to: expected one of {names}, found {to!r}; give another")
        run = export_messages if to in FORMS else export_datums
        summary = run(datums, out, to, options, progress=progress)
    printing.put(summary, lambda: render_export(out, summary))
    if "logprob_mode_unknown" in summary.refused:
        say(
            "logprob_mode is unknown: --assume --fresh takes it as it is; to have it in the rows, "
            "`build --declare logprob_mode=raw --fresh`, and then `datums` again"
        )
    for warning in wrong_groups(summary):
        say(visible(warning))
    if not summary.exported:
        refused = counts({str(reason): n for reason, n in summary.refused.items()})
        end(
            4,
            f"{out}: expected rows for {to}, found none: refused {refused or 'nothing'}; "
            "docs/training.md says what each target takes",
        )
