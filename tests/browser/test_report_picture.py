"""The picture of the report is small, and shown in README and docs."""

from tests.browser.report_picture import MOST_BYTES, PICTURE, ROOT


def test_the_picture_is_small_and_shown() -> None:
    assert 1_000 < PICTURE.stat().st_size <= MOST_BYTES
    assert "(docs/pictures/report.png)" in (ROOT / "README.md").read_text()
    assert "(pictures/report.png)" in (ROOT / "docs" / "look.md").read_text()
