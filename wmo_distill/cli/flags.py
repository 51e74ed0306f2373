"""Flags from options models: a command takes a model, the shell sees a flag for each field."""

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from pydantic import ByteSize
from pydantic.fields import FieldInfo

from wmo_distill.cli.run import RUN
from wmo_distill.operation import Options

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH", help="A trial directory, a job directory, or a root that holds jobs."
    ),
]
Dataset = Annotated[Path, typer.Argument(metavar="OUT", help="A dataset that `build` wrote.")]
Datums = Annotated[
    Path, typer.Argument(metavar="DATUMS", help="Training sequences that `datums` wrote.")
]


def flagged(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the flags of its models in place of the models."""
    given = inspect.signature(command).parameters
    models = {name: p.annotation for name, p in given.items() if _is_model(p.annotation)}

    @functools.wraps(command)
    def run(**values: Any) -> None:
        RUN.begin(command.__name__.replace("_", "-"))
        for name, model in models.items():
            values[name] = model.of(**_taken(model, values))
        command(**values)

    shown: list[inspect.Parameter] = []
    for name, parameter in given.items():
        for one in get_args(parameter.annotation)[1:]:
            if hasattr(one, "readable"):
                one.readable = False  # what cannot be read is said where it is read
        shown += _flags(models[name]) if name in models else [parameter]
    # By keyword, so that a required one may come after one with a default.
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shown]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return run


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Options)


def _shown(model: type[Options]) -> Iterator[tuple[str, FieldInfo, Mapping[str, Any]]]:
    for name, field in model.model_fields.items():
        if isinstance(field.json_schema_extra, Mapping):
            yield name, field, field.json_schema_extra


def _flags(model: type[Options]) -> Iterator[inspect.Parameter]:
    """What typer is to know of each field; the model itself checks what typer does not."""
    for name, field, extra in _shown(model):
        kind, choices = _kind(field.annotation)
        limits = {
            limit: getattr(one, key)
            for one in field.metadata
            for key, limit in (("ge", "min"), ("le", "max"))
            if hasattr(one, key)
        }
        names = extra["flag"].split() if extra["flag"] else [model.flag(name)]
        flag = typer.Option(
            *names,
            metavar=extra["metavar"] or choices,
            help=field.description,
            readable=False,
            **(limits if kind in (int, float) else {}),
        )
        default = field.default.value if isinstance(field.default, Enum) else field.default
        if kind is bool:
            default = False
        elif get_origin(kind) is list or default is None:
            default, kind = None, kind | None
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, flag]
        )


def _taken(model: type[Options], values: dict[str, Any]) -> dict[str, Any]:
    """The fields' values, taken out of what typer read."""
    taken = {name: values.pop(name) for name, _, _ in _shown(model)}
    for name, field, _ in _shown(model):
        if field.default is True:
            taken[name] = not taken[name]
        elif taken[name] is None:
            taken[name] = field.default
    return taken


def _kind(annotation: Any) -> tuple[Any, str | None]:
    """The type that typer reads, and the choices of an enum."""
    if get_origin(annotation) in (types.UnionType, Union):
        (annotation,) = (one for one in get_args(annotation) if one is not types.NoneType)
    arguments = get_args(annotation)
    if get_origin(annotation) is dict or Ellipsis in arguments:
        return list[str], None
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return str, "|".join(str(one.value) for one in annotation)
    return str if annotation is ByteSize else annotation, None
