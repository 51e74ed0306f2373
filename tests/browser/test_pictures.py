"""The pictures are small, and each is shown."""

from tests.browser.pictures import MOST_BYTES, PLACE, ROOT


def test_each_picture_is_small_and_shown() -> None:
    page = (ROOT / "docs" / "look.md").read_text()
    found = sorted(PLACE.iterdir())
    assert found
    for path in found:
        assert path.stat().st_size <= MOST_BYTES
        assert f"(pictures/{path.name})" in page
    assert "(docs/pictures/report.png)" in (ROOT / "README.md").read_text()
