"""A headless Chromium of the system; tests are skipped where there is none."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import launched
from tests.view import data

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

PATIENCE = 60_000
"""Milliseconds; a machine may be busy."""


@pytest.fixture(scope="package")
def browser() -> "Iterator[playwright.Browser]":
    """Closed after these tests: while it is open, playwright's event loop runs in this thread."""
    with launched() as browser:
        if browser is None:
            pytest.skip("no Chromium is found: install Debian's `chromium`, or Chrome")
        yield browser


Open = Callable[..., "playwright.Page"]


@pytest.fixture
def opened(browser: "playwright.Browser") -> Iterator[Open]:
    """Opens a page; in the end its console is empty, and all requests went to the one server."""
    faults: list[str] = []
    contexts = []

    def open_(
        address: str, state: str = "/", *, width: int = 1280, scheme: str = "light", may: str = "\0"
    ) -> "playwright.Page":
        """`may` is in what the console may say."""
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()

        def said(text: str) -> None:
            if may not in text:
                faults.append(text)

        page.on("console", lambda one: said(f"{one.type}: {one.text}"))
        page.on("pageerror", lambda error: said(f"error: {error}"))
        page.on("dialog", lambda dialog: said(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: request.url.startswith(address) or faults.append(request.url),
        )
        page.goto(f"{address}#{state}")
        page.locator("main > *").first.wait_for()
        return page

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(dataset, datums) of the real trials."""
    return data.real(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="package")
def address(real: tuple[Path, Path], browser: "playwright.Browser") -> Iterator[str]:
    """Where the real trials are served."""
    out, datums = real
    with data.serving(out, "--datums", datums, "--tokenizer", data.TOKENIZER) as address:
        yield address
