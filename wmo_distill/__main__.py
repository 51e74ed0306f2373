"""The command `wmo-distill`, also as `python -m wmo_distill`."""

from typing import NoReturn

from wmo_distill.cli.stop import stoppable


def main() -> NoReturn:
    """Run the command; its exit code tells what happened (see docs/cli.md)."""
    stoppable(_run)


def _run() -> None:
    # Loading takes as long as a short command, and can be stopped as well.
    from wmo_distill.cli.app import main

    main()


if __name__ == "__main__":
    main()
