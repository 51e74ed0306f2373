"""A chart as SVG inside of a page: drawn by Vega-Lite, its colours those of the page."""

import io
import re
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup

from wmo_distill.visible import shortened

_SVG = "http://www.w3.org/2000/svg"
_KEPT = re.compile(
    r"d|x[12]?|y[12]?|width|height|transform|viewBox|fill|fill-opacity|stroke|stroke-width|"
    r"stroke-dasharray|stroke-opacity|stroke-linecap|opacity|text-anchor|font-size|font-weight"
)
_LONGEST = 300
_DECIMALS = re.compile(r"(\d+\.\d\d)\d+")
# What Vega writes for a group that draws nothing, and what is the default.
_NOTHING = ("", "M0,0h0v0h0Z")
_DEFAULT = {"opacity": "1", "stroke-width": "1", "fill": "transparent"}


def inline_svg(chart: Any, name: str, title: str, about: str) -> Markup:
    """An Altair chart as an element; `name` is its own on the page, `about` is for who cannot see.

    The page sets fonts and colours (`var(--ink)`), so that a chart is light or dark as the page is.
    """
    drawn = io.StringIO()
    chart.save(drawn, format="svg")
    root = ElementTree.fromstring(drawn.getvalue())
    _, _, width, height = root.attrib["viewBox"].split()
    _clean(root)
    for label in root.iter("text"):
        _with_name(label, chart.usermeta["names"].get(label.text))
    root.attrib.clear()
    root.attrib.update(
        {
            "role": "img",
            "aria-labelledby": f"{name}-title",
            "aria-describedby": f"{name}-about",
            "viewBox": f"0 0 {width} {height}",
        }
    )
    for tag, text in (("desc", about), ("title", title)):
        element = ElementTree.Element(tag, {"id": f"{name}-{'about' if tag == 'desc' else tag}"})
        element.text = text
        root.insert(0, element)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _with_name(text: ElementTree.Element, name: str | None) -> None:
    """The whole of a name that a label shortens, where the mouse rests."""
    if name is not None and name != text.text:
        whole = ElementTree.SubElement(text, "title")
        whole.text, whole.tail, text.text = shortened(name, _LONGEST), text.text, None


def _clean(element: ElementTree.Element) -> None:
    """Without what draws nothing, and with two decimals."""
    element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
    for name, value in list(element.attrib.items()):
        if not _KEPT.fullmatch(name) or _DEFAULT.get(name) == value:
            del element.attrib[name]
        else:
            element.attrib[name] = _DECIMALS.sub(r"\1", value)
    for child in list(element):
        _clean(child)
        drawn = child.tag != "path" or child.attrib.get("d") not in _NOTHING
        drawn = drawn and not (child.tag == "path" and "fill" not in child.attrib
                               and "stroke" not in child.attrib)  # fmt: skip
        if not drawn or (child.tag == "g" and not len(child)):
            element.remove(child)
