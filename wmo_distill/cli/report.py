"""`wmo-distill report`: a dataset or datums as one HTML page, or two of them compared."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.output import Printing
from wmo_distill.cli.stats import Counted


def report(
    source: Annotated[Path, typer.Argument(metavar="OUT", help="What `build` or `datums` wrote.")],
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="OTHER", help="A second one of the same kind, to compare.", show_default=False
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="HTML file to write.")],
    options: Counted,
    printing: Printing,
) -> None:
    """Write one HTML file with the numbers of `stats` as charts and tables, to open anywhere."""
    from wmo_distill.page.write import write_report
    from wmo_distill.report.tables import size
    from wmo_distill.visible import visible

    written = write_report(source, out, other=other, **options.recorded())
    printing.put(written, lambda: f"{visible(written.file)}: {size(written.bytes)}")
