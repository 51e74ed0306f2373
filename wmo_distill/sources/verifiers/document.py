"""A JSON value of a file; the token lists of a long one are read as it streams by."""

import secrets
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from wmo_distill.files import Absent
from wmo_distill.limits import TEXT_BYTES, refuse_beyond, refuse_large_value
from wmo_distill.sources.growth import pieces
from wmo_distill.sources.values import at, object_in
from wmo_distill.sources.verifiers.outline import NODES, outline_of
from wmo_distill.tokenjson.flat import cut_lists
from wmo_distill.tokenjson.numbers import WHITE, NotFlat, NotText, read_ids, read_logprobs
from wmo_distill.tokenjson.reader import parsed
from wmo_distill.tokenjson.rows import DAMAGED_IDS, IdRow
from wmo_distill.tokenjson.window import WINDOW

LONG = 1 << 22
"""Bytes of a value from which its lists do not become Python objects.

What is left of it is parsed node by node from as many bytes on.
"""


class Mask(NamedTuple):
    """Which of a node's ids were sampled: the last `k` of `size`, None where that is not so."""

    size: int
    k: int | None


def value_at(file: IO[bytes], start: int, stop: int) -> Any | Absent:
    """The value from `start` to `stop`, by the one definition of readable JSON."""
    if stop - start > LONG:
        try:
            return _long(file, start, stop)
        except (NotFlat, NotText):
            refuse_beyond(stop - start, TEXT_BYTES, "bytes of one line")
    return parsed(b"".join(pieces(file, start, stop)))


def value_around(file: IO[bytes], whole: tuple[int, int], listed: tuple[int, int]) -> Any | Absent:
    """The value of a line with an empty list in the place of one that it holds."""
    before = b"".join(pieces(file, whole[0], listed[0]))
    return parsed(before + b"[]" + b"".join(pieces(file, listed[1], whole[1])))


def mask_of(value: Any) -> Mask | None:
    """A recorded mask; None where it is no list."""
    if isinstance(value, Mask):
        return value
    if not isinstance(value, list):
        return None
    k: int | None = value.count(True)
    if not set(map(type, value)) <= {bool} or (k and value.index(True) != len(value) - k):
        k = None
    return Mask(len(value), k)


def _long(file: IO[bytes], start: int, stop: int) -> Any:
    text, rows = cut_lists(_Section(file, start, stop), _READERS)
    value = _node_by_node(text) if len(text) > LONG else parsed(text)
    del text
    for holder in _holders(value):
        for name, placeholder in holder.items():
            if isinstance(placeholder, str) and placeholder in rows:
                holder[name] = rows.pop(placeholder)
    if rows:  # lists of these names in other places
        raise NotFlat
    return value


def _node_by_node(text: memoryview) -> Any | Absent:
    """As `parsed`, but what nobody asks of a node is gone before the next one is parsed."""
    refuse_large_value(text)
    pieces = (bytes(text[at : at + WINDOW]) for at in range(0, len(text), WINDOW))
    found = outline_of(pieces, NODES)
    begin, end = found.listed
    edges = [begin, *(edge for cut in found.cuts for edge in cut[:2]), end]
    between = b"".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))
    if between.translate(None, WHITE) != b"[%b]" % (b"," * (len(found.cuts) - 1)):
        return parsed(text)  # not objects alone
    place = secrets.token_hex(16)
    value = parsed(b"".join((text[:begin], b'"%b"' % place.encode(), text[end:])))
    if not isinstance(value, dict) or value.get("nodes") != place:
        return parsed(text)
    nodes: list[Any] = []
    for cut in found.cuts:
        node = parsed(bytes(text[cut.start : cut.stop]))
        if isinstance(node, Absent):
            return node
        if node.get("sampled") is not True and at(node, "message", "role") != "system":
            node.pop("message", None)
        nodes.append(node)
    return {**value, "nodes": nodes}


def _holders(value: Any) -> Iterator[dict[str, Any]]:
    """The objects that hold token lists: nodes, and the tokens of the steps of an older row."""
    for name, inner in (("nodes", None), ("trajectory", "tokens")):
        listed = object_in(value).get(name)
        for one in listed if isinstance(listed, list) else ():
            yield object_in(one if inner is None else object_in(one).get(inner))


def _ids(text: bytes) -> IdRow:
    ids = read_ids(text)
    return DAMAGED_IDS if ids is None else IdRow(0, ids)


def _mask(text: bytes) -> Mask | None:
    """By its text where that is written without spaces: only then is it long."""
    k, others = text.count(b"true"), text.count(b"false")
    if text == b",".join([b"false"] * others + [b"true"] * k):
        return Mask(k + others, k)
    value = parsed(b"[%b]" % text)
    if isinstance(value, Absent):
        raise NotFlat
    return mask_of(value)


def _nothing(text: bytes) -> None:
    if isinstance(parsed(b"[%b]" % text), Absent):
        raise NotFlat


_READERS = {
    "token_ids": _ids,
    "mask": _mask,
    "is_content": _nothing,
    "logprobs": read_logprobs,
    "prompt_ids": _ids,
    "completion_ids": _ids,
    "completion_logprobs": read_logprobs,
}


class _Section:
    """Some bytes of a file, to be read once."""

    def __init__(self, file: IO[bytes], start: int, stop: int) -> None:
        self._file, self._left = file, stop - start
        file.seek(start)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: self._left]
        n = self._file.readinto(view)  # type: ignore[attr-defined]
        self._left -= n
        return int(n)
