"""Text from elsewhere, as it may be shown: nothing in it moves a cursor or turns a line around."""

from collections.abc import Callable, Sequence


def visible(text: str, keep: str = "") -> str:
    """The text with every character that is not printable written as its escape, but `keep`.

    Control characters, marks of direction, lone surrogates: `\\x1b[2J`, `\\u202e`, `\\udc80`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def visible_start(text: str, most: int) -> str:
    """At most so many characters of it, in their lines; an ellipsis says that it goes on."""
    return visible(text[:most], "\n\t") + "…" * (len(text) > most)


def shortened(text: str, most: int = 80) -> str:
    """At most so many characters, of the start and the end of a text.

    Escapes count as what they are written as, and none is cut.
    """
    start = [visible(c) for c in text[: most + 1]]
    if len(text) <= most and sum(map(len, start)) <= most:
        return "".join(start)
    tail = most * 3 // 5
    end = [visible(c) for c in reversed(text[max(0, len(text) - most) :])]
    head, last = _first(start, most - tail - 1), _first(end, tail)
    return "".join([*head, "…", *reversed(last)])


def ending(text: str, most: int) -> str:
    """At most so many characters of the end of a text."""
    end = [visible(c) for c in reversed(text[max(0, len(text) - most) :])]
    if len(text) <= most and sum(map(len, end)) <= most:
        return "".join(reversed(end))
    return "".join(["…", *reversed(_first(end, most - 1))])


def labels(names: Sequence[str], most: int) -> list[str]:
    """A short text for each name, different ones for different names.

    What tells names apart is mostly at their ends; else start and end are kept, else a number is.
    Of 9 characters: org/task-one, org/task-two -> …task-one, …task-two
                     one/task-name, two/task-name -> one…-name, two…-name
    """
    found = [ending(name, most) for name in names]
    for shorter in (lambda name, _: shortened(name, most), _numbered(most)):
        owners: dict[str, dict[str, int]] = {}
        for name, label in zip(names, found, strict=True):
            of = owners.setdefault(label, {})
            of.setdefault(name, len(of) + 1)
        found = [
            label if len(owners[label]) == 1 else shorter(name, owners[label][name])
            for name, label in zip(names, found, strict=True)
        ]
    return found


def _numbered(most: int) -> Callable[[str, int], str]:
    def numbered(name: str, number: int) -> str:
        mark = f" ({number})"
        return ending(name, most - len(mark)) + mark

    return numbered


def _first(parts: list[str], most: int) -> list[str]:
    """As many of them as have together no more characters."""
    kept = []
    for part in parts:
        most -= len(part)
        if most < 0:
            break
        kept.append(part)
    return kept


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
