"""The command `wmo-distill`: its subcommands, and what an error looks like."""

import io
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from wmo_distill import __version__
from wmo_distill.cli.build import build
from wmo_distill.cli.check_logprobs import check_logprobs
from wmo_distill.cli.datums import datums
from wmo_distill.cli.doctor import doctor
from wmo_distill.cli.export import export
from wmo_distill.cli.flags import flagged
from wmo_distill.cli.regrade import regrade
from wmo_distill.cli.report import report
from wmo_distill.cli.run import RUN
from wmo_distill.cli.score import score
from wmo_distill.cli.show import show
from wmo_distill.cli.stats import stats
from wmo_distill.cli.usage import Refused, refusal
from wmo_distill.cli.verify import verify
from wmo_distill.cli.view import view
from wmo_distill.errors import DistillError, fault_of
from wmo_distill.visible import visible

app = typer.Typer(
    name="wmo-distill",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command, summary in (
    (doctor, "Look before building: tokens, what is missing, what to add."),
    (build, "Turn trials into Parquet shards, or bring them up to date."),
    (regrade, "Grade a dataset anew, without its trials."),
    (stats, "Solve rates, endings, tokens and issues."),
    (report, "The same as one HTML page of charts and tables."),
    (show, "One episode: a summary, or its tokens as text."),
    (view, "Episodes token by token, in a browser on this machine."),
    (datums, "Turn a dataset's records into training sequences."),
    (score, "A teacher's log-probabilities of training sequences."),
    (check_logprobs, "Do recorded log-probabilities belong to this model?"),
    (export, "Write training sequences in a trainer's form."),
    (verify, "Check every file, count and row of what was written."),
):
    app.command(short_help=summary)(flagged(command))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wmo-distill {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Directories of agent trials to Parquet shards of trial records, token for token."""


def main() -> NoReturn:
    """Run the command without handlers of signals, which `__main__` adds."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal's encoding cannot hold must not end the command.
        sys.stdout.reconfigure(errors="backslashreplace")
    RUN.log.take_strays()
    code = _code()
    RUN.end(code)
    RUN.log.close()
    sys.exit(code)


def _code() -> int:
    """The exit code of the command; what went wrong is on stderr."""
    try:
        return app(prog_name="wmo-distill", standalone_mode=False) or 0
    except DistillError as error:
        _refuse(f"wmo-distill: {visible(str(error))}")
        return error.exit_code
    except SystemExit as error:
        if type(error) is not SystemExit or not isinstance(error.code, int):
            raise
        return error.code  # Click's, where who reads stdout has gone
    except BaseException as error:
        fault = fault_of(error)
        if isinstance(fault, Refused):
            _refuse(refusal(fault))
            return fault.exit_code
        # a fault of ours: one plain line, and no values of the run
        said = visible(f"{type(fault).__name__}: {fault}")
        _refuse(f"wmo-distill: unexpected {said} ({_where(error)})")
        return 1


def _refuse(text: str) -> None:
    RUN.log.say(text, "error", "refusal")


def _where(error: BaseException) -> str:
    """The line of this package that was last on the way to the error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "wmo_distill" in f.filename] or list(frames)
    _, _, inside = ours[-1].filename.rpartition("wmo_distill")
    return f"wmo_distill{inside}:{ours[-1].lineno}"
