"""A report as a reader of HTML sees it: its elements, and the numbers with their paths."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "br", "link", "img", "input", "hr", "source", "wbr"}


@dataclass
class Element:
    """One element, its attributes, and what is in it in order."""

    tag: str
    attributes: dict[str, str | None]
    inside: list["Element | str"] = field(default_factory=list)

    def all(self, tag: str = "") -> list["Element"]:
        """The elements in it, of one tag if given, in document order."""
        found = []
        for one in self.inside:
            if isinstance(one, Element):
                found += [one] * (not tag or one.tag == tag) + one.all(tag)
        return found

    def text(self, *, without: tuple[str, ...] = ()) -> str:
        """The text in it; elements that have one of these attributes are left out."""
        return "".join(
            one
            if isinstance(one, str)
            else ""
            if one.attributes.keys() & set(without)
            else one.text(without=without)
            for one in self.inside
        )


class Tree(HTMLParser):
    """Strict where the standard is: what is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root], f"never closed: {self._open[-1].tag}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in {tag}"
        element = Element(tag, dict(attrs))
        self._open[-1].inside.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].inside.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)


def tree(page: str) -> Element:
    return Tree(page).root


def keyed(root: Element) -> list[tuple[str, Any, str]]:
    """(path, exact value, what is shown) of every number of the page."""
    return [
        (str(one.attributes["data-key"]), json.loads(str(one.attributes["data-value"])), one.text())
        for one in root.all()
        if "data-key" in one.attributes
    ]


def at(data: Any, path: str) -> Any:
    """The value at a path of `stats --json`, found without the code of the page."""
    for step in path.split("."):
        if step == "length" and not (isinstance(data, dict) and "length" in data):
            return len(data)
        if step == "sum" and "sum" not in data:
            return sum(data.values())
        data = data[int(step)] if isinstance(data, list) else data[step]
    return data


def shown_as(text: str) -> float:
    """The number that a reader takes from what is shown."""
    return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))
