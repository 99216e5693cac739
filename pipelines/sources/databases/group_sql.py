"""The one question that counts rows where they lie, in each engine's words: a tree of SQLGlot's, written by dialect.

What is asked: for every set of columns, its groups and how many rows each has. Engines with GROUPING SETS answer in one
scan; the others (SQLite, MariaDB, MySQL) get a SELECT for each set. Rows that two values would merge are told apart by
`exactly`: collations that ignore case, accents or trailing blanks take no part.

DuckDB, PostgreSQL, SQLite and MariaDB are run in tests beside streaming, to the last count. What Snowflake, BigQuery
and Databricks are asked is checked as text alone: nothing here has run there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from understudy.pipelines.table.columns import DomainColumn

Sql: TypeAlias = exp.Expr


@dataclass(frozen=True)
class Engine:
    """`dialect` is SQLGlot's name; `exactly` makes text group by its characters and nothing else."""

    dialect: str
    exactly: Callable[[Sql], Sql]
    has_sets: bool = True


def _collated(name: str, quoted: bool) -> Callable[[Sql], Sql]:
    return lambda text: exp.Paren(
        this=exp.Collate(this=text, expression=exp.to_identifier(name, quoted=True) if quoted else exp.Var(this=name))
    )


def _without_collation(text: Sql) -> Sql:
    return exp.Anonymous(this="COLLATE", expressions=[text, exp.Literal.string("")])


MOST_BYTES = 1000
"""Of a text that MariaDB groups by: it looks at no more than its max_sort_length, which is 1024 where nobody set it."""


def _first_bytes(text: Sql) -> Sql:
    """MariaDB's binary collations still take blanks at the end for nothing; bytes do not. A text beyond MOST_BYTES is
    cut: none that is listed is as long, nor is what is left of it."""
    written = exp.Cast(this=text, to=exp.DataType.build("CHAR", dialect="mysql"))
    as_bytes = exp.Cast(this=written, to=exp.DataType.build("BINARY", dialect="mysql"))
    return exp.Anonymous(this="LEFT", expressions=[as_bytes, exp.Literal.number(MOST_BYTES)])


def _typed(value: Sql) -> Sql:
    """SQLite's value with its type: 1 and 1.0 are equal to it, one column may hold both, and as text they differ."""
    kind = exp.Anonymous(this="TYPEOF", expressions=[value.copy()])
    as_hex = exp.Anonymous(this="HEX", expressions=[value.copy()])
    as_literal = exp.Anonymous(this="QUOTE", expressions=[value.copy()])
    written = exp.Case().when(kind.copy().isin("text", "blob"), as_hex).else_(as_literal)
    return exp.DPipe(this=exp.DPipe(this=kind, expression=exp.Literal.string(":")), expression=exp.Paren(this=written))


DUCKDB = Engine("duckdb", _collated("C", quoted=False))
POSTGRESQL = Engine("postgres", _collated("C", quoted=True))
SQLITE = Engine("sqlite", _typed, has_sets=False)
MARIADB = Engine("mysql", _first_bytes, has_sets=False)
SNOWFLAKE = Engine("snowflake", _without_collation)
BIGQUERY = Engine("bigquery", _without_collation)
DATABRICKS = Engine("databricks", _collated("UTF8_BINARY", quoted=False))


def named(*parts: str) -> exp.Table:
    """A table by its name, its schema before it, whatever characters they have."""
    *outer, name = [exp.to_identifier(part, quoted=True) for part in parts if part]
    places = dict(zip(("db", "catalog"), reversed(outer), strict=False))
    return exp.Table(this=name, **places)


def column_named(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def grouped_sql(engine: Engine, rows: Sql, values: Sequence[Sql], sets: Sequence[Sequence[int]]) -> str:
    """SQL for the groups of each set of places in `values`: a value for each place (null where it is not in the set), a
    number with a bit for each place that is not, the first the highest, and the number of rows.

    `rows` is a table or a query in parentheses.
    """
    aliases = [f"c{place}" for place in range(len(values))]
    coded = exp.select(
        *(exp.alias_(each.copy(), alias, quoted=True) for each, alias in zip(values, aliases, strict=True))
    )
    if not values:
        coded = exp.select(exp.alias_(exp.Literal.number(1), "c", quoted=True))
    inner = coded.from_(rows.copy()).subquery("coded")
    columns = [column_named(alias) for alias in aliases]
    if engine.has_sets and values:
        return _in_one_scan(inner, columns, sets).sql(engine.dialect)
    selects = [_of_one_set(inner, columns, group) for group in sets]
    return " UNION ALL ".join(select.sql(engine.dialect) for select in selects)


def _in_one_scan(inner: Sql, columns: Sequence[exp.Column], sets: Sequence[Sequence[int]]) -> Sql:
    bits: Sql | None = None
    for place, column in enumerate(columns):  # of several at once not every engine tells
        grouping = exp.Anonymous(this="GROUPING", expressions=[column.copy()])
        weight = exp.Literal.number(1 << (len(columns) - 1 - place))
        bit = exp.Mul(this=grouping, expression=weight)
        bits = bit if bits is None else exp.Add(this=bits, expression=bit)
    assert bits is not None
    groups = [exp.Tuple(expressions=[columns[place].copy() for place in group]) for group in sets]
    asked = exp.select(
        *(column.copy() for column in columns),
        exp.alias_(bits, "absent", quoted=True),
        exp.alias_(exp.Count(this=exp.Star()), "rows", quoted=True),
    )
    return asked.from_(inner.copy()).group_by(exp.GroupingSets(expressions=groups))


def _of_one_set(inner: Sql, columns: Sequence[exp.Column], group: Sequence[int]) -> Sql:
    absent = sum(1 << (len(columns) - 1 - place) for place in range(len(columns)) if place not in group)
    listed = [column.copy() if place in group else exp.Null() for place, column in enumerate(columns)]
    asked = exp.select(
        *(exp.alias_(each, f"c{place}", quoted=True) for place, each in enumerate(listed)),
        exp.alias_(exp.Literal.number(absent), "absent", quoted=True),
        exp.alias_(exp.Count(this=exp.Star()), "rows", quoted=True),
    ).from_(inner.copy())
    return asked.group_by(*(columns[place].copy() for place in group)) if group else asked


def bin_of(value: Sql, column: DomainColumn, as_doubles: bool) -> Sql:
    """The code of a number, or of null: the count of inner edges not above it, by halving them.

    Whole numbers are compared with whole edges, doubles with doubles in their shortest spelling that reads back.
    """
    edges = [_spelled(edge, as_doubles) for edge in column.edges[1:-1]]
    missing = exp.Literal.number(column.missing_code)
    return exp.Case().when(exp.Is(this=value.copy(), expression=exp.Null()), missing).else_(_halved(value, edges, 0))


def _halved(value: Sql, edges: Sequence[Sql], first: int) -> Sql:
    if not edges:
        return exp.Literal.number(first)
    middle = len(edges) // 2
    below = exp.LT(this=value.copy(), expression=edges[middle].copy())
    low, high = _halved(value, edges[:middle], first), _halved(value, edges[middle + 1 :], first + middle + 1)
    return exp.Case().when(below, low).else_(high)


def _spelled(edge: float | int, as_doubles: bool) -> Sql:
    if not as_doubles:
        return exp.Literal.number(str(int(edge)))
    text = repr(abs(float(edge)))
    size = exp.Literal.number(text if "e" in text else f"{text}e0")  # without it, MariaDB takes it for a decimal
    return exp.Neg(this=size) if edge < 0 else size
