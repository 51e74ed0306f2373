"""`--where`: which rows an expression of polars' SQL chooses."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.errors import UsageError, names_like, shown
from wmo_distill.shards.where import refused

Read = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""The batches of all rows, of these columns."""

_FAULTS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_UNKNOWN = re.compile(r'unable to find column "(.+)"')


def _condition(where: str, schema: Mapping[str, Any]) -> pl.Expr:
    """An expression such as `reward < 1 AND n_calls > 20`, checked against the columns."""
    if why := refused(where):
        raise _refusal(where, why)
    with _refused(where, schema):
        expression = pl.sql_expr(where)
        found = pl.LazyFrame(schema=dict(schema)).select(expression).collect_schema().dtypes()
    if found != [pl.Boolean]:
        raise _fault(where, f"a value of type {', '.join(map(str, found))}", schema)
    return expression


def chosen(where: str, columns: pa.Schema, read: Read) -> NDArray[np.bool_]:
    """For each row whether `where` is true; it may look at all columns but those of tokens."""
    names = [f.name for f in columns if not _nested(f.type)]
    empty = pl.DataFrame(pl.from_arrow(columns.empty_table().select(names)))
    expression = _condition(where, empty.schema)
    wanted = list(dict.fromkeys(expression.meta.root_names())) or names[:1]
    frames = [pl.DataFrame(pl.from_arrow(batch)).select(wanted) for batch in read(wanted)]
    rows = pl.concat([empty.select(wanted), *frames]).with_row_index("\0")
    mask = np.zeros(rows.height, bool)
    # As a filter: as a column an OR of a thousand terms takes polars a minute.
    with _refused(where, empty.schema):
        mask[rows.filter(expression)["\0"].to_numpy()] = True
    return mask


@contextmanager
def _refused(where: str, columns: Iterable[str]) -> Iterator[None]:
    """UsageError for what polars finds wrong with `where`, some of it only in the rows."""
    try:
        yield
    except _FAULTS as error:
        raise _fault(where, str(error), columns) from None


def _nested(of: pa.DataType) -> bool:
    """Whether it holds the tokens: a list of structs or of numbers."""
    return pa.types.is_list(of) and not pa.types.is_string(of.value_type)


def _fault(where: str, found: str, columns: Iterable[str]) -> UsageError:
    first = found.strip().partition("\n")[0].partition("; valid columns")[0]
    unknown = _UNKNOWN.search(first)
    return _refusal(where, f"{first}; {names_like(unknown[1] if unknown else '', columns)}")


def _refusal(where: str, found: str) -> UsageError:
    return UsageError(
        f"--where: expected a condition such as `reward < 1 AND n_calls > 20`, found "
        f"{shown(where)}: {found}"
    )
