"""What `--where` may say: polars' SQL without what can end the process or read other files.

Polars asks for memory without a limit (`LPAD(x, 2000000000)`), recurses as deeply as an expression
goes, and reads any file that a query names; where memory or stack run out the process ends, and no
`except` sees it. So functions are allowed by name, and the rest is bounded: no function that is
allowed makes a text longer by a factor that is not fixed, or gives more rows than it is given.
Some words make copies of what they are given, of which there are twice as many with each more:
these are counted, and `CASE value WHEN`, which makes one for each WHEN, is refused.
"""

import re
from itertools import pairwise

from wmo_distill.errors import names_like

FUNCTIONS = {
    "numbers": (
        "ABS", "BIT_AND", "BIT_COUNT", "BIT_NOT", "BIT_OR", "BIT_XOR", "CBRT", "CEIL", "CEILING",
        "DIV", "EXP", "FLOOR", "LN", "LOG", "LOG10", "LOG1P", "LOG2", "MOD", "PI", "POW", "POWER",
        "ROUND", "SIGN", "SQRT", "TRUNC", "TRUNCATE", "XOR",
    ),
    "angles": (
        "ACOS", "ACOSD", "ASIN", "ASIND", "ATAN", "ATAN2", "ATAN2D", "ATAND", "COS", "COSD", "COT",
        "COTD", "DEGREES", "RADIANS", "SIN", "SIND", "TAN", "TAND",
    ),
    "text": (
        "BIT_LENGTH", "CHARACTER_LENGTH", "CHAR_LENGTH", "ENDS_WITH", "INITCAP", "LEFT", "LENGTH",
        "LOWER", "LTRIM", "NORMALIZE", "OCTET_LENGTH", "POSITION", "REGEXP_LIKE", "REVERSE",
        "RIGHT", "RTRIM", "SPLIT_PART", "STARTS_WITH", "STRING_TO_ARRAY", "STRPOS", "SUBSTR",
        "SUBSTRING", "TRIM", "UPPER",
    ),
    "times": (
        "DATE", "DATE_PART", "DATE_TRUNC", "DATETIME", "EXTRACT", "STRFTIME", "STRPTIME", "TIME",
        "TIMESTAMP",
    ),
    "choices and types": (
        "CAST", "COALESCE", "GREATEST", "IF", "IFNULL", "LEAST", "NULLIF", "TRY_CAST",
    ),
    "lists": (
        "ALL", "ANY", "ARRAY_CONTAINS", "ARRAY_GET", "ARRAY_LENGTH", "ARRAY_LOWER", "ARRAY_MEAN",
        "ARRAY_REVERSE", "ARRAY_SUM", "ARRAY_UNIQUE", "ARRAY_UPPER",
    ),
    "over all rows, or with `OVER` over some": (
        "AVG", "CORR", "COUNT", "COVAR", "COVAR_POP", "COVAR_SAMP", "CUME_DIST", "DENSE_RANK",
        "FIRST", "FIRST_VALUE", "LAG", "LAST", "LAST_VALUE", "LEAD", "MAX", "MEDIAN", "MIN",
        "NTH_VALUE", "NTILE", "PERCENT_RANK", "QUANTILE_CONT", "QUANTILE_DISC", "RANK",
        "ROW_NUMBER", "STDDEV", "STDDEV_SAMP", "STDEV", "STDEV_SAMP", "SUM", "TOTAL", "VAR",
        "VARIANCE", "VAR_SAMP",
    ),
}  # fmt: skip
"""The functions that are allowed, by what they are about."""
MOST_TERMS = 1_000
"""Words and signs but values and commas: about 300 terms joined by OR."""
MOST_COPIES = 8
"""Words of COPYING in one expression."""
LONGEST_TEXT = 1_000
"""Characters of one text in quotes."""

_ALLOWED = frozenset(name for names in FUNCTIONS.values() for name in names)
# Words of the language that a parenthesis may follow.
_WORDS = frozenset((
    "AND", "AS", "BETWEEN", "BY", "CASE", "DECIMAL", "DISTINCT", "ELSE", "FILTER", "FROM", "ILIKE",
    "IN", "LIKE", "NOT", "NUMERIC", "OR", "OVER", "REGEXP", "RLIKE", "THEN", "VARCHAR", "WHEN",
))  # fmt: skip
COPYING = (
    "ARRAY_GET", "BETWEEN", "CORR", "FILTER", "LEFT", "NULLIF", "OVER", "RIGHT", "SPLIT_PART",
    "SUBSTR", "SUBSTRING", "SUM", "TOTAL",
)  # fmt: skip
"""Of what these are given polars makes up to four copies: of one in another 16, and so on."""
_QUERIES = frozenset({"SELECT", "WITH"})
_TOKEN = re.compile(
    r"""
    (?P<text>'(?:[^']|'')*')
    | (?P<name>"[^"]*"|`[^`]*`|[^\W\d]\w*)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
    | (?P<odd>--|/\*|[$'"`])
    | (?P<sign>\|\||\S)
    """,
    re.VERBOSE,
)


def refused(where: str) -> str | None:
    """What in an expression is not allowed, and what to do; None where all of it is.

    refused("LPAD(task_id, 9) = 'a'")   ->   'the function LPAD, which is not allowed; ...'
    """
    tokens = list(_TOKEN.finditer(where))
    for one, after in pairwise([*tokens, None]):
        if one and (why := _refused(one, after)):
            return why
    terms = sum(one.lastgroup not in ("text", "number") and one[0] != "," for one in tokens)
    if terms > MOST_TERMS:
        return f"{terms:,} words and signs; give at most {MOST_TERMS:,}, or `column IN (1, 2, 3)`"
    copying = [name for one in tokens if (name := _name(one)) in COPYING]
    if len(copying) > MOST_COPIES:
        what = ", ".join(sorted(set(copying)))
        return (
            f"{what} {len(copying):,} times; give at most {MOST_COPIES}, or compare with >= and <="
        )
    return None


def _name(one: re.Match[str]) -> str:
    """A word as polars' functions are named."""
    return one[0].strip('"`').upper() if one.lastgroup == "name" else ""


def _refused(one: re.Match[str], after: re.Match[str] | None) -> str | None:
    """The same of one word or sign."""
    kind, word = one.lastgroup, one[0]
    if kind == "odd":
        return f"{word}, which begins no text or name that ends; write text as 'text'"
    if kind == "text" and len(word) > LONGEST_TEXT:
        return f"a text of {len(word):,} characters; give at most {LONGEST_TEXT:,}"
    if word == "||":
        return "||, which joins text; compare its parts, with AND between them"
    if kind != "name":
        return None
    name = _name(one)
    if word.upper() == "CASE" and after and after[0].upper() != "WHEN":
        return "CASE of a value; write CASE WHEN value = 1 THEN"
    if name in _QUERIES and name == word.upper():
        return f"{word}, a query of its own; compare columns of the same row"
    if after and after.start() == one.end() and after[0][0] == "'":
        return f"text with the prefix {word}; put a space between them"
    if after and after[0] == "(" and name not in _ALLOWED | _WORDS:
        known = names_like(name, sorted(_ALLOWED), "functions")
        return f"the function {name}, which is not allowed; {known}"
    return None
