"""`wmo-distill regrade`: other grades for a dataset, without its trials."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.flags import Dataset
from wmo_distill.cli.output import Writing
from wmo_distill.options import RegradeOptions


def regrade(
    source: Dataset,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="OUT2", help="Dataset to write: another one.")
    ],
    options: RegradeOptions,
    printing: Writing,
) -> None:
    """Grade a dataset anew: tokens stay as they are, and no trial is read."""
    from wmo_distill.pipeline.regrade import regrade as run
    from wmo_distill.report.build import render_regraded

    with printing.writing(out) as progress:
        summary = run(source, out, options, progress=progress)
    printing.put(summary, lambda: render_regraded(summary, out))
