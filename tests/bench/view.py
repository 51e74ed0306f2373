"""The web application over a large dataset: what a person waits for, in Chromium and without.

python -m tests.bench.view [--episodes 100000] [--tokens 100000]
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.bench.look import write_dataset
from tests.browser.chromium import launched
from tests.view import data

REPEATS = 5
FRAMES = """([pixels, ms]) => new Promise((done) => {
  const stream = document.querySelector(".stream");
  const frames = [];
  let last = performance.now();
  const began = last;
  const step = (now) => {
    frames.push(now - last);
    last = now;
    stream.scrollTop += pixels;
    if (now - began < ms) requestAnimationFrame(step);
    else done([frames.length, Math.max(...frames.slice(1)), stream.scrollTop]);
  };
  requestAnimationFrame(step);
})"""
"""Scrolls by so many pixels a frame, and gives how many frames there were, the longest, the end."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=100_000)
    args = parser.parse_args()
    print("| the web application | ms |\n| --- | --- |")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder) / "many"
        many.mkdir()
        write_dataset(many, args.episodes, 5)
        long = data.long(Path(folder) / "long", args.tokens, 3)
        for measured in (_of_many(many, args.episodes), _of_long(long, args.tokens)):
            for name, milliseconds in measured:
                print(f"| {name} | {milliseconds:,.0f} |", flush=True)  # noqa: T201


def _of_many(out: Path, episodes: int) -> Iterator[tuple[str, float]]:
    began = time.perf_counter()
    with data.server(out) as (address, process):
        yield "from the command to the address", 1000 * (time.perf_counter() - began)
        yield f"first list of {episodes:,} episodes, server", _first(f"{address}api/episodes")
        yield "list again, server", _asked(f"{address}api/episodes")
        yield "filter by text, server", _asked(f"{address}api/episodes?q=task-000123")
        where = "reward%20%3D%201%20AND%20agent_seconds%20%3E%20300"
        yield (
            "filter by expression, sorted, server",
            _asked(f"{address}api/episodes?where={where}&sort=agent_seconds&down=1"),
        )
        with _page() as page:
            if page is not None:
                yield (
                    "list in Chromium",
                    _timed(lambda: (page.goto(address), page.locator("tbody tr").first.wait_for())),
                )
                yield "filter in Chromium", _timed(lambda: _filtered(page))
        yield f"peak of the server's memory, MB ({episodes:,} episodes)", _peak(process)


def _of_long(out: Path, tokens: int) -> Iterator[tuple[str, float]]:
    with data.server(out) as (address, process):
        urlopen(f"{address}api/start").read()
        yield (
            f"first tokens of {tokens:,}, server",
            _first(f"{address}api/episode?id=long-0")
            + _asked(f"{address}api/tokens?id=long-0&stop=2000"),
        )
        with _page() as page:
            if page is not None:
                page.goto(address)
                page.locator("tbody a").nth(1).wait_for()
                yield (
                    f"first token of {tokens:,} in Chromium",
                    _timed(
                        lambda: (
                            page.evaluate("location.hash = '#/episode?id=long-1'"),
                            page.locator(".t").first.wait_for(),
                        )
                    ),
                )
                for pixels in (40, 400, 4000):
                    n, longest, end = page.evaluate(FRAMES, [pixels, 4000])
                    yield f"longest of {n} frames, {pixels} pixels each, to {end:,.0f}", longest
                yield (
                    "to the last token in Chromium",
                    _timed(
                        lambda: (page.keyboard.press("End"), page.locator(".t:focus").wait_for())
                    ),
                )
        yield f"peak of the server's memory, MB ({tokens:,} tokens)", _peak(process)


def _filtered(page: Any) -> None:
    page.locator("[name=q]").fill("task-000123")
    page.keyboard.press("Enter")
    page.locator("#found", has_text=" of ").wait_for()


@contextmanager
def _page() -> Iterator[Any]:
    """A page of the system's Chromium, None where there is none or Playwright is missing."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        yield None
        return
    with launched() as browser:
        yield browser and browser.new_page(viewport={"width": 1280, "height": 800})


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - began)


def _first(address: str) -> float:
    return _timed(lambda: urlopen(address).read())


def _asked(address: str) -> float:
    """The median of a few."""
    return sorted(_first(address) for _ in range(REPEATS))[REPEATS // 2]


def _peak(process: int) -> float:
    """Of a process in MB; NaN where the system does not say it."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return float("nan")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


if __name__ == "__main__":
    main()
