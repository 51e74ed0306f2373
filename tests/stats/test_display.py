"""What a notebook shows of records and of `scan`: useful, and safe whatever a trial is named."""

from html.parser import HTMLParser
from pathlib import Path

import polars as pl

from tests.shards.generated import lawful, long_chat, write_dataset
from wmo_distill.records import TrialRecord
from wmo_distill.shards.scan import iter_records, scan

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e\ud800&\"'" + "x" * 1_000_000
TAGS = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}


class Seen(HTMLParser):
    """What a browser would make of it: its elements, their attributes, its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[object] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_a_hostile_record_is_shown_as_text() -> None:
    record = TrialRecord(trial_name=HOSTILE, task_id=HOSTILE, note=HOSTILE, agent_name="a&b")
    page = record._repr_html_()
    seen = Seen(page)
    assert seen.tags <= TAGS
    assert seen.attributes == []
    assert r"<script>alert(1)</script>\x1b[2J\u202e\ud800&" in seen.text
    assert "a&b" in seen.text
    assert not set("\x1b\u202e\ud800") & set(page)
    assert len(page) < 5_000
    page.encode()


def test_a_record_shows_its_first_calls() -> None:
    text = Seen(lawful("t", spans=long_chat(30, 2))._repr_html_()).text.split("\n")
    assert "and 10 more" in text
    assert "60 fed in, 60 sampled" in text


def test_scan_shows_the_dataset_and_what_is_made_of_it_its_plan(tmp_path: Path) -> None:
    out = tmp_path / "<script>x"
    write_dataset(out, [[lawful("a"), lawful("b", stop_reason="budget")]])
    frame = scan(out)
    seen = Seen(frame._repr_html_())
    assert seen.tags <= TAGS
    assert "Dataset <script>x" in seen.text
    assert "budget 1, submitted 1" in seen.text
    made = frame.filter(pl.col("stop_reason") == "budget")
    assert "Dataset" not in made._repr_html_()
    assert made.select("episode_id").collect().rows() == [("b",)]
    assert pl.concat([frame, made]).select(pl.len()).collect().item() == 3
    assert isinstance(frame, pl.LazyFrame)
    assert len(list(iter_records(out))) == 2
