"""What a CHECK constraint says about columns: listed values, bounds, and which of two is never after the other.

sqlglot reads the SQL. A condition that holds only in part (one arm of an OR, a function of a column, a regular
expression) says nothing here: what is not understood is left open, never guessed.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import sqlglot
from sqlglot import exp

from understudy.pipelines.drafting.facts import Bound, ColumnFacts, TableFacts, with_bound, with_values

Literal = str | int | float | dt.date | dt.datetime
_FLIPPED = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ}


@dataclass(frozen=True)
class Limit:
    value: Bound
    strict: bool = False


@dataclass(frozen=True)
class Conditions:
    """What one or several CHECKs come to, by column name."""

    values: dict[str, list[str | int]] = field(default_factory=dict)
    lows: dict[str, list[Limit]] = field(default_factory=dict)
    highs: dict[str, list[Limit]] = field(default_factory=dict)
    orders: list[tuple[str, str]] = field(default_factory=list)


def conditions_of(sql: str, dialect: str) -> Conditions:
    """The conditions that hold for every row under `CHECK (sql)`; none if sqlglot cannot read it."""
    found = Conditions()
    try:
        tree = sqlglot.parse_one(sql, read=dialect)
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
        return found
    for part in _conjuncts(tree):
        _understand(part, found)
    return found


def apply_conditions(column: ColumnFacts, found: Conditions, by: str, called: str | None = None) -> ColumnFacts:
    """The column with what is said about it, or about `called`, the name that a domain's CHECK uses."""
    name = called or column.name
    if name in found.values:
        column = with_values(column, found.values[name], by, enforced=True)
    for limit in found.lows.get(name, ()):
        column = with_bound(column, low=_bound_at(column, limit, up=True), by=by)
    for limit in found.highs.get(name, ()):
        column = with_bound(column, high=_bound_at(column, limit, up=False), by=by)
    return column


def with_checks(table: TableFacts, checks: list[tuple[str, str]], dialect: str) -> TableFacts:
    """The table with all its CHECKs, given as (name, SQL)."""
    columns, orders = list(table.columns), list(table.orders)
    for name, sql in checks:
        found = conditions_of(sql, dialect)
        by = f"CHECK {name}".strip()
        columns = [apply_conditions(column, found, by) for column in columns]
        orders += found.orders
    return replace(table, columns=tuple(columns), orders=tuple(dict.fromkeys(orders)))


def _conjuncts(tree: Any) -> Iterator[Any]:
    tree = _bare(tree)
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.left)
        yield from _conjuncts(tree.right)
    else:
        yield tree


def _understand(part: Any, found: Conditions) -> None:
    if isinstance(part, exp.Or):
        _understand_or(part, found)
    elif isinstance(part, exp.Between) and (name := _column(part.this)) is not None:
        _limit(found.lows, name, _literal(part.args["low"]))
        _limit(found.highs, name, _literal(part.args["high"]))
    elif (listed := _listed(part)) is not None:
        found.values.setdefault(listed[0], listed[1])
    elif type(part) in _FLIPPED:
        _compare(part, found)


def _compare(part: Any, found: Conditions) -> None:
    kind, left, right = type(part), part.left, part.right
    first, second = _column(left), _column(right)
    if first is not None and second is not None:
        if kind in (exp.LT, exp.LTE):
            found.orders.append((first, second))
        elif kind in (exp.GT, exp.GTE):
            found.orders.append((second, first))
        return
    if first is None:
        kind, first, right = _FLIPPED[kind], second, left
    value = _literal(right)
    if first is None or value is None:
        return
    if kind in (exp.GT, exp.GTE):
        _limit(found.lows, first, value, strict=kind is exp.GT)
    elif kind in (exp.LT, exp.LTE):
        _limit(found.highs, first, value, strict=kind is exp.LT)


def _understand_or(part: Any, found: Conditions) -> None:
    """`x = 'a' OR x = 'b'` lists values; `x IS NULL OR condition` is the condition, as null passes any CHECK."""
    arms = [_bare(arm) for arm in part.flatten()]
    rest = [arm for arm in arms if not (isinstance(arm, exp.Is) and isinstance(arm.expression, exp.Null))]
    if len(rest) == 1 and len(arms) > 1:
        about = {_column(arm.this) for arm in arms if arm not in rest}
        inner = Conditions()
        for conjunct in _conjuncts(rest[0]):
            _understand(conjunct, inner)
        if {*inner.values, *inner.lows, *inner.highs} == about and not inner.orders:
            found.values.update(inner.values)
            found.lows.update(inner.lows)
            found.highs.update(inner.highs)
        return
    listed = [_listed(arm) for arm in rest]
    names = {one[0] for one in listed if one is not None}
    if len(names) == 1 and None not in listed and len(rest) == len(arms):
        found.values.setdefault(names.pop(), [value for one in listed if one is not None for value in one[1]])


def _listed(part: Any) -> tuple[str, list[str | int]] | None:
    """A column and its values, of `x IN (...)`, `x = ANY (ARRAY[...])` or `x = 'a'`."""
    if isinstance(part, exp.In) and part.args.get("query") is None:
        column, given = part.this, part.expressions
    elif isinstance(part, exp.EQ):
        column, other = (part.left, _bare(part.right)) if _column(part.left) is not None else (part.right, part.left)
        array = _bare(other.this) if isinstance(other, exp.Any) else None
        given = array.expressions if isinstance(array, exp.Array) else [other]
    else:
        return None
    name, values = _column(column), [_literal(value) for value in given]
    if name is None or not values or not all(isinstance(value, str | int) for value in values):
        return None
    return name, [value for value in values if isinstance(value, str | int)]


def _bare(node: Any) -> Any:
    """Without parentheses and casts."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    return node


def _column(node: Any) -> str | None:
    node = _bare(node)
    return str(node.name) if isinstance(node, exp.Column) else None


def _literal(node: Any) -> Literal | None:
    casts = {cast.to.this for cast in _wrappers(node) if isinstance(cast, exp.Cast)}
    dated, numeric = bool(casts & exp.DataType.TEMPORAL_TYPES), bool(casts & exp.DataType.NUMERIC_TYPES)
    bare = _bare(node)
    if isinstance(bare, exp.Neg):
        inner = _literal(bare.this)
        return -inner if isinstance(inner, int | float) else None
    if not isinstance(bare, exp.Literal):
        return None
    if bare.is_string and not numeric:
        return _moment(bare.this) if dated else str(bare.this)
    try:
        number = float(bare.this)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(bare.this) if str(bare.this).lstrip("-").isdigit() else number


def _wrappers(node: Any) -> Iterator[Any]:
    while isinstance(node, exp.Paren | exp.Cast):
        yield node
        node = node.this


def _moment(text: str) -> dt.date | dt.datetime | None:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.date() if moment.time() == dt.time() and len(text) <= 10 else moment


def _limit(limits: dict[str, list[Limit]], name: str, value: Literal | None, strict: bool = False) -> None:
    if isinstance(value, str):
        value = _moment(value)  # text beside an order sign can only be meant as a day or a moment
    if value is not None:
        limits.setdefault(name, []).append(Limit(value, strict))


def _bound_at(column: ColumnFacts, limit: Limit, up: bool) -> Bound:
    """The bound of a column that includes its ends: of whole numbers above 0 it is 1."""
    value = limit.value
    if column.kind != "integer" or not isinstance(value, int | float):
        return value
    whole = math.ceil(value) if up else math.floor(value)
    return whole + (1 if up else -1) if limit.strict and whole == value else whole
