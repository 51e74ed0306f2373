"""Fields of a trace as the type that they should have; another type is as good as none."""

from typing import Any

from wmo_distill.sources.values import Values, object_in


def errors_of(value: Any) -> list[dict[str, Any]]:
    errors = object_in(value).get("errors")
    return [e for e in errors if isinstance(e, dict)] if isinstance(errors, list) else []


def text_in(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def number_in(value: Any) -> float | None:
    return Values().number(value)
