"""Credentials in recorded text: what is cut out of it, whatever it is recorded for.

An address keeps what it names and loses what opens it:

    https://user:word@host/model?step=3&X-Amz-Signature=9f3c   ->
    https://[cut]@host/model?step=3&X-Amz-Signature=[cut]

The same text always gives the same text, so equal names stay equal.
"""

import json
import re
from functools import lru_cache
from typing import Any

CUT = "[cut]"
_NAMES = (
    r"(?:api|access|private|secret|auth|account|subscription|encryption)[-_]?key(?:[-_]?id)?|secret|"
    r"passw(?:or)?d|passphrase|authorization|authentication|credentials?|cookie|"
    r"(?:auth|access|refresh|id|session|bearer|security|csrf|api|bot|oauth|client|hf|personal)"
    r"[-_]?token|bearer"
)
# In a query string short names are credentials too; elsewhere they are words of every day.
_SHORT = "token|key|sig|signature|auth|session|jwt|pwd"
_IN_QUERY = rf"[?&;#][^=&;#\s\"'<>]*?(?:{_NAMES}|{_SHORT})[^=&;#\s\"'<>]*="
_VALUE = r"[^\s&;#\"'<>,(){}\[\]\\]"
_RULES = tuple(
    (needles, pattern, put)  # compiled on first use, which most text never asks for
    for needles, pattern, put in (
        ("@", r"(?i)(?<=://)[^\s/?#\"'<>]+@(?=[^\s@])", f"{CUT}@"),
        # a password may hold a slash; what follows a port may hold an @
        ("@", r"(?i)(?<=://)[^\s/?#:@\"'<>]*:(?!\d+[/?#])[^\s\"'<>@?#]*@(?=[\w\[])", f"{CUT}@"),
        (
            "@",
            r"(?<![\w/:.@-])(?!mailto:)[\w.%+-]+:[^\s/:@\"'<>]+@(?!sha\d+:)"
            r"(?=[\w-]+[.:/][\w-])",
            f"{CUT}@",
        ),
        ("=", rf"(?i)({_IN_QUERY}){_VALUE}+", rf"\1{CUT}"),
        (" \t", rf"(?i)\b(bearer|basic|token|apikey)(\s+)(?=\S*\d){_VALUE}{{8,}}", rf"\1\2{CUT}"),
        (
            "=:",
            rf"(?i)(?<![a-z0-9])((?:[a-z0-9]+[-_])*(?:{_NAMES})\\*[\"']?\s*[:=]\s*\\*[\"']?)"
            rf"(?=[^\s\"',]*\d)(?!\[cut\]){_VALUE}{{6,}}",
            rf"\1{CUT}",
        ),
        (
            ("sk", "rk", "pk", "tml", "nvapi", "glpat", "hf", "npm", "r8", "pypi", "gh", "git",
            "xox", "AKIA", "ASIA", "AIza", "eyJ"),
            r"(?<![A-Za-z0-9])(?:(?:sk|rk|pk|gsk|tml|nvapi|glpat|hf|npm|r8|pypi)[-_][\w-]{16,}|"
            r"gh[opsur]_\w{16,}|github_pat_\w{16,}|xox[abeprs]-[\w-]{10,}|A[KS]IA[A-Z0-9]{12,}|"
            r"AIza[\w-]{30,}|eyJ[\w-]{8,}\.eyJ[\w-]+(?:\.[\w-]*)?)",
            CUT,
        ),
        (
            ("PRIVATE KEY",),
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            CUT,
        ),
    )
)  # fmt: skip
"""Each with texts of which a credential of its kind holds one: most text holds none of them."""
_SECRET_NAME = rf"(?i).*(?:{_NAMES})|auth|.*headers"
_MASKED = ("redacted", "masked", "scrubbed", "censored", "removed")
_MASKS = r"(?i)[\[<({*]{1,3}\s*(?:redacted|masked|scrubbed|censored|(?:secret|key)[ _]?removed)\b"


@lru_cache(4096)
def without_credentials(text: str) -> str:
    """The text without passwords, keys and signatures."""
    for needles, pattern, put in _RULES:
        if any(needle in text for needle in needles):
            text = re.sub(pattern, put, text)
    return text


def patterns() -> tuple[re.Pattern[str], ...]:
    """What matches a credential with what it is known by."""
    return tuple(re.compile(pattern) for _, pattern, _ in _RULES)


def json_without_credentials(text: str) -> str | None:
    """The same for the strings, names and members of compact JSON; also for what a name gives away.

    None where it is nested too deeply. Text that holds no credential is not parsed.
    """
    from wmo_distill.tokenjson.extras import json_text

    # Without escapes every second piece is a string: long lists of numbers cost nothing.
    strings = set(text.replace("\\\\", " ").replace('\\"', " ").split('"')[1::2])
    if (
        text.count('"token":') <= text.count('"logprob":')
        and not any(map(_opens, strings))
        and all(without_credentials(string) == string for string in strings)
    ):
        return text
    try:
        return json_text(_cut(json.loads(text)))
    except (ValueError, RecursionError):
        return None


def is_secret_name(name: str) -> bool:
    """Whether the value under a name of this kind opens something: a key, a password, headers."""
    return _opens(name) or name == "token"


@lru_cache(4096)
def _opens(name: str) -> bool:
    return re.fullmatch(_SECRET_NAME, name) is not None


def is_masked(text: str) -> bool:
    """Whether somebody replaced a part of a text by a mask, such as [REDACTED]."""
    lower = text.lower()
    return any(word in lower for word in _MASKED) and re.search(_MASKS, text) is not None


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, list):
        return [_cut(one) if isinstance(one, str | list | dict) else one for one in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, one in value.items():
        # With a log-probability next to it, a token is one of the vocabulary.
        opens = is_secret_name(name) and not (name == "token" and "logprob" in value)
        opens = opens and not isinstance(one, bool | None)
        found[without_credentials(name)] = CUT if opens else _cut(one)
    return found
