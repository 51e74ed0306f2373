"""The pictures of README and docs are small, and shown somewhere."""

import pytest

from tests.browser.pictures import MOST_BYTES, PICTURES, ROOT, TAKEN


@pytest.mark.parametrize("name", TAKEN)
def test_a_picture_is_small_and_shown(name: str) -> None:
    picture = PICTURES / f"{name}.png"
    assert 1_000 < picture.stat().st_size <= MOST_BYTES
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"pictures/{name}.png)" in page.read_text() for page in pages)


def test_there_is_no_other_picture() -> None:
    assert {picture.stem for picture in PICTURES.iterdir()} == set(TAKEN)
