"""Text that others wrote is shown and shortened, and is never markup."""

import re
import unicodedata
from pathlib import Path

import pytest

from tests.page.conftest import Report
from tests.page.hostile import NAMES, hostile_dataset
from tests.page.reading import Element, tree
from wmo_distill import build_datum_shards
from wmo_distill.visible import shortened

TAGS = {
    "html", "head", "meta", "title", "style", "body", "a", "header", "h1", "h2", "h3", "p", "nav",
    "ul", "li", "main", "section", "div", "figure", "figcaption", "details", "summary", "table",
    "caption", "thead", "tbody", "tr", "th", "td", "span", "bdi", "code", "strong", "br", "footer",
    "svg", "g", "path", "line", "text", "desc",
}  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_dataset(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def pages(out: Path, report: Report, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Of a dataset, of its sequences, and of two."""
    datums = tmp_path_factory.mktemp("hostile") / "datums <script>"
    build_datum_shards(out, datums)
    where = "task_id <> '<script>'"
    return [report(out, by=("task_id",), where=where), report(datums), report(out, out)]


def test_no_text_becomes_an_element(pages: list[str]) -> None:
    for page in pages:
        root = tree(page)
        assert {one.tag for one in root.all()} <= TAGS
        assert not [a for one in root.all() for a in one.attributes if a.startswith("on")]
        assert len(page.encode()) < 1_000_000


def test_nothing_on_the_page_is_invisible(pages: list[str]) -> None:
    for page in pages:
        odd = {c for c in page if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert odd <= {"\n"}
        assert max(map(len, page.splitlines())) < 100_000


def test_every_name_is_shown_and_shortened(pages: list[str]) -> None:
    shown = {one.text() for one in _texts(tree(pages[0]), "tasks.")}
    assert shown == {shortened(name.replace("\ud800", "\ufffd"), 80) for name in NAMES.values()}
    assert max(map(len, shown)) == 80
    worst = {one.text() for one in _texts(tree(pages[0]), "worst.")}
    assert any("<script>" in text for text in worst)


def _texts(root: Element, start: str) -> list[Element]:
    """The texts of others whose path begins so."""
    return [
        one
        for one in root.all("bdi")
        if re.fullmatch(rf"{start}\d+\.(task_id|trial_name)", str(one.attributes["data-text"]))
    ]


def test_credentials_are_cut_out_of_options(pages: list[str]) -> None:
    for page in pages:
        assert "user:word" not in page
        assert "9f3c2b" not in page
    assert "[cut]@host" in pages[0]
