"""A raw reply of terminus-2: does Harbor's own parser take it, and does it claim completion?

The verdict is that of the parsers of Harbor 0.1.45 to 0.26.0, which give the same one: the JSON
parser (the default) and, with `parser_name: xml`, the XML parser. A reply that they refuse is
asked for again and claims nothing, whatever its text says.
"""

import json
import re
from typing import Any

_MARKS = re.compile(r'\\.|["{}]', re.DOTALL)
# An object that holds at most one level of objects; atomic, so that hostile text stays linear.
_SMALL_OBJECT = re.compile(r"\{(?>(?:[^{}]+|\{[^{}]*\})*)\}")
_REQUIRED = ("analysis", "plan", "commands")

_XML_REPLY = re.compile(r"<response>(.*?)(?:</response>|\Z)", re.DOTALL)
_XML_CLAIM = re.compile(r"<task_complete>\s*true\s*</task_complete>", re.IGNORECASE)
_XML_NO_COMMANDS = re.compile(r"<commands\s*/>")


def claims_completion(text: str, parser: str | None = None) -> bool | None:
    """Whether a reply claims completion; None: Harbor's parser refuses it.

    `parser` is the recorded name, `json` or `xml`; without one, whichever of the two takes it.
    """
    if parser == "xml":
        return _xml_claim(text)
    claim = _json_claim(text)
    return _xml_claim(text) if claim is None and parser != "json" else claim


def _json_claim(text: str) -> bool | None:
    """Of the first object in the text, else of what the two repairs of Harbor's parser make of it.

    Cut off `{"analysis": "", "plan": "", "commands": [], "task_complete": true` gets its brace; a
    reply whose first object is something else is searched for a small object that is JSON.
    """
    first = _first_object(text)
    reply = _parsed(first)
    claim = _claim_of(reply)
    lacking = text.count("{") - text.count("}")
    if claim is None and reply is None and lacking > 0:
        claim = _claim_of(_parsed(_first_object(text + "}" * lacking)))
    if claim is None:
        small = (_parsed(match[0]) for match in _SMALL_OBJECT.finditer(text))
        claim = _claim_of(next((found for found in small if found is not None), None))
    return claim


def _first_object(text: str) -> str:
    """From the first outermost brace to the one that closes it; empty where none does.

    Quotes and backslashes count outside of the object too: one apostrophe more is harmless, one
    double quote more in the prose hides what follows.
    """
    depth, start, quoted = 0, -1, False
    for mark in _MARKS.finditer(text):
        if mark[0] == '"':
            quoted = not quoted
        elif quoted or len(mark[0]) > 1:
            continue
        elif mark[0] == "{":
            start = mark.start() if depth == 0 else start
            depth += 1
        else:
            depth -= 1
            if depth == 0 and start >= 0:
                return text[start : mark.end()]
    return ""


def _parsed(text: str) -> Any:
    """The JSON object in a text; None where there is none."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _claim_of(reply: Any) -> bool | None:
    """The claim of a parsed reply; None where Harbor refuses it.

    Bad commands make a reply an error, unless it claims completion.
    """
    if reply is None or not all(key in reply for key in _REQUIRED):
        return None
    commands = reply["commands"]
    if not isinstance(commands, list):
        return None
    claim = reply.get("task_complete", False)
    if isinstance(claim, str):
        claim = claim.lower() in ("true", "1", "yes")
    return bool(claim) or (None if not all(map(_is_command, commands)) else False)


def _is_command(command: Any) -> bool:
    return isinstance(command, dict) and isinstance(command.get("keystrokes"), str)


def _xml_claim(text: str) -> bool | None:
    """Of the first `<response>`; a claim counts wherever it is written in it."""
    reply = _XML_REPLY.search(text)
    if reply is None or not reply[1].strip():
        return None
    if _XML_CLAIM.search(reply[1]):
        return True
    opened = reply[1].find("<commands>")
    closed = opened >= 0 and reply[1].find("</commands>", opened) >= 0
    return False if closed or _XML_NO_COMMANDS.search(reply[1]) else None
