"""One episode: what is shown of a token is what pyarrow reads, by mouse and by keys."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE, Open
from tests.browser.test_pages import episode_with
from tests.view import data

expect.set_options(timeout=PATIENCE)


def facts(page: Page) -> dict[str, str]:
    """What is said of the token that was pointed at, as its values."""
    pairs: list[list[str]] = page.locator("#token dd").evaluate_all(
        "all => all.map(e => [e.dataset.field, e.dataset.value])"
    )
    return dict(pairs)


def sequence(real: tuple[Path, Path], number: int) -> dict[str, Any]:
    row: dict[str, Any] = pq.read_table(real[1] / "parts").slice(number, 1).to_pylist()[0]
    return row


@pytest.fixture
def first(real: tuple[Path, Path]) -> dict[str, Any]:
    """A sequence that begins its episode, so that its positions are those of the page."""
    return sequence(real, 0)


def test_hover_and_focus_show_what_pyarrow_reads(
    opened: Open, address: str, first: dict[str, Any]
) -> None:
    page = opened(address, f"/episode?id={first['episode_id']}")
    for start, length in zip(first["call_starts"], first["call_lengths"], strict=True):
        for at in (start - 1, start, start + length - 1):
            page.goto(f"{address}#/episode?id={first['episode_id']}&token={at}")
            page.reload()
            token = page.locator(f".t[data-p='{at}']")
            expect(token).to_be_focused()
            focused = facts(page)
            page.locator(f".t[data-p='{at - 1}']").hover()
            assert facts(page)["id"] == str(first["token_ids"][at - 1])
            token.hover()
            assert facts(page) == focused
            assert focused["id"] == str(first["token_ids"][at])
            assert focused["mask"] == json.dumps(first["loss_mask"][at])
            recorded = first["sampled_logprobs"][at]
            assert (float(focused["logprob"]) if focused["logprob"] else None) == recorded
            again = first["rescored_logprobs"][at]
            for field, wanted in (
                ("teacher", first["teacher_logprobs"][at]),
                ("rescored", again),
                ("advantage", first["advantages"][at]),
            ):
                assert float(focused[field]) == wanted
            if recorded is not None:
                ratio = math.exp(again - recorded)
                assert float(focused["ratio"]) == pytest.approx(ratio, rel=1e-12)
            assert focused["sequence"] == first["datum_id"]
            assert focused["version" if at >= start else "call"] in ("17", "0", "1", "2", "3", "4")


def test_text_and_ids(opened: Open, address: str, first: dict[str, Any]) -> None:
    page = opened(address, f"/episode?id={first['episode_id']}&token=0")
    start = page.locator(".t[data-p='0']")
    expect(start).to_have_text("<|im_start|>")
    expect(start).to_have_class("t special ")
    page.keyboard.press("t")
    expect(start).to_have_text(str(first["token_ids"][0]))
    assert "view=ids" in page.url
    page.reload()
    expect(start).to_have_text(str(first["token_ids"][0]))
    page.get_by_role("button", name="ids", exact=True).click()
    expect(start).to_have_text("<|im_start|>")


def test_colours(opened: Open, address: str, first: dict[str, Any]) -> None:
    at = first["call_starts"][0]
    page = opened(address, f"/episode?id={first['episode_id']}&token={at}")
    token = page.locator(f".t[data-p='{at}']")
    choices = page.locator("#colour option").all_inner_texts()
    assert choices == [
        "no colour", "log-probability", "advantage", "loss mask", "policy version",
        "recorded − re-scored", "teacher − recorded",
    ]  # fmt: skip
    expect(page.locator("#colour")).to_have_value("logprob")
    for name, kinds in (
        ("mask", ("trained",)), ("version", ("version0",)),
        ("advantage", ("zero", *(f"{way}{n}" for way in ("up", "down") for n in (1, 2, 3, 4)))),
        ("teacher", ("zero", *(f"{way}{n}" for way in ("up", "down") for n in (1, 2, 3, 4)))),
        ("rescored", ("zero", *(f"{way}{n}" for way in ("up", "down") for n in (1, 2, 3, 4)))),
        ("logprob", tuple(f"low{n}" for n in range(8))),
    ):  # fmt: skip
        page.locator("#colour").select_option(name)
        assert (token.get_attribute("class") or "").split()[-1] in kinds
        assert f"colour={name}" in page.url
    page.locator(".panel .legend li").first.wait_for()


def test_the_heading_counts_as_the_list_does(
    opened: Open, address: str, real: tuple[Path, Path]
) -> None:
    """The calls of the main chat, and next to them those of others: 7 and 3 here."""
    episode = episode_with(real, "summarized")
    rows = pq.read_table(real[0] / "parts").to_pylist()
    row = next(row for row in rows if row["episode_id"] == episode)
    others = len(row["spans"]) - row["n_calls"]
    assert others > 0
    heading = opened(address, f"/episode?id={episode}").locator(".heading p").first
    expect(heading).to_contain_text(
        f"{row['n_calls']} calls · {row['output_tokens']} sampled · {others} calls in other chats"
    )


def test_breaks_calls_and_the_least_likely_tokens(
    opened: Open, address: str, real: tuple[Path, Path]
) -> None:
    episode = episode_with(real, "retokenized")
    page = opened(address, f"/episode?id={episode}")
    page.locator(".t").first.wait_for()
    page.keyboard.press("b")
    expect(page.locator(".t:focus")).to_be_visible()
    assert facts(page)["break"] == "retokenized"
    expect(page.locator(".break").first).to_contain_text("retokenized")
    page.keyboard.press("k")
    page.keyboard.press("u")
    row = next(
        row for row in pq.read_table(real[0] / "parts").to_pylist() if row["episode_id"] == episode
    )
    lowest = min(x for s in row["spans"] for x in s["sampled_logprobs"] or [] if x is not None)
    expect(page.locator("#token dd[data-field=logprob]")).to_have_attribute(
        "data-value", str(lowest)
    )
    page.keyboard.press("2")
    page.locator(".panel").get_by_role("button", name="call 1:").last.click()
    expect(page.locator(".t:focus")).to_be_visible()
    page.get_by_role("tab", name="Token").click()
    assert facts(page)["call"] == "1"
    page.locator(".kept button").first.click()
    expect(page.locator(".t:focus")).to_be_visible()
    assert int(facts(page)["call"]) == 0


def test_two_attempts_next_to_each_other(
    opened: Open, address: str, real: tuple[Path, Path]
) -> None:
    table = pq.read_table(real[1] / "parts", columns=["episode_id", "task_id", "token_ids"])
    same = [r for r in table.to_pylist() if r["task_id"] == "terminal-bench/csv-totals"][:2]
    a, b = (one["token_ids"] for one in same)
    differs = next(at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    page = opened(address, f"/episode?id={same[0]['episode_id']}")
    page.locator("#others").select_option(same[1]["episode_id"])
    page.locator("#first-difference").click()
    expect(page.locator(".t.differs")).to_have_count(2)
    for side, ids in enumerate((a, b)):
        token = page.locator(".half").nth(side).locator(".t.differs")
        expect(token).to_have_attribute("data-p", str(differs))
        token.hover()
        assert facts(page)["id"] == str(ids[differs])


def test_the_trial_s_own_files(opened: Open, address: str, first: dict[str, Any]) -> None:
    page = opened(address, f"/episode?id={first['episode_id']}&tab=files")
    page.locator("[data-path='verifier/reward.txt']").click()
    expect(page.locator("pre.file")).to_have_text("1\n")
    assert "file=verifier" in page.url
    page.reload()
    expect(page.locator("pre.file")).to_have_text("1\n")
    page.locator("[data-path='result.json']").click()
    page.get_by_role("button", name="Read on").click()
    path = next(data.TRIALS.glob(f"**/{first['trial_name']}/result.json"))
    expect(page.locator("pre.file")).to_contain_text(path.read_text()[70_000:70_100])


def test_text_that_means_harm_is_text(opened: Open, browser: Browser, tmp_path: Path) -> None:
    out, tokenizer = data.odd(tmp_path)
    with data.serving(out, "--tokenizer", tokenizer) as address:
        page = opened(address)
        expect(page.locator("tbody tr")).to_have_count(len(data.ODD))
        expect(page.locator("tbody a").first).to_have_text(data.ODD[0])
        page.locator("tbody a").first.click()
        expect(page.locator(".t").first).to_have_text(data.ODD[0])
        for tab in ("2", "3", "4", "1"):
            page.keyboard.press(tab)
            page.wait_for_load_state("networkidle")
        for _ in range(12):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("3")
        page.locator("[data-path='agent/long.txt']").click()
        while page.get_by_role("button", name="Read on").is_visible():
            before = page.locator("pre.file").evaluate("e => e.textContent.length")
            page.get_by_role("button", name="Read on").click()
            page.wait_for_function(
                "n => document.querySelector('pre.file').textContent.length > n", arg=before
            )
        expect(page.locator("pre.file")).to_contain_text("\\xed\\xa0\\x80")
        for state in ("/stats", "/?q=script", f"/compare?a={data.ODD[0][:40]} 0&b=nobody"):
            page = opened(address, state, may="status of 404")
            page.wait_for_load_state("networkidle")
            text = page.locator("body").inner_text()
            assert not any(mark in text for mark in "\x1b\u202e\u2066")
            assert page.evaluate("window.harmed === undefined")
            assert page.locator("script").count() == 1
            assert page.locator("main img").count() == 0


def test_a_tokenizer_of_another_model_is_named(
    opened: Open, browser: Browser, real: tuple[Path, Path], tmp_path: Path
) -> None:
    _, tokenizer = data.odd(tmp_path)
    with data.serving(real[0], "--tokenizer", tokenizer) as address:
        page = opened(address, f"/episode?id={sequence(real, 0)['episode_id']}")
        expect(page.locator(".warning")).to_contain_text("cannot be the one of these ids")
        expect(page.locator(".t").first).to_have_text("100264")
