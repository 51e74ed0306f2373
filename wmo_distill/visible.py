"""Text from elsewhere, as it may be shown: nothing in it moves a cursor or turns a line around."""


def visible(text: str, keep: str = "") -> str:
    """The text with every character that is not printable written as its escape, but `keep`.

    Control characters, marks of direction, lone surrogates: `\\x1b[2J`, `\\u202e`, `\\udc80`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
