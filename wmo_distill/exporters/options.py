"""The options of an export."""

from wmo_distill.datums.options import Graded
from wmo_distill.operation import Options, option


class ExportOptions(Options):
    """Sequences take `assume_mode`, chats take `only`."""

    assume_mode: bool = option(
        False, "Export log-probabilities of an unknown mode for RL too.", flag="--assume"
    )
    only: Graded | None = option(
        None, "Export only records with this grade, with --to messages or sharegpt."
    )
    fresh: bool = option(False, "Replace rows of another target or other options.", exclude=True)
