"""The page: every number is that of `stats --json`, and nothing on it needs anything else."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import Report, stats
from tests.page.reading import Element, at, keyed, shown_as, tree
from wmo_distill.page.provenance import facts
from wmo_distill.shards.manifest import read_manifest

Case = tuple[str, Any]


@pytest.fixture(scope="module", params=["dataset", "datums", "both", "where", "some"])
def case(
    request: pytest.FixtureRequest, report: Report, dataset: Path, before: Path, datums: Path
) -> Case:
    """A page, and what `stats --json` says with the same arguments."""
    if request.param == "both":
        return report(before, dataset), stats(before, dataset)
    if request.param == "datums":
        return report(datums), stats(datums)
    if request.param == "some":
        where = "weight > 0.5"
        return report(datums, where=where), stats(datums, "--where", where)
    if request.param == "where":
        page = report(dataset, where="n_calls > 1", max_tokens=100, by=("stop_reason",))
        flags = ("--where", "n_calls > 1", "--max-tokens", 100, "--by", "stop_reason")
        return page, stats(dataset, *flags)
    return report(dataset), stats(dataset)


def test_every_number_is_that_of_stats(case: Case) -> None:
    page, json = case
    numbers = keyed(tree(page))
    assert len(numbers) > 100
    for path, value, shown in numbers:
        assert value == at(json, path), path
        if value is None:
            assert shown == "–"
        else:
            assert shown_as(shown) == pytest.approx(value, rel=5e-4, abs=5e-4), path


def test_no_number_in_a_table_is_without_its_path(case: Case) -> None:
    """Words may hold digits: names, meanings, options."""
    root = tree(case[0])
    tables = root.all("table")
    assert len(tables) > 10
    for table in tables:
        for cell in table.all("td"):
            if cell.attributes.get("class") != "w":
                assert not re.search(r"\d", cell.text(without=("data-key",))), cell.text()
        for cell in table.all("tbody")[0].all("th"):
            rest = cell.text(without=("data-key", "data-text"))
            assert not re.search(r"\d(?! ?%|\d)", rest), rest


def test_the_first_numbers_of_the_issue_are_there(case: Case) -> None:
    page, json = case
    paths = {path for path, _, _ in keyed(tree(page))}
    sides = ["a.", "b."] if "a" in json else [""]
    for side in sides:
        for name in at(json, f"{side}distributions"):
            assert f"{side}distributions.{name}.p50" in paths
        assert f"{side}solve_rate.value" in paths
    assert {"differences.0.difference", "paired.mean_difference"} <= paths or "a" not in json


def test_every_chart_has_its_denominator_and_its_numbers(case: Case) -> None:
    figures = tree(case[0]).all("figure")
    assert len(figures) > 5
    for figure in figures:
        (caption,) = figure.all("figcaption")
        assert keyed(caption), caption.text()
        assert len(figure.all("table")) == 1
        assert keyed(figure.all("table")[0])


def test_the_page_needs_nothing_else(case: Case) -> None:
    page, _ = case
    root = tree(page)
    tags = {one.tag for one in root.all()}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "base", "form"})
    (policy,) = (
        one.attributes["content"]
        for one in root.all("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    for one in root.all():
        assert not [name for name in one.attributes if name.startswith("on")]
        assert {"src", "srcset", "xlink:href", "action"}.isdisjoint(one.attributes)
        assert str(one.attributes.get("href", "#")).startswith("#")
        assert "url(" not in str(one.attributes.get("style", ""))
    (style,) = root.all("style")
    assert not re.search(r"url\(|@import|@font-face|https?:", style.text())
    assert len(page.encode()) < 1_000_000


def test_the_page_is_one_for_all_readers(case: Case) -> None:
    root = tree(case[0])
    assert [one.attributes for one in root.all("html")] == [{"lang": "en"}]
    ids = [one.attributes["id"] for one in root.all() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    links = [str(one.attributes["href"])[1:] for one in root.all("a")]
    assert links[0] == "content"
    assert set(links) <= set(ids)
    assert len(root.all("h1")) == len(root.all("main")) == 1
    assert len(root.all("head")[0].all("title")) == 1
    for table in root.all("table"):
        assert len(table.all("caption")) == 1
        assert {th.attributes["scope"] for th in table.all("th")} <= {"col", "row"}
        widths = {len(row.all("th") + row.all("td")) for row in table.all("tr")}
        assert len(widths) == 1, table.all("caption")[0].text()
        assert all(cell.text().strip() for cell in table.all("thead")[0].all("th"))


def test_charts_are_of_the_colours_of_the_page(case: Case) -> None:
    root = tree(case[0])
    charts = root.all("svg")
    assert charts
    for chart in charts:
        _is_named(chart)
        for one in chart.all():
            for name in ("fill", "stroke"):
                assert re.fullmatch(r"none|var\(--[a-z0-9]+\)", one.attributes.get(name) or "none")
            assert "NaN" not in str(one.attributes)


def _is_named(chart: Element) -> None:
    assert chart.attributes["role"] == "img"
    for name, tag in (("aria-labelledby", "title"), ("aria-describedby", "desc")):
        (one,) = (x for x in chart.inside if isinstance(x, Element) and x.tag == tag)
        assert one.attributes["id"] == chart.attributes[name]
        assert one.text().strip()


def test_the_same_bytes_each_time(report: Report, before: Path) -> None:
    assert report(before) == report(before)


def test_options_and_versions_are_those_of_the_manifest(report: Report, dataset: Path) -> None:
    found = {
        one.attributes["data-manifest"]: one.text()
        for one in tree(report(dataset)).all("code")
        if "data-manifest" in one.attributes
    }
    manifest = read_manifest(dataset)
    assert found == dict(facts(manifest))
    assert found["dataset_hash"] == manifest.dataset_hash
    assert found["options.declare"] == '{"policy_version": "step-7", "train_step": 7}'
