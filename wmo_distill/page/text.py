"""Text that others wrote, safe to show: nothing in it is invisible, and none of it is long."""

from wmo_distill.visible import visible


def shortened(text: str, most: int = 80) -> str:
    """At most so many characters, of the start and the end of a text.

    What is not printable is written as its escape, such as `\\x1b`, or `\\u202e`, which turns the
    direction.
    """
    start = [visible(c) for c in text[: most + 1]]
    if len(text) <= most and sum(map(len, start)) <= most:
        return "".join(start)
    tail = most * 3 // 5
    end = [visible(c) for c in reversed(text[max(0, len(text) - most) :])]
    head, last = _first(start, most - tail - 1), _first(end, tail)
    return "".join([*head, "…", *reversed(last)])


def _first(parts: list[str], most: int) -> list[str]:
    """As many of them as have together no more characters."""
    kept = []
    for part in parts:
        most -= len(part)
        if most < 0:
            break
        kept.append(part)
    return kept
