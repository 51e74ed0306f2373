"""Text that others wrote, safe to show: nothing in it is invisible, and none of it is long."""


def shortened(text: str, most: int = 80) -> str:
    """The start and the end of a text; what is not printable in it is written as its escape."""
    if len(text) > most:
        tail = most * 3 // 5
        text = f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"
    return "".join(map(_seen, text))


def _seen(character: str) -> str:
    """Such as `\\x1b` for an escape and `\\u202e` for a mark that turns the direction of text."""
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
