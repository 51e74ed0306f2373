"""The list of episodes: filters, sorting, addresses, and keys alone."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import PATIENCE, Open
from tests.shards.generated import lawful, write_dataset
from tests.view import data

expect.set_options(timeout=PATIENCE)


def rows(real: tuple[Path, Path]) -> list[dict[str, object]]:
    columns = ["episode_id", "trial_name", "stop_reason", "output_tokens", "task_id", "issues"]
    found: list[dict[str, object]] = pq.read_table(real[0] / "parts", columns=columns).to_pylist()
    return found


def names(page: Page) -> list[str]:
    return page.locator("tbody td.trial_name a").all_inner_texts()


@pytest.mark.parametrize("ending", ["budget", "submitted", "session_died"])
def test_a_filter_leaves_what_pyarrow_counts(
    opened: Open, address: str, real: tuple[Path, Path], ending: str
) -> None:
    page = opened(address)
    page.locator("select[name=stop_reason]").select_option(ending)
    wanted = sum(row["stop_reason"] == ending for row in rows(real))
    expect(page.locator("#found")).to_have_text(f"{wanted} of 53 episodes")
    expect(page.locator("tbody tr")).to_have_count(wanted)
    assert f"stop_reason={ending}" in page.url


def test_filters_together_and_an_address_for_them(opened: Open, address: str) -> None:
    page = opened(address, "/?grade=passed&q=csv&sort=output_tokens&down=1")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Sampled ↓")
    tokens = page.locator("tbody td.output_tokens").all_inner_texts()
    numbers = [int(text.replace(",", "")) for text in tokens]
    assert numbers == sorted(numbers, reverse=True)
    assert set(page.locator("tbody td.passed").all_inner_texts()) == {"passed"}
    page.get_by_role("button", name="Sampled").click()
    expect(page.locator("th[aria-sort]")).to_have_count(0)
    page.go_back()
    expect(page.locator("th[aria-sort=descending]")).to_have_count(1)


def test_an_expression_and_what_is_wrong_with_one(opened: Open, address: str) -> None:
    page = opened(address, may="status of 400")
    page.get_by_label("SQL expression").fill("total_tokens > 3000 AND n_calls >= 3")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_contain_text("of 53 episodes")
    page.get_by_label("SQL expression").fill("no_column > 1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("expected a condition")
    page.get_by_label("SQL expression").fill("")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_have_text("53 episodes")


def test_keys_alone(opened: Open, address: str, real: tuple[Path, Path]) -> None:
    """From the list to a token, to the files, to a comparison, and back, without a mouse."""
    page = opened(address)
    expect(page.locator("tbody tr")).to_have_count(53)
    press = page.keyboard.press
    press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next, previous episode")
    press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    press("/")
    page.keyboard.type("KQDabkX")
    press("Enter")
    expect(page.locator("#found")).to_have_text("1 of 53 episodes")
    press("Escape")
    press("x")
    expect(page.locator("#found")).to_have_text("53 episodes")
    press("j")
    press("j")
    press("k")
    expect(page.locator("tbody a").first).to_be_focused()
    press("m")
    expect(page.get_by_role("status").first).to_contain_text("Marked")
    press("Enter")
    expect(page.locator("h1")).to_have_text(str(rows(real)[0]["trial_name"]))
    expect(page.locator("#news")).to_be_empty()
    press("j")
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "825")
    press("3")
    page.locator("[data-path='result.json']").wait_for()
    press("Escape")
    expect(page.locator("tbody a").first).to_be_focused()
    press("j")
    press("d")
    expect(page.locator("h1")).to_have_text("Two episodes")
    press("f")
    expect(page.locator(".t.differs")).to_have_count(2)
    press("g")
    press("s")
    expect(page.locator("h1")).to_contain_text("Numbers")


@pytest.fixture(scope="module")
def many(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    out = tmp_path_factory.mktemp("many") / "out"
    write_dataset(out, [[lawful(f"trial-{n:04d}", group_id=f"g{n // 4}") for n in range(250)]])
    with data.serving(out) as address:
        yield address


def test_pages_of_a_long_list(opened: Open, many: str) -> None:
    page = opened(many)
    expect(page.locator("#found")).to_have_text("250 episodes")
    expect(page.locator("tbody tr")).to_have_count(100)
    page.keyboard.press("]")
    expect(page.locator("tbody a").first).to_have_text("trial-0100")
    page.keyboard.press("]")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.keyboard.press("]")
    assert "page=2" in page.url
    page.get_by_role("link", name="‹ previous").click()
    expect(page.locator("tbody a").first).to_have_text("trial-0100")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.reload()
    expect(page.locator("tbody a").nth(1)).to_be_focused()
    page.locator("select[name=group_id]").select_option("g3")
    expect(page.locator("#found")).to_have_text("4 of 250 episodes")
    assert names(page) == [f"trial-{n:04d}" for n in range(12, 16)]


def test_keys_pressed_while_a_page_is_drawn_are_not_lost(opened: Open, many: str) -> None:
    """The answers are held back until the keys are pressed: whatever the machine's pace."""
    page = opened(many)
    expect(page.locator("tbody tr")).to_have_count(100)
    held: list[Route] = []
    page.route("**/api/episodes?*", lambda route: held.append(route))

    def let_through() -> None:
        while not held:
            page.wait_for_timeout(20)
        held.pop().continue_()

    for key in ("]", "]", "j", "j"):  # pages, then the second of its episodes
        page.keyboard.press(key)
    let_through()
    let_through()
    expect(page.get_by_role("link", name="trial-0201")).to_be_focused()
    for key in ("[", "/", *"0007", "Enter", "j", "m"):
        page.keyboard.press(key)
    let_through()
    let_through()
    expect(page.locator("#found")).to_have_text("1 of 250 episodes")
    expect(page.get_by_role("link", name="trial-0007")).to_be_focused()
    expect(page.locator("tr.marked")).to_contain_text("marked")
    for key in ("x", "j", "Enter"):  # to all, to its first, and into that
        page.keyboard.press(key)
    let_through()
    expect(page.locator("h1")).to_have_text("trial-0000")


def test_the_marked_row_is_seen(opened: Open, many: str) -> None:
    page = opened(many)
    page.locator("tbody a").nth(2).focus()
    page.keyboard.press("m")
    expect(page.locator("tr.marked")).to_have_text(re.compile("^markedtrial-0002"))
    page.keyboard.press("]")
    expect(page.locator("tbody a").first).to_have_text("trial-0100")
    expect(page.locator("tr.marked")).to_have_count(0)
    page.keyboard.press("[")
    expect(page.locator("tr.marked a")).to_have_text("trial-0002")
    page.locator("tbody a").nth(2).focus()
    page.keyboard.press("m")
    expect(page.locator("tr.marked")).to_have_count(0)
    page.keyboard.press("d")
    expect(page.locator("tbody tr")).to_have_count(100)


def test_the_end_of_a_long_name_is_seen(opened: Open, browser: Browser, tmp_path: Path) -> None:
    """Which tells it apart from the others; the whole of it is where the mouse rests."""
    long = [f"organisation/{'a' * 80}-{end}" for end in ("first", "other")]
    records = [lawful(f"{'t' * 90}-{task[-5:]}", task_id=task) for task in long]
    write_dataset(tmp_path / "out", [records])
    with data.serving(tmp_path / "out") as address:
        for width in (390, 1280):
            page = opened(address, width=width)
            for at, record in enumerate(records):
                cells = [page.locator("tbody td.trial_name").nth(at)]
                if width > 900:
                    cells.append(page.locator("tbody td.task_id").nth(at))
                for cell, name in zip(cells, (record.trial_name, record.task_id), strict=False):
                    assert cell.text_content() == name
                    expect(cell).to_have_attribute("title", str(name))
                    end, whole = cell.locator(".end").bounding_box(), cell.bounding_box()
                    assert end is not None
                    assert whole is not None
                    assert end["x"] >= whole["x"]
                    assert end["x"] + end["width"] <= whole["x"] + whole["width"] + 1
        expect(page.get_by_role("link", name=records[0].trial_name)).to_have_count(1)
        options = page.locator("select[name=task_id] option").all_text_contents()
        assert [text.endswith("-first (1)") for text in options[1:]] == [True, False]


def test_a_build_goes_on_while_one_looks(opened: Open, browser: Browser, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with data.serving(out) as address:
        page = opened(address)
        expect(page.get_by_role("heading", name="Nothing is committed yet")).to_be_visible()
        write_dataset(out / ".staging-1", [[lawful("one")]])
        (out / ".staging-1" / "manifest.json").unlink()
        expect(page.get_by_text("A build has finished 1 part file.")).to_be_visible()
        write_dataset(out, [[lawful("one"), lawful("two")]])
        expect(page.locator("tbody tr")).to_have_count(2)
        page.keyboard.press("j")
        page.keyboard.press("j")
        expect(page.locator("tbody a").nth(1)).to_be_focused()
        (out / "manifest.json").unlink()
        write_dataset(out, [[lawful(name) for name in ("new", "one", "two", "zoo")]])
        expect(page.get_by_role("status").first).to_contain_text("4 episodes, 2 more")
        expect(page.locator("tbody tr")).to_have_count(4)
        expect(page.get_by_role("link", name="two")).to_be_focused()
        expect(page.locator("select[name=stop_reason]")).to_have_count(0)
        ended = [lawful("one"), lawful("two", stop_reason="budget")]
        write_dataset(out, [ended])
        page.locator("select[name=stop_reason]").select_option("budget")
        expect(page.locator("#found")).to_have_text("1 of 2 episodes")
