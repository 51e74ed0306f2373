"""What can go wrong before or around the work, each with the exit code of the command."""


class DistillError(Exception):
    """The work could not be done. The message says where, expected, found, next."""

    exit_code = 1


class UsageError(DistillError):
    """An option, a path or a manifest was found wrong before any work."""

    exit_code = 2
