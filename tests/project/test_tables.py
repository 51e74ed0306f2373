"""The one renderer of tables: alignment, rows that say nothing, and names that are not ours."""

import pytest

from wmo_distill.report.tables import Row, counts, page, section, size, table


def test_numbers_are_to_the_right_and_words_to_the_left() -> None:
    rows: list[Row] = [("a", 1, "x", "0.5"), ("bcd", 12345, "yz", "[0.1, 0.9]")]
    assert table(rows) == "  a         1  x          0.5\n  bcd  12,345  yz  [0.1, 0.9]"


def test_one_word_makes_a_column_of_words() -> None:
    assert table([("a", 1), ("b", "none"), ("c", 200)]) == "  a  1\n  b  none\n  c  200"


def test_the_first_column_is_names() -> None:
    assert table([(1, 2), (100, 3)]) == "  1    2\n  100  3"


def test_a_head_is_aligned_as_its_column() -> None:
    text = table([("t", 7, "w")], head=("task", "records", "why"), indent="")
    assert text == "task  records  why\nt           7  w"


def test_a_row_without_a_value_is_left_out_and_a_line_is_not() -> None:
    rows: list[Row] = [("a", None), ("b", ""), ("c", 0), ("d", None, "note"), ["and 3 more"]]
    assert table(rows).splitlines() == ["  c           0", "  d              note", "  and 3 more"]


def test_nothing_is_no_table_and_no_title() -> None:
    assert table([], head=("a", "b")) == section("Title", [("a", "")]) == ""
    assert page("", section("A", [("a", 1)]), "", "b") == "A\n  a  1\n\nb\n"


def test_no_control_character_gets_through() -> None:
    text = section("t\x1b", [("a\n", "b\x07")], head=("c\r", "d"))
    assert text == "t\\x1b\n  c\\r  d\n  a\\n  b\\x07"


def test_counts_are_the_most_frequent_first() -> None:
    assert counts({"b": 1, "c": 1000, "a": 1}) == "c 1,000, a 1, b 1"


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (11_300_000, "11.3 MB")]
)
def test_sizes(n: int, text: str) -> None:
    assert size(n) == text
