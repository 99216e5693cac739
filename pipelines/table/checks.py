"""What is checked of a synthetic table before it is published: one list, whoever runs it.

`checks_of` derives the list from the public contract. Each check is a value with a name; `breaches` runs them with
Arrow, `tasks/engines/expectations.py` with Great Expectations, and a property test holds both to the same verdict.

Two decisions. **NaN is not a value**: a missing number is published as null, so NaN fails even where nulls may stand
(files and databases order and compare it in ways of their own, and every statistic of the column becomes NaN). **A
table has a row**: one without rows passes every check of values by saying nothing, so it fails. Both are judged from
the synthetic table alone, so what fails reveals no more than the measurement that was paid for.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.composed import Made
from understudy.pipelines.table.contract import ColumnContract, TableContract
from understudy.pipelines.table.derived import derive
from understudy.pipelines.table.keeping import Kept, cast
from understudy.pipelines.table.tensors import rows_within

Bound: TypeAlias = float | int | dt.datetime


@dataclass(frozen=True)
class ColumnsAre:
    """The columns of the contract, each once, in its order, and no other."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "columns are not those of the contract"


@dataclass(frozen=True)
class _OfColumn:
    column: str

    problem: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.column}: {self.problem}"


@dataclass(frozen=True)
class TypeIs(_OfColumn):
    type: str

    def __str__(self) -> str:
        return f"{self.column}: is not of type {self.type}"


@dataclass(frozen=True)
class HasRows:
    """At least one row, or exactly as many as were asked for."""

    exactly: int | None

    def __post_init__(self) -> None:
        if self.exactly is not None and self.exactly < 1:
            raise ValueError("a table has a row")

    def __str__(self) -> str:
        return "has no rows" if self.exactly is None else f"has not {self.exactly:,} rows"


@dataclass(frozen=True)
class NotNull(_OfColumn):
    problem = "has nulls"


@dataclass(frozen=True)
class IsNumber(_OfColumn):
    problem = "has NaN, which is no value"


@dataclass(frozen=True)
class IsListed(_OfColumn):
    values: tuple[str | int | float | bool, ...]

    problem = "has a value that is not listed"


@dataclass(frozen=True)
class IsWithin(_OfColumn):
    """Every value there is lies between the bounds, ends included; NaN is `IsNumber`'s concern."""

    low: Bound
    high: Bound | None

    problem = "is out of its bounds"


@dataclass(frozen=True)
class IsUnique(_OfColumn):
    problem = "has a value twice"


@dataclass(frozen=True)
class TensorsWithin(_OfColumn):
    """Every tensor is there and every number of it is a number between the bounds."""

    low: float
    high: float

    problem = "has a tensor that is null or out of its bounds"


@dataclass(frozen=True)
class IsDerived:
    """Every value is what its expression or table makes of the row's other values."""

    column: str
    made: Made

    def __str__(self) -> str:
        return f"{self.column}: is not what it is derived from"


@dataclass(frozen=True)
class Follows:
    """No moment lies before the other one, nor farther after it than the most."""

    column: str
    after: str
    most: int

    def __str__(self) -> str:
        return f"{self.column}: does not follow {self.after}"


FormCheck: TypeAlias = ColumnsAre | TypeIs
RowCheck: TypeAlias = IsDerived | Follows
ValueCheck: TypeAlias = HasRows | NotNull | IsNumber | IsListed | IsWithin | IsUnique | TensorsWithin | RowCheck
Check: TypeAlias = FormCheck | ValueCheck


@dataclass(frozen=True)
class Checks:
    """`form` comes first: where it fails, checks of values would fail in confusing ways and are not made."""

    form: tuple[FormCheck, ...]
    values: tuple[ValueCheck, ...]


Verdict: TypeAlias = Callable[[pa.Table, Checks], Sequence[Check]]
"""Which checks a table fails, in the list's order; none means it may be published."""


def checks_of(contract: TableContract) -> Checks:
    names = tuple(column.name for column in contract.columns)
    types = (TypeIs(column.name, column.arrow_type) for column in contract.columns)
    values = (check for column in contract.columns for check in _column_checks(column))
    derived = (IsDerived(made.name, made) for made in contract.made)
    follow = (Follows(lapse.name, lapse.after.name, lapse.most) for lapse in contract.lapses)
    return Checks((ColumnsAre(names), *types), (HasRows(contract.rows), *values, *derived, *follow))


def _column_checks(column: ColumnContract) -> Iterator[ValueCheck]:
    if column.shape is not None:
        assert isinstance(column.low, int | float)
        assert isinstance(column.high, int | float)
        yield TensorsWithin(column.name, column.low, column.high)
        return
    if not column.nullable:
        yield NotNull(column.name)
    if column.arrow_type in (str(pa.float64()), str(pa.float32())):
        yield IsNumber(column.name)
    if column.allowed is not None:
        yield IsListed(column.name, column.allowed)
    if column.low is not None:
        yield IsWithin(column.name, column.low, column.high)
    if column.unique:
        yield IsUnique(column.name)


def breaches(table: pa.Table, checks: Checks) -> list[Check]:
    """The checks that fail, by Arrow alone."""
    form: list[Check] = [check for check in checks.form if not has_form(table, check)]
    return form or [check for check in checks.values if not _holds(table, check)]


def has_form(table: pa.Table, check: FormCheck) -> bool:
    if isinstance(check, ColumnsAre):
        return bool(table.column_names == list(check.names))
    return type_named(table, check.column) == check.type


def comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """As bounds and listed values are compared with: decimals as doubles, moments in UTC, enums as text."""
    if pa.types.is_decimal(values.type):
        return values.cast(pa.float64())
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def type_named(table: pa.Table, name: str) -> str:
    return str(table.schema.field(name).type) if table.column_names.count(name) == 1 else "missing"


def _holds(table: pa.Table, check: ValueCheck) -> bool:
    if isinstance(check, HasRows):
        return bool(table.num_rows > 0 and check.exactly in (None, table.num_rows))
    if isinstance(check, IsDerived | Follows):
        return bool(rows_in_order(table, check).all())
    values = comparable(table.column(check.column))
    match check:
        case NotNull():
            return bool(values.null_count == 0)
        case IsNumber():
            return not _any(pc.is_nan(values))
        case IsListed():
            listed = pa.array(list(check.values), values.type)
            return not _any(pc.invert(pc.is_in(values.drop_null(), value_set=listed)))
        case IsWithin():
            below = _any(pc.less(values, _scalar(check.low, values.type)))
            return not below and (check.high is None or not _any(pc.greater(values, _scalar(check.high, values.type))))
        case IsUnique():
            there = values.drop_null()
            return len(pc.unique(there)) == len(there)
        case TensorsWithin():
            return bool(np.all(rows_within(values, check.low, check.high)))


def rows_in_order(table: pa.Table, check: RowCheck) -> np.ndarray:
    """Which rows hold what a check of several columns asks for."""
    if isinstance(check, IsDerived):
        return _equal(derive(check.made, table), table.column(check.column).combine_chunks())
    start, end = (comparable(table.column(name)).combine_chunks() for name in (check.after, check.column))
    seconds = pc.subtract(end, start.cast(pa.timestamp("us"))).cast(pa.int64())
    within = pc.fill_null(pc.and_(pc.greater_equal(seconds, 0), pc.less_equal(seconds, check.most * 1_000_000)), False)
    return _truths(pc.or_(within, end.is_null()))


def _equal(wanted: pa.Array, found: pa.Array) -> np.ndarray:
    same = pc.fill_null(pc.equal(cast(wanted, Kept(found.type), 0.0, 0.0), found), False)
    return _truths(pc.or_(same, pc.and_(wanted.is_null(), found.is_null())))


def _truths(values: pa.Array) -> np.ndarray:
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _any(truths: pa.ChunkedArray) -> bool:
    return bool(pc.any(truths, min_count=0).as_py())


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_date(type_) and isinstance(value, dt.datetime):
        value = value.date()
    return pa.scalar(value, type_)
