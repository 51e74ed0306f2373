"""Token lists, and large extras, cut out of a JSON document as it streams by.

A prompt repeats the one before, byte for byte, because both are written with one indentation. So
its text is compared with the remembered one and only what is new is parsed:

    "prompt_token_ids": [[5, 6], [5, 6, 17, 8]]    the document
    "prompt_token_ids": "9f3c…:0"                   its skeleton: small, for the ordinary parser
    IdRow(0, [5, 6]), IdRow(2, [17, 8])             list 0: "5, 6" is compared, ", 17, 8" is parsed
    [[5, 6], [5, 67]]                               "5, 6" is equal, but only "5" is a whole number

The placeholder, which is random, says where each list belongs. Whatever is not provably of this
form raises `NotFlat`, and the document takes the ordinary path.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import IO

from wmo_distill.limits import LISTS, TEXT_BYTES, refuse_beyond
from wmo_distill.tokenjson.extras import PATIENCE, Written, pass_extra, written
from wmo_distill.tokenjson.numbers import (
    WHITE,
    NotFlat,
    NotText,
    prove_flat,
    prove_ids,
    read_ids,
    read_ids_after,
    read_logprobs,
)
from wmo_distill.tokenjson.rows import (
    DAMAGED_IDS,
    UNREAD_IDS,
    UNREAD_LOGPROBS,
    IdRow,
    linked,
    whole_row,
)
from wmo_distill.tokenjson.skeleton import HARBOR_NAMES, CutList, ListNames, Row, Skeleton
from wmo_distill.tokenjson.values import Unparsed, pass_values
from wmo_distill.tokenjson.window import WINDOW, Block, Remembered, Whole, Window

_NEXT_ROW = re.compile(rb"[ \t\r\n]*(?:(,)[ \t\r\n]*\[|\])")


@cache
def _key(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """A key with its quotes, and the colon and bracket behind it where they follow."""
    return re.compile(rb'"(%b)"([ \t\r\n]*:[ \t\r\n]*\[)?' % "|".join(names).encode())


@dataclass(slots=True)
class Scanner:
    """Reads one document through a window.

    Where `numbers` are not asked for, lists are proved to be JSON and not read, but for prompts
    that share nothing with the one before. `extra` says whether the text of large extras is wanted;
    with None they stay in the document.
    """

    window: Window
    remembered: Remembered
    numbers: bool = True
    extra: bool | None = None
    names: ListNames = HARBOR_NAMES
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    """How every placeholder begins: no document holds it by chance."""
    extras: dict[str, Written] = field(default_factory=dict)
    counted: tuple[int, int] = (0, 0)
    """(how many of the pieces kept were counted, their bytes)."""
    n_lists: int = 0
    patience: int = PATIENCE
    """Objects and lines that may still be searched for large extras in vain."""
    last_prompt: IdRow | None = None
    """The row whose text is remembered; None where the next prompt cannot share with one."""
    unproved_ids: list[bytes] = field(default_factory=list)
    unproved_logprobs: list[bytes] = field(default_factory=list)
    unproved_size: int = 0
    """Bytes of the texts that were left unread and are not proved yet."""
    values: Mapping[str, Remembered] = field(default_factory=dict)
    """The last list of objects under each key whose list is left out (see `values`)."""
    passed: dict[str, Unparsed] = field(default_factory=dict)

    def skeleton(self) -> Skeleton:
        """Scan the whole file; NotFlat where a list is not of the fast grammar."""
        pieces: list[bytes] = []
        lists: dict[str, CutList] = {}
        while (key := self._next_list(pieces)) is not None:
            pieces.append(b'"%b"' % (placeholder := f"{self.nonce}:{len(lists)}").encode())
            lists[placeholder] = self._list(key)
        self._prove()
        return Skeleton(b"".join(pieces), lists, self.extras, self.passed)

    def _next_list(self, pieces: list[bytes]) -> str | None:
        """Pass to just behind the bracket that opens the next list, keeping what comes before."""
        window, names = self.window, (*self.names, *self.values)
        longest = max(map(len, names)) + 2
        while True:
            looks = self.extra is not None and self.patience > 0
            search = _key((*names, "extra") if looks else names).search
            data, pos = window.data, window.pos
            found = search(data, pos, window.end)
            if found:
                # Taken out now: the bytes that were found move when the window is filled again.
                key, behind_key = found[1].decode(), found.end(1) + 1
                pieces.append(data[pos:behind_key])
                if key == "extra":
                    window.pos = behind_key
                    self.patience = pass_extra(window, pieces, self._put_extra, self.patience)
                    continue
                window.pos = found.end()
                if window.pos > behind_key:
                    pieces.append(b":")
                elif not self._opens_list(pieces):
                    continue
                if key not in self.values:
                    return key
                pieces.append(self._without_values(key))
                continue
            # A key may cross the edge of the window.
            safe = max(pos, window.end - longest)
            pieces.append(data[pos:safe])
            window.pos = safe
            self._refuse_large(pieces)
            if not window.refill():
                pieces.append(data[window.pos : window.end])
                window.pos = window.end
                return None

    def _refuse_large(self, pieces: list[bytes]) -> None:
        """TooLarge where what stays of the document is; NotText where a file was not written."""
        n, size = self.counted
        size += sum(map(len, pieces[n:]))
        self.counted = len(pieces), size
        refuse_beyond(size, TEXT_BYTES, "bytes of a document outside its token lists")
        if b"\0" in pieces[-1]:
            raise NotText

    def _put_extra(self, element: bytes) -> bytes:
        wanted, placeholder = bool(self.extra), f"{self.nonce}:extra:{len(self.extras)}"
        self.extras[placeholder] = written(element, wanted)
        return b'"%b"' % placeholder.encode()

    def _without_values(self, key: str) -> bytes:
        """What replaces a list of objects whose opening bracket is taken."""
        assert isinstance(self.window, Whole)
        passed = pass_values(self.window, self.values[key], _key(self.names))
        if passed is None:
            return b"["
        self.passed[placeholder := f"{self.nonce}:values:{len(self.passed)}"] = passed
        return b'"%b"' % placeholder.encode()

    def _opens_list(self, pieces: list[bytes]) -> bool:
        """Take the colon and the bracket behind a key, if they follow across the window's edge."""
        window = self.window
        if window.peek() != 58:  # ":"
            return False
        pieces.append(b":")
        window.pos += 1
        if window.peek() != 91:  # "["
            return False
        window.pos += 1
        return True

    def _list(self, key: str) -> CutList:
        """A list whose opening bracket is taken."""
        window = self.window
        byte = window.peek()
        if byte == 93:  # "]"
            window.pos += 1
            return CutList(key, False, [])
        if byte != 91:
            return CutList(key, True, [self._row(key)])
        window.pos += 1
        rows = [self._first_row(key)]
        while self._next_row():
            rows.append(self._row(key))
        return CutList(key, False, rows)

    def _first_row(self, key: str) -> Row:
        """One that shares with no row of the list before: chains do not grow from chat to chat."""
        row = self._row(key)
        if row is not self.last_prompt or self.last_prompt.before is None:
            return row
        ids = whole_row(self.last_prompt)
        assert ids is not None
        self.last_prompt = IdRow(0, ids)
        return self.last_prompt

    def _next_row(self) -> bool:
        """Take what is between two rows; False at the end of the list."""
        window = self.window
        found = _NEXT_ROW.match(window.data, window.pos, window.end)
        if found:
            window.pos = found.end()
            return found[1] is not None
        # Something else follows, or the window ends here.
        byte = window.peek()
        if byte not in (44, 93):  # "," and "]"
            raise NotFlat
        window.pos += 1
        if byte == 93:
            return False
        if window.peek() != 91:  # "["
            raise NotFlat
        window.pos += 1
        return True

    def _row(self, key: str) -> Row:
        """A flat list whose opening bracket is taken."""
        self.n_lists += 1
        refuse_beyond(self.n_lists, LISTS, "lists of numbers in a document")
        if key == self.names.prompt:
            return self._prompt()
        text = self.window.until(b"]")
        if text is None:
            raise NotFlat
        if not self.numbers:
            return self._leave_unread(key, text)
        if key == self.names.logprobs:
            return read_logprobs(text)
        ids = read_ids(text)
        return DAMAGED_IDS if ids is None else IdRow(0, ids)

    def _prompt(self) -> Row:
        window, known = self.window, self.remembered
        same = known.take_shared(window)
        head = b""
        if same and same == known.size and self._at_end_of_number():
            cut, shared = same, known.numbers
        else:
            cut, shared = known.cut_at_number(same)
            head = known.block.data[cut:same]
        text = window.until(b"]")
        if text is None:
            raise NotFlat
        text = (head + text).rstrip(WHITE)
        if shared and not self.numbers:
            known.replace_tail(cut, text, shared)
            return self._leave_unread(self.names.prompt, b"0" + text)
        ids = read_ids_after(text) if shared else read_ids(text)
        if ids is None:
            # Where a damaged list ends another way than it began, nothing may share with it.
            known.clear()
            self.last_prompt = None
            return DAMAGED_IDS
        before = self.last_prompt
        row = linked(shared, ids, before) if shared and before else IdRow(0, ids)
        known.replace_tail(cut, text, shared + ids.size)
        if not row.size:
            known.size = 0
        self.last_prompt = row
        return row

    def _leave_unread(self, key: str, text: bytes) -> Row:
        logprobs = key == self.names.logprobs
        (self.unproved_logprobs if logprobs else self.unproved_ids).append(text)
        self.unproved_size += len(text)
        if self.unproved_size >= WINDOW:
            self._prove()
        return UNREAD_LOGPROBS if logprobs else UNREAD_IDS

    def _prove(self) -> None:
        """NotFlat unless all that was left unread is sound."""
        if self.unproved_ids:
            prove_ids(self.unproved_ids)
        if self.unproved_logprobs:
            prove_flat(self.unproved_logprobs)
        self.unproved_ids, self.unproved_logprobs, self.unproved_size = [], [], 0

    def _at_end_of_number(self) -> bool:
        window = self.window
        if window.pos == window.end and not window.refill():
            return False
        return window.data[window.pos] in b",] \t\r\n"


_spare: list[tuple[Block, Remembered]] = []  # fresh memory costs more than reading into it


def scan(
    file: IO[bytes],
    window: int = WINDOW,
    *,
    numbers: bool = True,
    extra: bool | None = None,
    names: ListNames = HARBOR_NAMES,
) -> Skeleton:
    """The skeleton of a document and what was cut out; NotFlat for the ordinary path."""
    block, remembered = _spare.pop() if _spare else (Block(window), Remembered())
    if len(block.data) != window:
        block = Block(window)
    remembered.clear()
    try:
        return Scanner(Window(file, block), remembered, numbers, extra, names).skeleton()
    finally:
        _spare.append((block, remembered))
