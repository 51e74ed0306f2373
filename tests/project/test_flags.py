"""Flags come from options models: names, types, defaults, and what a wrong value says."""

from enum import StrEnum
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from wmo_distill.cli.flags import flagged
from wmo_distill.errors import UsageError
from wmo_distill.operation import Options, option


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Painting(Options):
    colour: Colour = option(Colour.RED, "Colour of the wall.")
    second: Colour | None = option(None, "Colour of the door.")
    coats: int = option(2, "Number of coats.", "N", ge=1)
    share: float = option(0.5, "Share of the wall.", "X", gt=0.0, le=1.0)
    size: tuple[float, float] = option((1.0, 2.0), "Height and width.", "H W")
    rooms: tuple[str, ...] = option((), "Room to paint.", "ROOM", flag="--room -r")
    dry: bool = option(True, "Do not wait until it is dry.")
    loud: bool = option(False, "Say so.", exclude=True)
    plan: Path | None = option(None, "File of the plan.", "FILE")
    helpers: int = 3
    """Of the library alone."""


def painted(*arguments: str) -> Painting:
    found: list[Painting] = []

    def paint(options: Painting) -> None:
        """Paint a wall."""
        found.append(options)

    app = typer.Typer(rich_markup_mode=None)
    app.command()(flagged(paint))
    done = CliRunner().invoke(app, arguments)
    if isinstance(done.exception, UsageError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return found[0]


def test_without_flags_a_model_is_its_defaults() -> None:
    assert painted() == Painting()


def test_flags_are_the_fields() -> None:
    line = "--colour blue --second red --coats 3 --share 1 --size 3 4 --room a -r b --no-dry --loud"
    assert painted(*line.split(), "--plan", "p") == Painting(
        colour=Colour.BLUE,
        second=Colour.RED,
        coats=3,
        share=1.0,
        size=(3.0, 4.0),
        rooms=("a", "b"),
        dry=False,
        loud=True,
        plan=Path("p"),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--colour green", "--colour: expected one of red, blue, found 'green'; give another"),
        ("--second green", "--second: expected one of red, blue, found 'green'; give another"),
        ("--share 0", "--share: expected a number greater than 0, found 0.0; give another"),
    ],
)
def test_a_wrong_value_names_its_flag(given: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        painted(*given.split())
    assert str(error.value) == said


@pytest.mark.parametrize("given", ["--coats 0", "--coats x", "--share 2", "--helpers 4"])
def test_what_the_shell_s_parser_refuses_is_2(given: str) -> None:
    def paint(options: Painting) -> None:
        raise AssertionError(options)

    app = typer.Typer(rich_markup_mode=None)
    app.command()(flagged(paint))
    assert CliRunner().invoke(app, given.split()).exit_code == 2


def test_keywords_are_the_fields_too() -> None:
    given = Painting(coats=5, helpers=1)
    assert Painting.of(given) is given
    assert Painting.of(given, colour="blue") == Painting(colour=Colour.BLUE, coats=5, helpers=1)
    with pytest.raises(UsageError, match="--no-dry: expected a valid boolean"):
        Painting.of(given, dry="perhaps")
    with pytest.raises(UsageError, match="--room: expected a valid string"):
        Painting.of(rooms=(1,))
    with pytest.raises(TypeError, match="color: expected an option of Painting"):
        Painting.of(color="blue")


def test_what_is_excluded_is_not_recorded() -> None:
    assert painted("--loud").recorded() == painted().recorded()
    assert set(Painting.model_fields) - set(painted().recorded()) == {"loud"}
