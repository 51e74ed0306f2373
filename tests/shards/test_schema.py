"""The schema of a version is what it was: a change of a column needs a new version."""

import re
from pathlib import Path

import pyarrow as pa

from wmo_distill.datums.table import DATUM_COLUMNS
from wmo_distill.issues import Issue
from wmo_distill.records import StopReason
from wmo_distill.shards.columns import (
    BOOL,
    FLOAT,
    TEXT,
    TIME,
    column,
    columns_table,
    list_of,
    struct_of,
    type_name,
)
from wmo_distill.shards.schema import (
    COLUMNS,
    LEDGER_COLUMNS,
    LEDGER_SCHEMA,
    SCHEMA,
    SCHEMA_VERSION,
    SEGMENT_FIELDS,
    SPAN_FIELDS,
    VERSION_KEY,
    Group,
)

GOLDEN = Path(__file__).parents[2] / "fixtures" / "schema"


def described(schema: pa.Schema) -> str:
    lines = [f"{f.name} {f.type}{'?' if f.nullable else ''}" for f in schema]
    return "\n".join(lines) + "\n"


def test_records_golden() -> None:
    assert described(SCHEMA) == (GOLDEN / f"records-{SCHEMA_VERSION}.txt").read_text()


def test_ledger_golden() -> None:
    assert described(LEDGER_SCHEMA) == (GOLDEN / f"ledger-{SCHEMA_VERSION}.txt").read_text()


def test_the_version_is_in_the_metadata() -> None:
    for schema in (SCHEMA, LEDGER_SCHEMA):
        assert schema.metadata == {VERSION_KEY: str(SCHEMA_VERSION).encode()}


def test_every_group_has_columns_and_every_name_is_one() -> None:
    assert {column.group for column in COLUMNS} == set(Group)
    assert [column.name for column in COLUMNS] == SCHEMA.names
    assert len(set(SCHEMA.names)) == len(COLUMNS)


def test_types_as_the_docs_write_them() -> None:
    assert type_name(list_of(FLOAT, nullable=True), True) == "list<float64?>?"
    assert type_name(TIME) == "timestamp[us, UTC]"
    shown = columns_table(
        [
            column("a?", list_of(struct_of([column("b?", TEXT)])), "odd", unit="s"),
            column("c", TEXT, "rows of", fields=(column("d?", BOOL, "flag"),)),
        ]
    )
    assert shown.splitlines()[2:] == [
        "| `a` | list<struct<b: string?>>?, s | odd |",
        "| `c` | list<struct> | rows of |",
        "| `c.d` | bool? | flag |",
    ]


def test_every_column_says_what_it_means_and_names_its_words() -> None:
    """The stop reasons and the issues have tables of their own."""
    columns = [*COLUMNS, *SPAN_FIELDS, *SEGMENT_FIELDS, *LEDGER_COLUMNS, *DATUM_COLUMNS]
    for one in columns:
        assert one.meaning, one.name
        if one.words not in (None, StopReason, Issue):
            assert {f"`{word}`" for word in one.words} <= set(re.findall("`.*?`", one.meaning))
