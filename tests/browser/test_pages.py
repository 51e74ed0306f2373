"""Every page in light and dark, on a phone and on a desk: it loads, and axe finds nothing."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import PATIENCE, Open
from tests.view import data
from wmo_distill.report.words import RECORDS, SEQUENCES, Words

expect.set_options(timeout=PATIENCE)


def episode_with(real: tuple[Path, Path], cause: str) -> str:
    rows = pq.read_table(real[1] / "parts", columns=["episode_id", "break_cause"]).to_pylist()
    return next(row["episode_id"] for row in rows if row["break_cause"] == cause)


def states(real: tuple[Path, Path]) -> dict[str, str]:
    one, other = (episode_with(real, cause) for cause in ("summarized", "retokenized"))
    return {
        "list": "/",
        "found": "/?grade=passed&sort=output_tokens&down=1",
        "nothing": "/?q=nobody",
        "episode": f"/episode?id={one}&token=900",
        "jumps": f"/episode?id={one}&tab=jumps&colour=mask",
        "files": f"/episode?id={one}&tab=files&file=result.json",
        "record": f"/episode?id={one}&tab=record&view=ids&colour=teacher",
        "compare": f"/compare?a={one}&b={other}&token=700",
        "stats": "/stats",
        "datums": "/stats?of=datums",
    }


PAGES = (
    "list", "found", "nothing", "episode", "jumps", "files", "record", "compare", "stats", "datums",
)  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read_by_everybody(
    opened: Open, address: str, real: tuple[Path, Path], name: str
) -> None:
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = opened(address, states(real)[name], width=width, scheme=scheme)
        settled(page)
        found = Axe().run(page)
        assert not found.response["violations"], (width, scheme, found.generate_report())
        # nothing but a region of its own scrolls to the side
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, width)


def settled(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    expect(page.get_by_text("Counting …")).to_have_count(0)
    expect(page.get_by_text("Reading the directory …")).to_have_count(0)
    if page.locator(".stream").count():
        page.locator(".stream .t").first.wait_for()


@pytest.mark.parametrize("of", ["", "datums"])
def test_every_number_is_that_of_stats(
    opened: Open, address: str, real: tuple[Path, Path], of: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wmo_distill", "stats", str(real[of == "datums"]), "--json"],
        cwd=data.ROOT, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    numbers = json.loads(done.stdout)
    page = opened(address, f"/stats?of={of}")
    page.locator("[data-key]").first.wait_for()
    shown: list[list[str]] = page.locator("[data-key]").evaluate_all(
        "all => all.map(e => [e.dataset.key, e.dataset.value, e.textContent])"
    )
    assert len(shown) > 30
    for key, value, text in shown:
        wanted = numbers
        for step in key.split("."):
            wanted = wanted[int(step)] if isinstance(wanted, list) else wanted[step]
        assert float(value) == wanted, key
        said = float(text.replace(",", "").replace("−", "-"))
        assert said == pytest.approx(wanted, rel=1e-3, abs=1e-9) or said == pytest.approx(
            100 * wanted, abs=0.06
        ), key


@pytest.mark.parametrize(("of", "words"), [("", RECORDS), ("datums", SEQUENCES)])
def test_numbers_have_words(opened: Open, address: str, of: str, words: Words) -> None:
    page = opened(address, f"/stats?of={of}")
    page.locator("[data-key]").first.wait_for()
    said = page.locator("article h2, article dt, article th").all_text_contents()
    assert not [text for text in said if "_" in text]
    assert {words[key] for key in ("solve_rate", "distributions", "groups", "tasks")} <= {*said}
    rate = page.locator("[data-key='solve_rate.numerator']").locator("xpath=ancestor::dd")
    assert rate.locator("xpath=preceding-sibling::dt[1]").text_content() == words["solve_rate"]


def test_stats_of_an_expression(opened: Open, address: str) -> None:
    page = opened(address, f"/stats?where={quote('reward = 1')}")
    expect(page.locator("[data-key=records]")).to_have_text("28")
    page.get_by_role("link", name="All rows").click()
    expect(page.locator("[data-key=records]")).to_have_text("53")


def test_an_address_that_leads_nowhere(opened: Open, address: str) -> None:
    page = opened(address, "/episode?id=nobody", may="status of 404")
    expect(page.get_by_role("alert")).to_contain_text("expected an episode of the dataset")
    page = opened(address, "/nowhere")
    expect(page.locator("#found")).to_have_text("53 episodes")
