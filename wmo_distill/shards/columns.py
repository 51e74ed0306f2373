"""A column is declared once: its schema, how its values are read and checked, and its docs."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

TEXT = pa.string()
INT32 = pa.int32()
INT64 = pa.int64()
FLOAT = pa.float64()
BOOL = pa.bool_()
TIME = pa.timestamp("us", tz="UTC")

Words = type[StrEnum]
_NAMES = {FLOAT: "float64", BOOL: "bool", TIME: "timestamp[us, UTC]"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, or a field of a struct."""

    name: str
    type: pa.DataType
    nullable: bool
    group: str
    """What it is about; for a record it decides where its value is."""
    meaning: str
    unit: str | None = None
    words: Words | None = None
    """The vocabulary of its text, or of the elements of its list."""
    fields: tuple["Column", ...] = ()
    """Of the structs that it is a list of."""

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, nullable=self.nullable)


def column(
    name: str, of: pa.DataType, meaning: str = "", *, group: str = "", **more: Any
) -> Column:
    """A column; a `?` at the end of its name says that it may be null."""
    return Column(name.removesuffix("?"), of, name.endswith("?"), group, meaning, **more)


def list_of(of: pa.DataType, *, nullable: bool = False) -> pa.DataType:
    """Lists; `nullable` is about their elements."""
    return pa.list_(pa.field("element", of, nullable=nullable))


def struct_of(columns: Iterable[Column]) -> pa.DataType:
    return pa.struct([column.field for column in columns])


TEXTS = list_of(TEXT)
IDS = list_of(INT32)
LOGPROBS = list_of(FLOAT, nullable=True)


def schema_of(columns: Iterable[Column], version_key: bytes, version: int) -> pa.Schema:
    """The Arrow schema of these columns, with its version in the metadata."""
    metadata = {version_key: str(version).encode()}
    return pa.schema([column.field for column in columns], metadata=metadata)


def type_name(of: pa.DataType, nullable: bool = False) -> str:
    """A type as the docs write it: `list<int32>?` may be null."""
    if pa.types.is_list(of):
        name = f"list<{type_name(of.value_type, of.value_field.nullable)}>"
    elif pa.types.is_struct(of):
        fields = (f"{field.name}: {type_name(field.type, field.nullable)}" for field in of)
        name = f"struct<{', '.join(fields)}>"
    else:
        name = _NAMES.get(of, str(of))
    return name + "?" * nullable


def columns_table(columns: Iterable[Column]) -> str:
    """The columns as a table in Markdown, with the fields of structs below their column."""
    lines = ["| column | type | meaning |", "| --- | --- | --- |"]
    for column in columns:
        kind = "list<struct>" if column.fields else type_name(column.type, column.nullable)
        unit = f", {column.unit}" if column.unit else ""
        lines.append(f"| `{column.name}` | {kind}{unit} | {column.meaning} |")
        for field in column.fields:
            kind = type_name(field.type, field.nullable)
            lines.append(f"| `{column.name}.{field.name}` | {kind} | {field.meaning} |")
    return "\n".join(lines)
