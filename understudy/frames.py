"""Published rows in other libraries' forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import UnderstudyError


def as_pandas(table: pa.Table) -> Any:
    """In which whole numbers stay whole where some are null."""
    import pandas as pd

    frame = table.to_pandas(integer_object_nulls=True)
    for name, type_ in zip(table.schema.names, table.schema.types, strict=True):
        if pa.types.is_integer(type_) and table.column(name).null_count:
            unsigned = "U" if pa.types.is_unsigned_integer(type_) else ""
            frame[name] = frame[name].astype(f"{unsigned}Int{type_.bit_width}")
    return pd.DataFrame(frame)


def as_polars(table: pa.Table) -> Any:
    try:
        import polars
    except ImportError:
        pass
    else:
        return polars.from_arrow(table)
    raise UnderstudyError("polars is not installed", "pip install 'understudy[polars]', or use to_pandas()")


def in_duckdb(tables: Mapping[str, pa.Table], connection: Any = None) -> Any:
    """A connection in which every table can be asked by its name; a new one in memory unless one is given."""
    import duckdb

    connection = duckdb.connect() if connection is None else connection
    for name, table in tables.items():
        connection.register(name, table)
    return connection
