"""What commands print: data on stdout, talk on stderr."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from wmo_distill.cli.live import Working
from wmo_distill.cli.log import LogFormat
from wmo_distill.cli.run import RUN
from wmo_distill.operation import Options, option
from wmo_distill.trackers import TrackerName
from wmo_distill.visible import visible

if TYPE_CHECKING:
    from pydantic import BaseModel

_MOST_ERRORS = 20


def put(text: str) -> None:
    """Data, on stdout."""
    typer.echo(text, nl=not text.endswith("\n"))


def put_json(data: object) -> None:
    """Data for programs: JSON in ASCII, whatever the encoding of stdout."""
    put(json.dumps(data, indent=2, default=str))


def say(text: str) -> None:
    """Talk, on stderr."""
    RUN.log.say(text)


def say_errors(errors: Mapping[str, str]) -> None:
    """What went wrong where, on stderr: the first ones, and how many more there are."""
    for place, error in list(errors.items())[:_MOST_ERRORS]:
        say(f"wmo-distill: {visible(place)}: {visible(error)}")
    if len(errors) > _MOST_ERRORS:
        more = len(errors) - _MOST_ERRORS
        say(f"wmo-distill: {more:,} more like these; --json lists all of them")


def end(code: int, why: str) -> NoReturn:
    """End a command that did its work with another code than 0; stderr says why, --quiet too."""
    RUN.log.say(f"wmo-distill: {visible(why)}", "error", "refusal")
    raise typer.Exit(code)


class Logged(Options):
    """Of every command."""

    log_format: LogFormat | None = option(
        None, "Write every line on stderr as an event, progress included."
    )


class Json(Logged):
    """Of a command that prints one result."""

    as_json: bool = option(False, "Print the result as JSON.", flag="--json")

    def put(self, result: "BaseModel", render: Callable[[], str]) -> None:
        if self.as_json:
            put_json(json.loads(result.model_dump_json()))
        else:
            put(render())


class Printing(Json):
    """Of a command that does more than print."""

    quiet: bool = option(False, "Print no result and no progress.", flag="--quiet -q")

    def working(self) -> Working:
        """Shows how far the command is."""
        return Working(quiet=self.quiet)

    def put(self, result: "BaseModel", render: Callable[[], str]) -> None:
        if self.as_json or not self.quiet:
            super().put(result, render)


class Writing(Printing):
    """Of a command that writes a directory."""

    tracker: TrackerName | None = option(
        None, "Send the numbers of this run to a tracker, with its own client."
    )
    tracker_project: str = option("wmo-distill", "Project of the tracker.", "NAME", min_length=1)

    def writing(self, out: Path | None, metrics: str = "") -> Working:
        """Shows how far the command is, which writes to `out`; None where it writes nothing.

        `metrics` names the directory of its metrics in `out`.
        """
        if out is not None:
            RUN.write_to(out, metrics, self.tracker, self.tracker_project)
        return self.working()

    def put(self, result: "BaseModel", render: Callable[[], str]) -> None:
        RUN.result = result
        super().put(result, render)
