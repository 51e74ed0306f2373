"""What can go wrong before or around the work, each with the exit code of the command."""

import json


class DistillError(Exception):
    """The work could not be done. The message says where, expected, found, next."""

    exit_code = 1


class UsageError(DistillError):
    """An option, a path or a manifest was found wrong before any work."""

    exit_code = 2


def shown(value: object) -> str:
    """A value as JSON on one short line."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."
