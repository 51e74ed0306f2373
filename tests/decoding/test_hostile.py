"""Names and tokens that would take over a terminal or a page are shown, and nothing else."""

import re
from html.parser import HTMLParser
from itertools import islice

import numpy as np
import pytest

from tests.decoding.makers import byte_level, saved
from wmo_distill.decoding import Decoder, load
from wmo_distill.page.episode import episode_page
from wmo_distill.records import SegmentInfo, TrialRecord
from wmo_distill.report.record import render_record
from wmo_distill.report.tokens import token_lines
from wmo_distill.tokens import TokenSpan
from wmo_distill.visible import visible

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;</pre></style>",
    "\x1b[2J\x1b]0;title\x07\x1b[31m\x9b31m\x00\x08\r\x7f",
    "\u202eabc\u202c\u2066\u200f\u061c\u2028\u2029\ufeff\U000e0041",
    "e\u0301 👩‍👩‍👧 中文 مرحبا",
)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return load(saved(byte_level(), tmp_path_factory.mktemp("tokenizer")))


def record_of(text: str, name: str) -> TrialRecord:
    """A chat whose prompt and completion are this text, and whose words are all this name."""
    ids = byte_level().encode(text).ids
    span = TokenSpan(
        0, ids, ids, np.full(len(ids), -3.0), finish_reason=name, versions=((name, 0),)
    )
    return TrialRecord(
        trial_name=name, task_id=name, step_name=name, artifact_dir=name, agent_name=name,
        note=name, spans=(span,), segments=(SegmentInfo(),), stop_reason=name,
    )  # fmt: skip


def harmless(text: str) -> bool:
    """Whether a terminal writes each character, and none does anything but a line's end."""
    return all(c.isprintable() or c in "\n\t" for c in text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("colour", [False, True])
def test_a_terminal(text: str, listed: bool, colour: bool, decoder: Decoder) -> None:
    record = record_of(text, text + "\udc80")
    for known in (decoder, None):
        lines = list(token_lines(record, known, colour=colour, listed=listed))
        shown = "\n".join(lines)
        assert harmless(COLOURS.sub("", shown) if colour else shown)
        assert not any("\n" in line for line in lines)
        shown.encode()
    assert harmless(render_record(record))
    plain = [line[4:] for line in token_lines(record, decoder, colour=False) if line[:4] == "  > "]
    assert "".join(plain) == visible(text)


class Elements(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()
        self.text: dict[str, str] = {}
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "pre":
            self._in = dict(attrs)["class"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in:
            self.text[self._in] = self.text.get(self._in, "") + data


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page(text: str, decoder: Decoder) -> None:
    record = record_of(text, text + "\udc80")
    page = "".join(episode_page([(record, decoder, None), (record, None, text)]))
    page.encode()
    assert harmless(page)
    elements = Elements()
    elements.feed(page)
    assert elements.found <= {
        "html", "head", "meta", "style", "title", "body", "main", "h1", "h2", "dl", "dt", "dd", "p",
        "section", "pre", "i", "b", "u",
    }  # fmt: skip
    assert elements.attributes <= {
        "lang", "charset", "http-equiv", "content", "name", "class", "title", "id", "role",
        "aria-label", "aria-labelledby",
    }  # fmt: skip
    assert elements.text["fed"].startswith(visible(text))
    assert elements.text["sampled"].startswith(visible(text))


def test_a_lone_surrogate_is_its_escape() -> None:
    assert visible("a\ud800\u202e\x1b\nb") == r"a\ud800\u202e\x1b\nb"
    assert visible("a\nb\t", "\n\t") == "a\nb\t"
    assert visible("é中😀") == "é中😀"


def test_a_line_of_a_million_characters_is_one_line(decoder: Decoder) -> None:
    letters = byte_level().encode("hello").ids * 200_000
    record = TrialRecord(spans=(TokenSpan(0, [1], letters),))
    (line,) = (x for x in token_lines(record, decoder, colour=False) if x.startswith("  > "))
    assert line == "  > " + "hello" * 200_000


def test_lines_are_made_as_they_are_asked_for(decoder: Decoder) -> None:
    """The first of many are there before the last are decoded."""
    asked = []

    class Counting(Decoder):
        def stream(self, ids):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            asked.append(len(ids))
            return super().stream(ids)

    spans = tuple(TokenSpan(k, [k], [k, 198]) for k in range(1000))
    counting = Counting("c", decoder.vocabulary)
    first = list(islice(token_lines(TrialRecord(spans=spans), counting, colour=False), 8))
    assert len(first) == 8
    assert len(asked) < 10


def test_what_is_not_recorded_is_said(decoder: Decoder) -> None:
    spans = (
        TokenSpan(0, [72], [72, 73], [-0.1, np.nan]),
        TokenSpan(1, [72, 72, 73, 74], None, used=False),
        TokenSpan(2, [75], [72], [-9999.0], finish_reason="length"),
        TokenSpan(3, [80], [81]),
    )
    shown = "\n".join(token_lines(TrialRecord(spans=spans), decoder, colour=True))
    assert "mean log-probability -0.1000 of 1 that are usable" in shown
    assert "sampled: not recorded, not used by the agent" in shown
    assert "no usable log-probability, ends length" in shown
    assert "no log-probabilities" in shown
    assert "break (truncated_turn): keeps 0 of the 2 tokens before" in shown
    assert "no call is recorded" in "\n".join(token_lines(TrialRecord(), None, colour=False))
