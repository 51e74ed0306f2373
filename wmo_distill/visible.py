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
    found = _apart(names, found, lambda name, _: shortened(name, most))
    return _apart(names, found, lambda name, number: _numbered(name, f" ({number})", most))


def _apart(
    names: Sequence[str], found: Sequence[str], other: Callable[[str, int], str]
) -> list[str]:
    """The labels, and others for the names that share one; these are numbered together."""
    owners: dict[str, set[str]] = {}
    for name, label in zip(names, found, strict=True):
        owners.setdefault(label, set()).add(name)
    shared = {name for of in owners.values() if len(of) > 1 for name in of}
    numbers = {
        name: k for k, name in enumerate(filter(shared.__contains__, dict.fromkeys(names)), 1)
    }
    return [
        other(name, numbers[name]) if name in numbers else label
        for name, label in zip(names, found, strict=True)
    ]


def _numbered(name: str, mark: str, most: int) -> str:
    return ending(name, most - len(mark)) + mark


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
