"""The pictures in docs/pictures, made from the trials in fixtures/.

python -m tests.browser.pictures [FOLDER]
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.browser.chromium import launched
from tests.view import data
from wmo_distill.page.write import write_report

MOST_BYTES = 100_000
ROOT = data.ROOT
PLACE = ROOT / "docs" / "pictures"
TRIAL = "csv-totals__mEySMRg"


def of_report(browser: Browser, out: Path, report: Path) -> bytes:
    """The first charts of the distributions, as PNG."""
    write_report(out, report)
    page = browser.new_page(viewport={"width": 1200, "height": 368})
    page.goto(f"{report.as_uri()}#distributions")
    return page.screenshot()


def of_view(browser: Browser, address: str) -> dict[str, bytes]:
    """By name the bytes of each PNG."""
    found = {}
    for name, (width, height), state in (
        ("view-episodes", (1100, 500), "/?sort=output_tokens&down=1"),
        ("view-tokens", (1040, 600), "/episode?{a}&token=800"),
        ("view-compare", (1100, 540), "/compare?{b}"),
    ):
        context = browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(address)
        page.locator("tbody a").first.wait_for()
        ids = _ids(page)
        a = f"id={ids[TRIAL]}"
        b = f"a={ids[TRIAL]}&b={ids['csv-totals__KQDabkX']}"
        page.goto(f"{address}#{state.format(a=a, b=b)}")
        page.reload()
        page.wait_for_load_state("networkidle")
        if name == "view-compare":
            page.locator(".stream .t").first.wait_for()
            page.locator("#first-sampled").click()
            page.locator(".t.differs").nth(1).wait_for()
        elif name == "view-tokens":
            page.locator(".t:focus").wait_for()
        page.wait_for_timeout(400)
        found[name] = page.screenshot()
        context.close()
    return found


def _ids(page: Any) -> dict[str, str]:
    """The ids of the episodes by the names of their trials."""
    shown: list[list[str]] = page.locator("tbody a").evaluate_all(
        "all => all.map(e => [e.textContent, e.dataset.id])"
    )
    return dict(shown)


def main() -> None:
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        if browser is None:
            sys.exit("expected a Chromium, found none; install Debian's `chromium`, or Chrome")
        out, datums = data.real(Path(folder))
        with data.serving(out, "--datums", datums, "--tokenizer", data.TOKENIZER) as address:
            found = of_view(browser, address)
        found["report"] = of_report(browser, out, Path(folder) / "report.html")
    for name, picture in found.items():
        (place / f"{name}.png").write_bytes(picture)


if __name__ == "__main__":
    main()
