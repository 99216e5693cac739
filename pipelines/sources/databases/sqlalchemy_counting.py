"""Counting in SQLite, MariaDB and MySQL: the engine groups values, or the bins of whole numbers, and counts.

Guarantee: the same numbers as streaming the rows. Listed values (categories, booleans) are grouped by what streaming
would send, byte for byte and type for type (`group_sql`), and one of each group is encoded here. Whole numbers are
binned by the engine in both; doubles in MariaDB and MySQL, which have neither NaN nor infinities, but not in SQLite,
which reads a decimal number's last bit as it likes. Dates are streamed: both hold days that no calendar has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlglot import exp

from understudy.pipelines.sources.databases.group_sql import (
    MARIADB,
    MOST_BYTES,
    SQLITE,
    Engine,
    Sql,
    bin_of,
    column_named,
    grouped_sql,
    named,
)
from understudy.pipelines.sources.databases.grouping import has_few_codes
from understudy.pipelines.sources.databases.sqlalchemy_table import SqlTable
from understudy.pipelines.sources.databases.sqlalchemy_values import StoredColumn
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.columns import DomainColumn

ENGINES = {"sqlite": SQLITE, "mysql": MARIADB}
MOST_EDGES = 256
FETCH_GROUPS = 20_000


@dataclass(frozen=True)
class SqlAlchemyCounter:
    """Counts in the transaction that every other read of the source sees too."""

    source: SqlTable

    columns_a_group = 1
    most_columns = 31

    @property
    def engine(self) -> Engine:
        return ENGINES[self.source.dialect]

    def can_group(self, column: DomainColumn) -> bool:
        stored = self.source.column(column.name)
        if has_few_codes(column):
            text = pa.types.is_string(stored.arrow_type)
            return self._groups_text(column) if text else not pa.types.is_nested(stored.arrow_type)
        return self._bins(stored, column) is not None

    def coded(self, column: DomainColumn, values: pa.Array) -> np.ndarray:
        if has_few_codes(column):
            return encode_column(values, column)
        return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)

    def grouped(self, columns: Sequence[DomainColumn], sets: Sequence[Sequence[int]]) -> Iterator[pa.RecordBatch]:
        stored = [self.source.column(column.name) for column in columns]
        asked = [self._asked(held, column) for held, column in zip(stored, columns, strict=True)]
        query = grouped_sql(self.engine, named(*self.source.place), asked, sets)
        names = [*(f"c{place}" for place in range(len(columns))), "absent", "rows"]
        with self.source.reading() as (connection, encoding):
            found = connection.exec_driver_sql(query.replace("%", "%%") if self.engine is MARIADB else query)
            while rows := found.fetchmany(FETCH_GROUPS):
                *values, absent, counts = zip(*rows, strict=True)
                arrays = [
                    self._array(held, column, each, encoding)
                    for held, column, each in zip(stored, columns, values, strict=True)
                ]
                numbers = [pa.array([int(number) for number in each], pa.int64()) for each in (absent, counts)]
                yield pa.RecordBatch.from_arrays([*arrays, *numbers], names=names)

    def _groups_text(self, column: DomainColumn) -> bool:
        """MariaDB's groups are of the first bytes of a text, which tell whether it is listed unless blanks may go."""
        if self.engine is SQLITE:  # of which HEX writes the bytes as they are stored
            with self.source.reading() as (connection, _):
                return connection.exec_driver_sql("PRAGMA encoding").scalar() == "UTF-8"
        short = all(len(str(value).encode()) < MOST_BYTES for value in column.values)
        plain = self.source.url().query.get("charset", "utf8mb4") == "utf8mb4"
        return column.kind == "category" and column.form is None and short and plain

    def _bins(self, stored: StoredColumn, column: DomainColumn) -> Sql | None:
        """The code of a number's bin, or None if the engine cannot be asked for it."""
        if column.form is not None or column.kind not in ("integer", "number") or len(column.edges) > MOST_EDGES:
            return None
        value: Sql = column_named(stored.name)
        type_ = stored.column.type
        whole = pa.types.is_integer(stored.arrow_type)
        if self.engine is SQLITE:
            if not whole or column.kind != "integer":
                return None
            return bin_of(_if_typed(value, ["integer"]), column, as_doubles=False)
        if whole and not getattr(type_, "unsigned", False):
            if column.kind == "integer":
                return bin_of(value, column, as_doubles=False)
            return bin_of(exp.Cast(this=value, to=exp.DataType.build("DOUBLE", dialect="mysql")), column, True)
        return bin_of(value, column, as_doubles=True) if isinstance(type_, sa.Double) else None

    def _asked(self, stored: StoredColumn, column: DomainColumn) -> Sql:
        if not has_few_codes(column):
            bins = self._bins(stored, column)
            assert bins is not None
            return bins
        value = column_named(stored.name)
        if pa.types.is_string(stored.arrow_type):
            return self.engine.exactly(value)
        if self.engine is not SQLITE:
            return value
        return _if_typed(value, ["integer", "real"] if pa.types.is_floating(stored.arrow_type) else ["integer"])

    def _array(self, stored: StoredColumn, column: DomainColumn, values: Sequence[Any], encoding: str) -> pa.Array:
        if not has_few_codes(column):
            return pa.array([None if value is None else int(value) for value in values], pa.int64())
        if self.engine is SQLITE and pa.types.is_string(stored.arrow_type):
            values = [_stored_in_sqlite(value) for value in values]
        return stored.array(values, encoding)


def _if_typed(value: Sql, types: Sequence[str]) -> Sql:
    """SQLite's value if it is stored as one of these types, and null if not, as what is streamed would be."""
    kind = exp.Anonymous(this="TYPEOF", expressions=[value.copy()])
    return exp.Case().when(kind.isin(*types), value.copy())


def _stored_in_sqlite(key: str | None) -> Any:
    """The value that `group_sql.SQLITE.exactly` wrote."""
    if key is None:
        return None
    kind, _, written = key.partition(":")
    match kind:
        case "text":
            return bytes.fromhex(written).decode("utf-8", "replace")
        case "blob":
            return bytes.fromhex(written)
        case "integer":
            return int(written)
        case "real":
            return float(written)
    return None
