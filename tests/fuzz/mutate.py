"""Documents changed where their grammar has joints: tokens, and whole values, of JSON."""

import random
import re

_TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|NaN|-?Infinity|[^\s]|\s+'
)
_MOST_TOKENS = 4000
"""A document is cut into tokens around one place: a change costs the same in a long one."""
_PIECES = [
    b"null", b"true", b"false", b"0", b"-1", b"1.5", b"-0.0", b"1e400", b"-1e400", b"NaN", b"7",
    b"Infinity", b"-Infinity", b"5.0", b"2147483647", b"2147483648", b"18446744073709551616",
    b"1" * 5000, b'""', b'"x"', b'"6"', b'"\\ud800"', b'"\\u0000"', b'"../../x"', b'"a/b"', b"[]",
    b"{}", b"[null]", b"[[]]", b"[1,2,3]", b'{"a":1}', b"[" * 3000, b'{"a":' * 1200, b"\xff",
    b"\xef\xbb\xbf", b"\0", b"\n", b"\r\n", b"\xe2\x80\xa8", b",", b":", b'"', b"]", b"}", b"{",
    b" ", b"-9999.0", b'"2026-13-40"', b'"0001-01-01T00:00:00+14:00"', b"\\", b"01", b"1.", b"//",
]  # fmt: skip
_CLOSING = {b"[": b"]", b"{": b"}"}


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The document after a few changes."""
    for _ in range(1 + int(rng.random() < 0.3) + int(rng.random() < 0.1)):
        kind = rng.random()
        if kind < 0.06:
            data = data[: rng.randrange(len(data) + 1)]
        elif kind < 0.16:
            data = _bytes_changed(data, rng)
        else:
            data = _tokens_changed(data, rng)
    return data


def _bytes_changed(data: bytes, rng: random.Random) -> bytes:
    at, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    end = min(end, at + rng.choice((0, 1, 1, 2, 4, 64)))
    new = bytes(rng.randrange(256) for _ in range(rng.choice((0, 1, 1, 2, 4))))
    return data[:at] + new + data[end:]


def _tokens_changed(data: bytes, rng: random.Random) -> bytes:
    """A token or a whole value replaced, dropped, doubled, swapped or put in another place."""
    start = 0
    if len(data) > 4 * _MOST_TOKENS:
        start = rng.randrange(len(data) - 3 * _MOST_TOKENS)
    head, tail = data[:start], data[start:]
    found = []
    for match in _TOKEN.finditer(tail):
        found.append(match[0])
        if len(found) >= _MOST_TOKENS:
            tail = tail[match.end() :]
            break
    else:
        tail = b""
    if not found:
        return data + rng.choice(_PIECES)
    one, other = _value(found, rng), _value(found, rng)
    way = rng.randrange(7)
    if way == 0:
        found[one] = [rng.choice(_PIECES)]
    elif way == 1:
        found[one] = []
    elif way == 2:
        found[one] = found[one] * rng.choice((2, 2, 3, 40))
    elif way == 3:
        found[one] = found[other]
    elif way == 4:
        found[one.start : one.start] = [*found[other], b","]
    elif way == 5:
        found[one.start : one.start] = [
            rng.choice(_PIECES),
            *([b","] if rng.random() < 0.5 else []),
        ]
    else:
        first, second = sorted((one, other), key=lambda span: span.start)
        if first.stop <= second.start:
            kept = found[first], found[second]
            found[second], found[first] = kept
    return head + b"".join(found) + tail


def _value(tokens: list[bytes], rng: random.Random) -> slice:
    """The place of a token, or of the whole list or object that begins with it."""
    at = rng.randrange(len(tokens))
    closing = _CLOSING.get(tokens[at])
    if closing is None or rng.random() < 0.2:
        return slice(at, at + 1)
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] == tokens[at]) - (tokens[end] == closing)
        if not depth:
            return slice(at, end + 1)
    return slice(at, at + 1)
