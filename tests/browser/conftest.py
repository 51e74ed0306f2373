"""A headless Chromium of the system; tests are skipped where there is none."""

from collections.abc import Iterator

import pytest

from tests.browser.chromium import launched

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="session")
def browser() -> "Iterator[playwright.Browser]":
    with launched() as browser:
        if browser is None:
            pytest.skip("no Chromium is found: install Debian's `chromium`, or Chrome")
        yield browser
