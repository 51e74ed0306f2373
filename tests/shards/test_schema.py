"""The schema of a version is what it was: a change of a column needs a new version."""

from pathlib import Path

import pyarrow as pa

from wmo_distill.shards.schema import (
    COLUMNS,
    LEDGER_SCHEMA,
    SCHEMA,
    SCHEMA_VERSION,
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
