"""What commands print: data on stdout, talk on stderr."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn

import typer

from wmo_distill.credentials import without_credentials
from wmo_distill.operation import Options, option
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
    """Talk, on stderr; an error may repeat an address that somebody gave."""
    typer.echo(without_credentials(text), err=True)


def say_errors(errors: Mapping[str, str]) -> None:
    """What went wrong where, on stderr: the first ones, and how many more there are."""
    for place, error in list(errors.items())[:_MOST_ERRORS]:
        say(f"wmo-distill: {visible(place)}: {visible(error)}")
    if len(errors) > _MOST_ERRORS:
        more = len(errors) - _MOST_ERRORS
        say(f"wmo-distill: {more:,} more like these; --json lists all of them")


def end(code: int, why: str) -> NoReturn:
    """End a command that did its work with another code than 0; stderr says why, --quiet too."""
    say(f"wmo-distill: {visible(why)}")
    raise typer.Exit(code)


class Json(Options):
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

    def put(self, result: "BaseModel", render: Callable[[], str]) -> None:
        if self.as_json or not self.quiet:
            super().put(result, render)


class Progress:
    """A line on stderr that tells how far the work is; silent where stderr is no terminal."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._shown = not quiet and sys.stderr.isatty()
        self._began = self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._shown or (now - self._last < 0.1 and done < total):
            return
        self._last = now
        line = f"{done:,} of {total:,} {self._what}, {now - self._began:.0f} s"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        """Take the line away."""
        if self._shown and self._last > self._began:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
