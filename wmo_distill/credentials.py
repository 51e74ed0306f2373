"""Credentials in recorded text: what is cut out of it, whatever it is recorded for.

An address keeps what it names and loses what opens it:

    https://user:word@host/model?step=3&X-Amz-Signature=9f3c   ->
    https://[cut]@host/model?step=3&X-Amz-Signature=[cut]

The same text always gives the same text, so equal names stay equal.
"""

import json
import re
from functools import cache, lru_cache
from typing import Any

CUT = "[cut]"
# Repeats are bounded, but for one at an end: time grows with the length of a text, whatever it is.
_NAMES = (
    r"(?:(?:secret[-_]?)?access|api|private|secret|auth|account|subscription|encryption)"
    r"[-_]?key(?:[-_]?id)?|secret|"
    r"passw(?:or)?d|passphrase|authorization|authentication|credentials?|cookie|"
    r"(?:auth|access|refresh|id|session|bearer|security|csrf|api|bot|oauth|client|hf|personal)"
    r"[-_]?token|bearer"
)
# As whole names of parameters short ones are credentials too; elsewhere they are everyday words.
_SHORT = "token|key|sig|signature|auth|session|jwt|pwd"
_PARAMETER = r"[^=?&;#\s\"'<>]"
_IN_QUERY = (
    rf"[?&;#](?={_PARAMETER}{{1,96}}=)(?:(?:x-[a-z]{{1,16}}-)?(?:{_SHORT})|"
    rf"{_PARAMETER}{{0,64}}?(?:{_NAMES})(?:[-_.[\]]{_PARAMETER}{{0,16}})?)="
)
_VALUE = r"[^\s&;#\"'<>,(){}\[\]\\]"
_TO_VALUE = r"\\{0,4}[\"']?\s{0,8}[:=]\s{0,8}\\{0,4}[\"']?"
_DIGIT = r"(?=[\w-]{0,64}\d)"
# Two digits and letters of both cases in one run: neither a word nor words with separators.
_MIXED = (
    r"(?-i:(?=[A-Za-z]{0,64}\d[A-Za-z]{0,64}\d)(?=[A-Z\d]{0,64}[a-z])"
    r"(?=[A-Za-z\d][a-z\d]{0,64}[A-Z]))"
)
_KEYS = {
    "sk-": rf"(?:(?:proj|ant|or|svcacct|admin)-{_DIGIT}(?=[\w-]{{0,64}}?[A-Za-z\d]{{12}})"
    rf"[\w-]{{16,}}|{_MIXED}[A-Za-z\d]{{20,}}|[\da-f]{{32,}})",
    **dict.fromkeys(("sk_", "rk_", "pk_"), rf"(?:live|test)_{_DIGIT}[A-Za-z\d]{{16,}}"),
    "gsk_": rf"{_MIXED}[A-Za-z\d]{{20,}}",
    "tml-": rf"{_MIXED}[A-Za-z\d]{{16}}[\w-]*",
    "nvapi-": rf"{_DIGIT}(?=[\w-]{{0,64}}[A-Z])[\w-]{{40,}}",
    "glpat-": rf"{_DIGIT}(?=[\w-]{{0,64}}[A-Z])[\w-]{{20,}}",
    "hf_": r"[A-Za-z\d]{34,}",
    "npm_": r"[A-Za-z\d]{36,}",
    "r8_": r"[A-Za-z\d]{37,}",
    "pypi-AgE": r"[\w-]{16,}",
    **dict.fromkeys(("ghp_", "gho_", "ghs_", "ghu_", "ghr_"), r"[A-Za-z\d]{36,}"),
    "github_pat_": r"[A-Za-z\d]{22}_\w{20,}",
    "xox": rf"[abeprs]-{_DIGIT}[\w-]{{10,}}",
    **dict.fromkeys(("AKIA", "ASIA"), r"[A-Z\d]{16}(?![A-Za-z\d])"),
    "AIza": r"[\w-]{35}",
    "eyJ": r"[\w-]{8,512}\.eyJ[\w-]+(?:\.[\w-]*)?",
    "SG.": r"[\w-]{22}\.[\w-]{43}",
    "whsec_": rf"{_MIXED}[A-Za-z\d+/]{{24,}}=*",
    "dop_v1_": r"[\da-f]{64}",
    "hvs.": rf"{_DIGIT}[\w-]{{24,}}",
    "ya29.": rf"{_DIGIT}[\w-]{{20,}}",
    "xai-": r"[A-Za-z\d]{60,}",
    "pplx-": r"[A-Za-z\d]{40,}",
    "tgp_v1_": r"[\w-]{40,}",
    "https://hooks.slack.com/services/": r"T\w{1,32}/B\w{1,32}/\w+",
}
"""Forms of keys: what each begins with, and what follows."""
_EVERY_KEY = "|".join(re.escape(start) + rest for start, rest in _KEYS.items())
_HOST = r"(?:(?!v\d)[A-Za-z][\w.-]{0,253}|\d{1,3}(?:\.\d{1,3}){3}|\[)"
"""No version or date: these are written after an @ too."""
_SCHEMES = "npm|jsr|pip|pypi|cargo|gem|docker|mailto"
_NO_VALUE = r"(?!(?:auth|token|schem|credential|access|realm)[a-z]{0,16}\b)"
_ENVIRONMENT = ("PGPASSWORD", "MYSQL_PWD", "REDISCLI_AUTH", "SSHPASS")
_RULES = tuple(
    (needles, pattern, put)  # compiled on first use, which most text never asks for
    for needles, pattern, put in (
        # alone before a host, a word is a token in https, elsewhere the name of a user
        (
            "@",
            r"(?i)(?:(?<=https://)|(?<=http://))(?!git@)[^\s/?#:@\"'<>]+@(?=[^\s@])",
            f"{CUT}@",
        ),
        ("@", r"(?<=://)[^\s/?#:@\"'<>]{0,256}:[^\s/?#\"'<>]+@(?=[^\s@])", f"{CUT}@"),
        # a password may hold a slash; what follows a port may hold an @
        (
            "@",
            r"(?<=://)[^\s/?#:@\"'<>]{0,256}:(?!\d{1,5}[/?#])[^\s\"'<>@?#]{0,256}@"
            rf"(?={_HOST})",
            f"{CUT}@",
        ),
        # without a scheme, what follows the host tells it from `package:name@version`
        (
            "@",
            rf"(?<![\w/:.@%+-])(?!(?:{_SCHEMES}|\d{{1,9}}):)[\w.%+-]{{1,64}}:(?!git@)"
            rf"[^\s/:@\"'<>]{{1,256}}@(?!sha\d{{1,4}}:)(?={_HOST}[:/][\w-])",
            f"{CUT}@",
        ),
        ("=", rf"(?i)({_IN_QUERY}){_VALUE}+", rf"\1{CUT}"),
        (
            " \t",
            rf"(?i)\b(authorization{_TO_VALUE}(?:basic|bearer|token|apikey)\s{{1,8}}){_NO_VALUE}"
            rf"{_VALUE}{{8,}}",
            rf"\1{CUT}",
        ),
        (
            " \t",
            rf"(?i)\b(bearer\s{{1,8}}(?=\S{{0,256}}\d)|(?:basic|token|apikey)\s{{1,8}}"
            rf"(?=[a-z\d]{{16}}){_MIXED}){_VALUE}{{8,}}",
            rf"\1{CUT}",
        ),
        (
            "=:",
            r"(?i)(?=[abcehiopsr])(?:(?<![a-z0-9])|(?-i:(?=[A-Z])(?<=[a-z0-9])))"
            rf"((?:{_NAMES}){_TO_VALUE})"
            rf"(?=[^\s\"',]{{0,256}}\d){_VALUE}{{6,}}",
            rf"\1{CUT}",
        ),
        (
            "=:",
            rf"(?i)(?<![\w-])((?:token|key|pwd|jwt|auth){_TO_VALUE})"
            rf"(?:(?=[a-z\d]{{16}}){_MIXED}){_VALUE}{{16,}}",
            rf"\1{CUT}",
        ),
        (_ENVIRONMENT, rf"\b((?:{'|'.join(_ENVIRONMENT)})=[\"']?)(?!\$){_VALUE}+", rf"\1{CUT}"),
        (
            ("curl ",),
            r"\b(curl\s[^\n|;]{0,200}?(?<=\s)(?:-u\s{0,4}|--user[\s=])[\"']?[^\s:/\"']{1,64}:)"
            rf"(?!\$){_VALUE}+",
            rf"\1{CUT}",
        ),
        (tuple(_KEYS), rf"(?<![A-Za-z0-9])(?:{_EVERY_KEY})", CUT),
        # a bot of Telegram
        ((":AA",), r"(?<![\w-])\d{8,10}:AA[\w-]{33}(?![\w-])", CUT),
        (
            ("PRIVATE KEY",),
            r"(?s)-----BEGIN [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            CUT,
        ),
    )
)
"""Each with texts of which a credential of its kind holds one: most text holds none of them."""
_SHORT_TEXT = 256
"""Characters of a text that is searched for all needles at once."""
_SECRET_NAME = rf"(?i).*(?:{_NAMES})|auth|.*headers"
_MASKED = ("redacted", "masked", "scrubbed", "censored", "removed")
_MASKS = r"(?i)[\[<({*]{1,3}\s*(?:redacted|masked|scrubbed|censored|(?:secret|key)[ _]?removed)\b"


@lru_cache(4096)
def without_credentials(text: str) -> str:
    """The text without passwords, keys and signatures."""
    if len(text) <= _SHORT_TEXT and not _any_needle().search(text):
        return text
    for needles, pattern, put in _RULES:
        if any(needle in text for needle in needles):
            text = re.sub(pattern, put, text)
    return text


@cache
def _any_needle() -> re.Pattern[str]:
    """Every needle in one pattern: for a short text a search takes less than one for each."""
    return re.compile("|".join(sorted({re.escape(n) for ns, _, _ in _RULES for n in ns})))


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
