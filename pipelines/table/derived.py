"""Derived columns: computed in every published row from its published values, and checked there again.

Whole numbers, amounts with declared decimals and their sums, differences and products are computed in whole numbers of
the last decimal, so that a total is the sum of its parts to the cent. A ratio is a double. What has no value (a null
operand, a ratio by zero, a value that no table lists) is null.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.expressions import column_named
from understudy.pipelines.table.binning import MICROSECONDS_A_DAY
from understudy.pipelines.table.composed import Made
from understudy.pipelines.table.reading.zones import on_the_wall

SECONDS = {"minutes": 60, "hours": 3600, "days": 86_400}
SAFE = 2**62


@dataclass(frozen=True, eq=False)
class Number:
    """One number a row: whole numbers of 10^-places or, where `places` is None, doubles; `known` is False for null."""

    values: np.ndarray
    places: int | None
    known: np.ndarray

    def doubles(self) -> np.ndarray:
        return self.values.astype(np.float64) if self.places is None else self.values / 10.0**self.places

    def at(self, places: int) -> np.ndarray:
        """Whole numbers of 10^-places, with at least as many places as there are."""
        assert self.places is not None
        return _times(self.values, 10 ** (places - self.places))


@dataclass(frozen=True, eq=False)
class Moments:
    """`zone` is on whose clock hours and days are told, where the moments themselves are in UTC."""

    microseconds: np.ndarray
    known: np.ndarray
    zone: str | None = None

    def on_their_clock(self) -> np.ndarray:
        moments = np.where(self.known, self.microseconds, 0)
        if self.zone is None or not len(moments):
            return moments
        return on_the_wall(moments, self.zone, int(moments.min()), int(moments.max()))


@dataclass(frozen=True, eq=False)
class Texts:
    words: pa.Array


Operand: TypeAlias = Number | Moments | Texts


def derive(made: Made, table: pa.Table) -> pa.Array:
    """The column, from the published columns of the table."""
    if made.expression is None:
        return _looked_up(made, table)
    places, zones = dict(made.places), dict(made.zones)
    columns = {name: _operand(table.column(name), places.get(name), zones.get(name)) for name in made.expression.names}
    found = _evaluate(made.expression.tree, columns, table.num_rows)
    if isinstance(found, Number) and made.decimals is not None:
        found = _rounded(found, made.decimals)
    return _array(found)


def _looked_up(made: Made, table: pa.Table) -> pa.Array:
    said = dict(made.table)
    whole = all(isinstance(value, int) for value in said.values())
    keys = pa.array(list(said), pa.string())
    means = pa.array(list(said.values()) if whole else [str(value) for value in said.values()],
                     pa.int64() if whole else pa.string())  # fmt: skip
    values = table.column(made.source).combine_chunks()
    values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    texts = values.cast(pa.string())
    return means.take(pc.index_in(texts, value_set=keys, skip_nulls=True))


def _operand(column: pa.ChunkedArray, places: int | None, zone: str | None) -> Operand:
    values = column.combine_chunks()
    type_ = values.type
    known = np.asarray(values.is_valid())
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        of_type = getattr(type_, "tz", None)
        moments = values.cast(pa.timestamp("us", of_type)).cast(pa.int64())
        return Moments(_filled(moments), known, None if of_type is None else zone)
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return Number(_filled(values.cast(pa.int64())), 0, known)
    if pa.types.is_decimal(type_):
        return Number(
            np.rint(_filled(values.cast(pa.float64())) * 10**type_.scale).astype(np.int64), type_.scale, known
        )
    if pa.types.is_floating(type_):
        numbers = _filled(values.cast(pa.float64()))
        known = known & np.isfinite(numbers)
        numbers = np.where(known, numbers, 0.0)
        if places is None or np.abs(numbers).max(initial=0.0) * 10.0**places > 2.0**53:
            return Number(numbers, None, known)
        return Number(np.rint(numbers * 10.0**places).astype(np.int64), places, known)
    return Texts(values.dictionary_decode() if pa.types.is_dictionary(type_) else values.cast(pa.string()))


def _filled(values: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))


def _evaluate(node: ast.expr, columns: Mapping[str, Operand], rows: int) -> Operand:
    if (name := column_named(node)) is not None:
        return columns[name]
    match node:
        case ast.Constant():
            return _constant(node.value, rows)
        case ast.UnaryOp():
            operand = _number(_evaluate(node.operand, columns, rows))
            return Number(-operand.values, operand.places, operand.known)
        case ast.BinOp():
            return _combined(node.op, _evaluate(node.left, columns, rows), _evaluate(node.right, columns, rows))
        case ast.Call() if isinstance(node.func, ast.Name):
            places = node.args[1].value if node.func.id == "round" and len(node.args) == 2 else 0  # type: ignore[attr-defined]
            operands = node.args[:1] if node.func.id == "round" else node.args
            return _called(node.func.id, [_evaluate(each, columns, rows) for each in operands], places)
    raise AssertionError("the spec lets no other piece through")


def _constant(value: Any, rows: int) -> Operand:
    if isinstance(value, str):
        return Texts(pa.array([value] * rows, pa.string()))
    exact = Decimal(str(value))
    places = max(0, -int(exact.as_tuple().exponent))
    return Number(np.full(rows, int(exact.scaleb(places)), np.int64), places, np.ones(rows, bool))


def _combined(operator: ast.operator, left: Operand, right: Operand) -> Operand:
    if isinstance(left, Texts) or isinstance(right, Texts):
        if not isinstance(operator, ast.Add):
            raise ValueError("texts can be joined with + and nothing else")
        return _joined([left, right])
    if isinstance(left, Moments) and isinstance(right, Moments) and isinstance(operator, ast.Sub):
        known = left.known & right.known
        return Number(np.where(known, left.microseconds - right.microseconds, 0), 6, known)
    if isinstance(left, Moments) and isinstance(right, Number) and isinstance(operator, ast.Add | ast.Sub):
        seconds = np.rint(right.doubles() * 1e6).astype(np.int64)
        moved = left.microseconds + (seconds if isinstance(operator, ast.Add) else -seconds)
        return Moments(moved, left.known & right.known, left.zone)
    return _arithmetic(operator, _number(left), _number(right))


def _arithmetic(operator: ast.operator, left: Number, right: Number) -> Number:
    known = left.known & right.known
    if isinstance(operator, ast.Div):
        below = right.doubles()
        known = known & (below != 0)
        return Number(left.doubles() / np.where(known, below, 1.0), None, known)
    if left.places is None or right.places is None:
        first, second = left.doubles(), right.doubles()
        values = first * second if isinstance(operator, ast.Mult) else (
            first + second if isinstance(operator, ast.Add) else first - second)  # fmt: skip
        return Number(values, None, known)
    if isinstance(operator, ast.Mult):
        return Number(_times(left.values, right.values), left.places + right.places, known)
    places = max(left.places, right.places)
    first, second = _roomy(left.at(places)), _roomy(right.at(places))
    return Number(first + second if isinstance(operator, ast.Add) else first - second, places, known)


def _called(name: str, operands: list[Operand], places: int) -> Operand:
    if name == "concat":
        return _joined(operands)
    if name in ("year", "month", "day", "hour", "weekday"):
        return _calendar(name, operands[0])
    numbers = [_number(each) for each in operands]
    first = numbers[0]
    if name == "abs":
        return Number(np.abs(first.values), first.places, first.known)
    if name == "round":
        return _rounded(first, places)
    if name in SECONDS:
        return Number(first.doubles() / SECONDS[name], None, first.known)
    chosen = np.minimum if name == "min" else np.maximum
    known = reduce(np.logical_and, [each.known for each in numbers])
    exact = [each.places for each in numbers if each.places is not None]
    if len(exact) < len(numbers):
        return Number(reduce(chosen, [each.doubles() for each in numbers]), None, known)
    return Number(reduce(chosen, [each.at(max(exact)) for each in numbers]), max(exact), known)


def _calendar(name: str, operand: Operand) -> Number:
    if not isinstance(operand, Moments):
        raise ValueError(f"{name}() takes a date or a datetime")
    if name == "weekday":
        days = operand.on_their_clock() // MICROSECONDS_A_DAY
        return Number((days + 3) % 7 + 1, 0, operand.known)
    moments = pa.array(operand.on_their_clock()).cast(pa.timestamp("us"))
    return Number(_filled(getattr(pc, name)(moments).cast(pa.int64())), 0, operand.known)


def _number(operand: Operand) -> Number:
    if not isinstance(operand, Number):
        raise ValueError("texts and moments are no numbers; take year(...), or the difference of two moments")
    return operand


def _rounded(number: Number, places: int) -> Number:
    """To the nearest, ties to the even one."""
    if number.places is None:
        scaled = np.rint(number.doubles() * 10.0**places)
        known = number.known & np.isfinite(scaled) & (np.abs(scaled) < SAFE)
        return Number(np.where(known, scaled, 0.0).astype(np.int64), places, known)
    if number.places <= places:
        return Number(number.at(places), places, number.known)
    unit = 10 ** (number.places - places)
    whole = number.values // unit
    rest = number.values - whole * unit
    up = (2 * rest > unit) | ((2 * rest == unit) & (whole % 2 == 1))
    return Number(whole + up, places, number.known)


def _times(values: np.ndarray, factor: Any) -> np.ndarray:
    """The exact product: in Python's own whole numbers where 64 bits might not hold it."""
    largest = abs(int(np.abs(factor).max(initial=0))) if isinstance(factor, np.ndarray) else factor
    if int(np.abs(values).max(initial=0)) * largest < SAFE:
        return np.asarray(values * factor)
    return np.asarray(values.astype(object) * (factor.astype(object) if isinstance(factor, np.ndarray) else factor))


def _roomy(values: np.ndarray) -> np.ndarray:
    return values if int(np.abs(values).max(initial=0)) < SAFE // 2 else values.astype(object)


def _joined(operands: list[Operand]) -> Texts:
    texts = [_array(each).cast(pa.string()) for each in operands]
    return Texts(pc.binary_join_element_wise(*texts, pa.scalar("", pa.string())))


def _array(found: Operand) -> pa.Array:
    if isinstance(found, Texts):
        return found.words
    if isinstance(found, Moments):
        return pa.array(found.on_their_clock(), mask=~found.known).cast(pa.timestamp("us"))
    if found.places == 0 and found.values.dtype != object:
        return pa.array(found.values.astype(np.int64), mask=~found.known)
    doubles = found.doubles().astype(np.float64)
    return pa.array(doubles, mask=~(found.known & np.isfinite(doubles)))
