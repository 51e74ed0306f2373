"""The pictures of README and docs, made from the trials in fixtures/.

python -m tests.browser.pictures
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.chromium import launched
from wmo_distill import build

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
MOST_BYTES = 60_000


def report(page: "Page", place: Path) -> None:
    """Of the report the first charts of its distributions."""
    from wmo_distill.page.write import write_report

    out = place / "shards"
    build([ROOT / "fixtures" / "trials"], out, workers=1)
    write_report(out, place / "report.html")
    page.set_viewport_size({"width": 1200, "height": 368})
    page.goto((place / "report.html").as_uri() + "#distributions")


TAKEN: dict[str, Callable[["Page", Path], None]] = {"report": report}
"""By the name of a file what opens the page that it shows."""


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with launched() as browser, tempfile.TemporaryDirectory() as folder:
        if browser is None:
            sys.exit("expected a Chromium, found none; install Debian's `chromium`, or Chrome")
        for name, opens in TAKEN.items():
            page = browser.new_page()
            place = Path(folder) / name
            place.mkdir()
            opens(page, place)
            picture = page.screenshot(path=PICTURES / f"{name}.png")
            page.close()
            if len(picture) > MOST_BYTES:
                sys.exit(f"{name}.png: expected {MOST_BYTES} bytes or less, found {len(picture)}")


if __name__ == "__main__":
    main()
