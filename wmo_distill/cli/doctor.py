"""`wmo-distill doctor`: look before building."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.flags import Paths
from wmo_distill.cli.output import Json, end, say_errors

NOTHING_FOUND = 4


def doctor(
    paths: Paths,
    printing: Json,
    sinks: Annotated[
        Path | None,
        typer.Option(
            "--sinks", metavar="DIR", help="Directory of token sinks, as given to `build`."
        ),
    ] = None,
) -> None:
    """Look before building: do these trials hold tokens, and what is missing for training?"""
    from wmo_distill.doctor.diagnose import diagnose
    from wmo_distill.report.doctor import render_diagnosis

    diagnosis = diagnose(paths, sinks)
    if diagnosis.trials or printing.as_json:
        printing.put(diagnosis, lambda: render_diagnosis(diagnosis, paths, sinks))
    say_errors(diagnosis.unread)
    if not diagnosis.trials:
        end(
            NOTHING_FOUND,
            f"{', '.join(map(str, paths))}: expected trials at any depth, found none: "
            "no directory holds a trial's result.json, config.json or files of its agent; "
            "check the PATH",
        )
