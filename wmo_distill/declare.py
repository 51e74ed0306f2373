"""Sampling values that a caller declares where trials do not record them."""

from collections.abc import Sequence

from wmo_distill.credentials import without_credentials
from wmo_distill.errors import UsageError
from wmo_distill.files import plain_text
from wmo_distill.records import LogprobMode

COLUMNS = (
    "temperature",
    "top_p",
    "top_k",
    "logprob_mode",
    "policy_version",
    "train_step",
    "tokenizer",
)
_LIMITS = {"top_k": 2**31, "train_step": 2**63}


def parse_declare(items: Sequence[str]) -> dict[str, str | int | float]:
    """`NAME=VALUE` arguments to typed values; UsageError for an unknown name or a wrong value."""
    declared: dict[str, str | int | float] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or name not in COLUMNS:
            raise UsageError(
                f"--declare {item}: expected NAME=VALUE with a name of {', '.join(COLUMNS)}, "
                f"found {name!r}"
            )
        if name in declared:
            raise UsageError(f"--declare {item}: expected each name once, found {name} twice")
        declared[name] = _declared(name, text, item)
    return declared


def _declared(name: str, text: str, item: str) -> str | int | float:
    wanted = {
        "temperature": "a number >= 0",
        "top_p": "a number in (0, 1]",
        "top_k": "an integer",
        "train_step": "an integer",
        "logprob_mode": "raw, processed or unknown",
    }.get(name, "some text")
    value: str | int | float | None = None
    try:
        if name in ("temperature", "top_p"):
            value = float(text)
            low = value > 0 if name == "top_p" else value >= 0
            value = value if low and value <= (1.0 if name == "top_p" else 1e6) else None
        elif name in _LIMITS:
            value = int(text)
            value = value if -_LIMITS[name] <= value < _LIMITS[name] else None
        elif name == "logprob_mode":
            value = LogprobMode(text).value
        else:
            value = without_credentials(plain_text(text)) or None
    except ValueError:
        value = None
    if value is None:
        raise UsageError(f"--declare {item}: expected {wanted}, found {text!r}")
    return value
