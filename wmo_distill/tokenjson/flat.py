"""Flat lists cut out of a long document as it streams by; what is left goes to a parser.

    {"token_ids":[5,6],"text":"x"}     the document
    {"token_ids":"9f3c…:0","text":"x"}     what is parsed: the list is no Python object

The placeholders are random; who asked puts each row in the place where he expects it.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from wmo_distill.limits import TEXT_BYTES, refuse_beyond
from wmo_distill.tokenjson.numbers import NotFlat
from wmo_distill.tokenjson.window import WINDOW, Block, Growing, Readable, Window


def cut_lists(
    file: Readable, readers: Mapping[str, Callable[[bytes], Any]]
) -> tuple[memoryview, dict[str, Any]]:
    """(the document without the lists under these keys, what they hold by placeholder).

    A reader is given the text between the brackets, and raises NotFlat where that is no flat JSON
    list. A list with other white space before it stays in the document.
    """
    window = Window(file, Block(WINDOW))
    nonce = secrets.token_hex(16)
    key = re.compile(rb'"(%b)": ?\[' % "|".join(readers).encode())
    reach = max(map(len, readers)) + len('"": [')
    document = Growing()
    rows: dict[str, Any] = {}
    while True:
        before, found = window.until_match(key, reach, TEXT_BYTES)
        document.add(before)
        refuse_beyond(document.size, TEXT_BYTES, "bytes of a line outside its token lists")
        if found is None:
            return document.text, rows
        name = found[1]
        text = window.until(b"]")
        if text is None:
            raise NotFlat
        placeholder = f"{nonce}:{len(rows)}"
        rows[placeholder] = readers[name.decode()](text)
        document.add(b'"%b":"%b"' % (name, placeholder.encode()))
