"""A raw reply of terminus-2: does it declare the task complete?"""

import json
import re
from typing import Any

_JSON_CLAIM = re.compile(r'"task_complete"\s*:\s*"?(?:true|yes|1)\b', re.IGNORECASE)
_XML_CLAIM = re.compile(r"<task_complete>\s*true\s*</task_complete>", re.IGNORECASE)
_REPLY_KEYS = {"analysis", "plan", "commands", "task_complete"}
_DECODER = json.JSONDecoder(strict=False)

# A reply opens few objects before its own; the bound keeps a hostile text from being read over
# and over.
_MOST_STARTS = 20


def claims_completion(text: str) -> bool | None:
    """Whether a reply, in JSON or in the XML form, claims completion; None: it does not parse.

    A claim quoted inside a command or a string is none. JSON that is only nearly well-formed is
    searched as text, as the harness repairs it before use.
    """
    markup, brace = text.find("<response"), text.find("{")
    if markup >= 0 and (brace < 0 or markup < brace):
        return bool(_XML_CLAIM.search(_outside_commands(text)))
    reply = _first_reply(text)
    if reply is not None:
        return _is_true(reply.get("task_complete"))
    if _JSON_CLAIM.search(text) or _XML_CLAIM.search(_outside_commands(text)):
        return True
    return False if '"commands"' in text or '"task_complete"' in text else None


def _first_reply(text: str) -> dict[str, Any] | None:
    """The first JSON object in the text that has a key of a reply."""
    start = text.find("{")
    for _ in range(_MOST_STARTS):
        if start < 0:
            return None
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if not _REPLY_KEYS.isdisjoint(value):
                return dict(value)
        start = text.find("{", end)
    return None


def _outside_commands(text: str) -> str:
    """The text of an XML reply without what its commands type."""
    before, opened, rest = text.partition("<commands")
    return before + rest.rpartition("</commands>")[2] if opened else text


def _is_true(value: Any) -> bool:
    """The harness takes a few strings for true as well."""
    if isinstance(value, str):
        return value.strip().lower() in ("true", "yes", "1")
    return value is True
