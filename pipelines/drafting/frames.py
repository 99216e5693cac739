"""What the columns of a table in Python declare: their types, and nothing that is in them.

The categories of a pandas or Polars categorical and the entries of an Arrow dictionary are usually made from the rows:
they are read only of columns whose caller says that they are public.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pyarrow as pa

from understudy.pipelines.drafting.arrow_schema import arrow_columns, arrow_kind
from understudy.pipelines.drafting.contracts.values import values
from understudy.pipelines.drafting.facts import ColumnFacts, Kind, TableFacts, with_values
from understudy.pipelines.errors import SpecError

_KINDS: dict[str, Kind] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "M": "datetime", "m": "other"}


def frame_facts(table: Any, public_categories: Collection[str] = ()) -> TableFacts:
    pandas = sys.modules.get("pandas")  # who passes a frame has imported it
    if pandas is not None and isinstance(table, pandas.DataFrame):
        columns = [_pandas_column(str(name), dtype) for name, dtype in zip(table.columns, table.dtypes, strict=True)]
    else:
        columns = list(arrow_columns(_schema(table)))
    unknown = sorted(set(public_categories) - {column.name for column in columns})
    if unknown:
        raise SpecError(f"public_categories names {', '.join(unknown)}, which the table lacks", "correct the names")
    columns = [_with_categories(column, table) if column.name in public_categories else column for column in columns]
    return TableFacts(tuple(columns), f"the types of a {type(table).__name__}'s columns")


def _schema(table: Any) -> pa.Schema:
    if isinstance(table, pa.Table | pa.RecordBatch):
        return table.schema
    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table).schema  # which asks for no batch
    raise SpecError(f"a {type(table).__name__} is not a table", "pass a pandas or Polars DataFrame or a pyarrow Table")


def _pandas_column(name: str, dtype: Any) -> ColumnFacts:
    import numpy as np
    import pandas as pd

    column = ColumnFacts(name, type_name=type(dtype).__name__ if isinstance(dtype, pd.CategoricalDtype) else str(dtype))
    if isinstance(dtype, pd.ArrowDtype):
        return replace(column, kind=arrow_kind(dtype.pyarrow_dtype))
    if isinstance(dtype, pd.CategoricalDtype | pd.StringDtype):
        return replace(column, kind="text")
    kind = _KINDS.get(getattr(dtype, "kind", "O"), "unknown")
    # numpy's own whole numbers and truths have no room for a null.
    full = isinstance(dtype, np.dtype) and kind in ("integer", "boolean")
    return replace(column, kind=kind, nullable=False if full else None)


def _with_categories(column: ColumnFacts, table: Any) -> ColumnFacts:
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(table, pandas.DataFrame):
        listed = getattr(table[column.name].dtype, "categories", None)
        found = None if listed is None else listed.tolist()
    else:
        held = pa.table(table)[column.name].combine_chunks()
        found = held.dictionary.to_pylist() if pa.types.is_dictionary(held.type) else None
    named = values(found)
    if not named:
        raise SpecError(
            f"column {column.name!r} has no categories of words or whole numbers that could be public",
            "declare its values in the spec instead",
        )
    return with_values(column, named, "its categories, said to be public")
