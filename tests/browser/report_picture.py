"""The picture of the report in docs/pictures, made from the trials in fixtures/.

python -m tests.browser.report_picture
"""

import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import launched
from wmo_distill import build
from wmo_distill.page.write import write_report

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "report.png"
MOST_BYTES = 60_000


def main() -> None:
    """The first charts of the distributions."""
    with launched() as browser, tempfile.TemporaryDirectory() as folder:
        if browser is None:
            sys.exit("expected a Chromium, found none; install Debian's `chromium`, or Chrome")
        out, report = Path(folder) / "shards", Path(folder) / "report.html"
        build([ROOT / "fixtures" / "trials"], out, workers=1)
        write_report(out, report)
        page = browser.new_page(viewport={"width": 1200, "height": 368})
        page.goto(f"{report.as_uri()}#distributions")
        PICTURE.parent.mkdir(exist_ok=True)
        found = page.screenshot(path=PICTURE)
    if len(found) > MOST_BYTES:
        sys.exit(f"{PICTURE.name}: expected {MOST_BYTES} bytes or less, found {len(found)}")


if __name__ == "__main__":
    main()
