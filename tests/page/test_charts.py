"""What a chart draws is what it was given: lengths and places, measured on the SVG."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.page.reading import Element, tree
from wmo_distill.page.charts import Bar, Estimate, bars, drawn_edges, estimates, histogram, stacked
from wmo_distill.page.svg import inline_svg
from wmo_distill.visible import labels, visible

_RECTANGLE = re.compile(r"M([-\d.]+),([-\d.]+)h([-\d.]+)v([-\d.]+)h")


def drawn(chart: object) -> Element:
    return tree(inline_svg(chart, "c", "A title", "About it")).all("svg")[0]


def rectangles(svg: Element, color: str) -> list[tuple[float, float, float, float]]:
    """(x, y, width, height) of what is filled with a colour."""
    found = []
    for path in svg.all("path"):
        match = _RECTANGLE.match(str(path.attributes["d"]))
        if match and path.attributes.get("fill") == color:
            x, y, width, height = map(float, match.groups())
            found.append((x, y, width, height))
    return found


def texts(svg: Element) -> list[str]:
    return ["".join(one for one in text.inside if isinstance(one, str)) for text in svg.all("text")]


def test_bars_are_as_long_as_their_counts() -> None:
    svg = drawn(bars([Bar("a", 40, 80), Bar("b", 10, 80), Bar("c", 0, 80)], "var(--a)"))
    widths = [width for _, _, width, _ in rectangles(svg, "var(--a)") if width]
    (whole,) = {width for _, _, width, _ in rectangles(svg, "var(--grid)")}
    assert [width / whole for width in widths] == pytest.approx([0.5, 0.125], abs=0.001)
    assert texts(svg)[-3:] == ["a", "b", "c"]


def test_parts_of_a_bar_are_end_to_end() -> None:
    rows = {"x": {"one": 3, "two": 1}, "y": {"two": 2}}
    svg = drawn(stacked(rows, {"one": "var(--c1)", "two": "var(--c2)"}))
    (first,), others = rectangles(svg, "var(--c1)")[:1], rectangles(svg, "var(--c2)")
    assert others[0][0] == pytest.approx(first[0] + first[2], abs=0.02)
    assert others[1][2] / others[0][2] == pytest.approx(2, abs=0.01)


def test_bins_are_as_high_as_their_counts() -> None:
    edges, counts = (0.0, 1.0, 2.0, 3.0), (4, 0, 2)
    svg = drawn(histogram(edges, counts, "var(--a)", (0, 3), 2.5))
    heights = [height for _, _, _, height in rectangles(svg, "var(--a)")]
    assert [height / heights[0] for height in heights] == pytest.approx([1, 0, 0.5], abs=0.001)
    lefts = [x for x, _, _, _ in rectangles(svg, "var(--a)")]
    assert {round(b - a, 1) for a, b in pairwise(lefts)} == {round(lefts[1], 1)}


def test_a_far_value_makes_no_bin_wide() -> None:
    assert drawn_edges((-900.0, 0.0, 1.0, 2.0, 3.0, 1e9)) == [-1, 0, 1, 2, 3, 4]
    assert drawn_edges((0.0, 0.1, 0.2, 0.3)) == [0.0, 0.1, 0.2, 0.3]
    assert drawn_edges((0.0, 900.0)) == [0.0, 900.0]
    assert drawn_edges(()) == []


def test_an_interval_is_where_its_bounds_are() -> None:
    rows = [Estimate("a", 0.5, 0.25, 0.75), Estimate("b", None, None, None)]
    svg = drawn(estimates(rows, "var(--a)", (0, 1)))
    (line,) = (one for one in svg.all("line") if one.attributes.get("stroke") == "var(--a)")
    ends = [float(str(line.attributes["x2"])), *_place(line)]
    frame = max(_place(one)[0] for one in svg.all("line"))
    assert ends[0] / frame == pytest.approx(0.5, abs=0.005)
    assert ends[1] / frame == pytest.approx(0.25, abs=0.005)
    assert texts(svg)[-2:] == ["a", "b"]


def _place(one: Element) -> list[float]:
    return [float(n) for n in re.findall(r"-?[\d.]+", str(one.attributes["transform"]))]


def test_names_are_text_and_short() -> None:
    name = "<script>'\"\x1b\u202e" + "x" * 10**6
    svg = drawn(bars([Bar(name, 1, 1)], "var(--a)"))
    shown = texts(svg)[-1]
    assert shown == f"…{'x' * 22}"
    (whole,) = svg.all("text")[-1].all("title")
    assert whole.text().startswith("<script>'\"\\x1b\\u202exxx")
    assert len(whole.text()) == 300
    assert svg.all("title")[0].text() == "A title"
    assert svg.all("desc")[0].text() == "About it"


def test_a_short_name_has_no_second_text() -> None:
    svg = drawn(bars([Bar("short", 1, 1)], "var(--a)"))
    assert svg.all("text")[-1].all("title") == []


def test_labels_keep_what_tells_names_apart() -> None:
    assert labels(["org/task-one", "org/task-two"], 9) == ["…task-one", "…task-two"]
    assert labels(["one/task-name", "two/task-name"], 9) == ["one…-name", "two…-name"]
    inner = [f"org/{'x' * 40}{number}{'y' * 40}/task" for number in range(2)]
    assert labels([*inner, "b", inner[0]], 12) == [
        "…yy/task (1)",
        "…yy/task (2)",
        "b",
        "…yy/task (1)",
    ]
    ends = [f"{start * 14}{middle}-{'z' * 30}" for start in "ab" for middle in ("one", "two")]
    assert labels(ends, 12) == [f"…zzzzzzz ({number})" for number in (1, 2, 3, 4)]
    assert labels([], 9) == []


@given(st.lists(st.text("ab\x1b…() 12", max_size=12)), st.integers(9, 14))
def test_different_names_have_different_labels(names: list[str], most: int) -> None:
    found = labels(names, most)
    assert len(set(zip(names, found, strict=True))) == len(set(names))
    assert all(len(label) <= most for label in found)
    if len({visible(name) for name in names}) == len(set(names)):
        assert len(set(found)) == len(set(names))
