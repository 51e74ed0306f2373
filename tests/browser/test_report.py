"""The report as a browser shows it: nothing runs, nothing is asked for, everybody can read it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.page.hostile import hostile_dataset
from wmo_distill import build, build_datum_shards
from wmo_distill.page.write import write_report

TRIALS = Path(__file__).parents[2] / "fixtures" / "trials"
PHONE, DESK = 390, 1280


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of a dataset, of its sequences, of two datasets, and of hostile trials."""
    place = tmp_path_factory.mktemp("reports")
    build([TRIALS], place / "shards", workers=1)
    build(sorted(TRIALS.glob("0*")), place / "before", workers=1)
    build_datum_shards(place / "shards", place / "datums")
    (place / "hostile").mkdir()
    sources = {
        "dataset": (place / "shards", None),
        "datums": (place / "datums", None),
        "both": (place / "before", place / "shards"),
        "hostile": (hostile_dataset(place / "hostile"), None),
    }
    found = {}
    for name, (source, other) in sources.items():
        found[name] = place / f"{name}.html"
        write_report(source, found[name], other=other)
    return found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without cookies of others."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


class Watched:
    """A page, what it asked for, and what it said."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.said: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(dialog.message))

    def opens(self, file: Path) -> None:
        self.page.goto(file.as_uri())
        self.page.wait_for_load_state("networkidle")


@pytest.fixture
def watched(page: Page) -> Watched:
    return Watched(page)


@pytest.mark.parametrize("name", ["dataset", "datums", "both", "hostile"])
def test_nothing_runs_and_nothing_is_asked_for(
    watched: Watched, reports: dict[str, Path], name: str
) -> None:
    watched.opens(reports[name])
    assert watched.asked == [reports[name].as_uri()]
    assert watched.said == []
    assert watched.page.title().startswith("Report of ")
    assert watched.page.evaluate("document.scripts.length") == 0


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "dark"), (DESK, "light")])
@pytest.mark.parametrize("name", ["dataset", "datums", "both", "hostile"])
def test_everybody_can_read_it(
    page: Page, reports: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    """No finding of axe, whose rules ask for contrast too; nothing is wider than the screen."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(reports[name].as_uri())
    for details in page.locator("details").all():
        details.evaluate("one => one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def test_charts_follow_the_page(page: Page, reports: dict[str, Path]) -> None:
    page.goto(reports["dataset"].as_uri())
    colors = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        asked = "getComputedStyle(document.querySelector('svg path[fill*=\"--a\"]')).fill"
        colors.append(page.evaluate(asked))
    assert len(set(colors)) == 2
    assert all(color.startswith("rgb(") for color in colors)


def test_the_keyboard_opens_the_numbers_of_a_chart(page: Page, reports: dict[str, Path]) -> None:
    page.goto(reports["dataset"].as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    table = page.locator("details table").first
    assert not table.is_visible()
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert table.is_visible()


def test_the_numbers_are_in_print(page: Page, reports: dict[str, Path]) -> None:
    """Nothing is wider than a page of A4 with margins of 15 mm."""
    page.set_viewport_size({"width": 680, "height": 900})
    page.goto(reports["dataset"].as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") == 680
    for table in page.locator("details table").all():
        box = table.bounding_box()
        assert box is not None
        assert box["height"] > 20
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.fixture
def without_scripts(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()


def test_it_is_the_same_where_scripts_are_off(
    without_scripts: Page, page: Page, reports: dict[str, Path]
) -> None:
    texts = []
    for one in (without_scripts, page):
        one.goto(reports["dataset"].as_uri())
        texts.append(one.locator("main").inner_text())
    assert texts[0] == texts[1]
    assert len(texts[0]) > 2_000
