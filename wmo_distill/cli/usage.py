"""What the shell's line has wrong, in the form of all errors: where, expected, found, next."""

import re
from typing import Protocol, runtime_checkable

from wmo_distill.visible import visible

_HINT = r"'(?P<name>[^']*)'(?: / '[^']*')*"
_FORMS = (
    (rf"Missing (?:argument|option) {_HINT}.*", "{name}: expected a value, found none"),
    (rf"Option {_HINT} requires an argument.*", "{name}: expected a value, found none"),
    (
        rf"Option {_HINT} requires (?P<said>\d+) arguments.*",
        "{name}: expected {said} values, found another number",
    ),
    # pydantic, which Typer asks, explains a number that is none.
    (
        rf"Invalid value for {_HINT}: (?P<said>.*?)(?:, unable .*)?",
        "{name}: {said}, found another value",
    ),
    (
        r"No such option:? (?P<name>\S+?)\.?(?P<said>| [(D].*)",
        "{name}: expected an option of `{command}`, found no such one{said}",
    ),
    (
        rf"No such command {_HINT}\.?(?P<said>.*)",
        "{name}: expected a command of `{command}`, found no such one{said}",
    ),
    (
        r"Got unexpected extra argument(?:s|\(s\))? \((?P<name>.*)\)",
        "{name}: expected no further argument, found this one",
    ),
)


@runtime_checkable
class Refused(Protocol):
    """An error of the parser, whichever release of Typer and Click it is from."""

    exit_code: int
    message: str

    def format_message(self) -> str: ...


def refusal(error: Refused) -> str:
    """The whole line; a form that is not known stays as the parser says it."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "wmo-distill"
    if error.message.startswith("Usage:"):  # the help, where nothing was given
        return error.message
    said = " ".join(error.format_message().split())
    for pattern, form in _FORMS:
        if found := re.fullmatch(pattern, said):
            said = form.format_map(found.groupdict() | {"command": command})
            break
    said = said.replace("found no such one Did you", "found no such one. Did you")
    said = said.replace("Input should be a valid", "expected a valid")
    said = said.replace("Input should be", "expected a number")
    return f"wmo-distill: {visible(said)}; `{command} --help` lists what it takes"
