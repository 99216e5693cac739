"""The public domain of a table: its tensors, and for each coded column its codes, their order and what one stands for.

Codes of a column are laid out as bins or listed values first, then `other` if declared, then null if declared.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from understudy.pipelines.spec.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    IdentifierColumn,
    IntegerColumn,
    ModelledColumn,
    NumberColumn,
    TensorColumn,
)
from understudy.pipelines.spec.model import ReleaseSpec

Kind = Literal["category", "integer", "number", "boolean", "date", "datetime"]
EPOCH = dt.date(1970, 1, 1)
MICROSECONDS_A_DAY = 86_400_000_000


@dataclass(frozen=True)
class DomainColumn:
    """A column as codes 0..size-1.

    `values` are the listed values of a category, in code order. `edges` bound the bins of the other kinds: bin i is
    [edges[i], edges[i+1]), the last one closed, in the column's own units: numbers, whole numbers, days or microseconds
    since 1970. A boolean has codes 0 (false) and 1 (true).
    """

    name: str
    kind: Kind
    values: tuple[str | int, ...]
    edges: tuple[float, ...] | tuple[int, ...]
    has_other: bool
    nullable: bool
    ordered: bool
    log_scale: bool = False
    decimals: int | None = None

    @property
    def value_codes(self) -> int:
        """Codes that stand for a value, that is without `other` and null."""
        if self.kind == "category":
            return len(self.values)
        return 2 if self.kind == "boolean" else len(self.edges) - 1

    @property
    def size(self) -> int:
        return self.value_codes + self.has_other + self.nullable

    @property
    def other_code(self) -> int | None:
        return self.value_codes if self.has_other else None

    @property
    def null_code(self) -> int | None:
        return self.size - 1 if self.nullable else None

    @property
    def fallback_code(self) -> int:
        """Where a value that cannot be read as this kind goes, so that no row can make encoding fail."""
        if self.other_code is not None:
            return self.other_code
        return self.null_code if self.null_code is not None else 0

    @property
    def missing_code(self) -> int:
        return self.null_code if self.null_code is not None else self.fallback_code

    @property
    def off_axis_codes(self) -> tuple[int, ...]:
        """`other` and null: codes that have no place in the column's order."""
        return tuple(range(self.value_codes, self.size))

    def code_labels(self) -> list[str]:
        """A public, readable name of each code, for plans and cards."""
        labels: list[str]
        if self.kind == "category":
            labels = [str(value) for value in self.values]
        elif self.kind == "boolean":
            labels = ["false", "true"]
        else:
            labels = [_edge_text(self.kind, low) for low in self.edges[:-1]]
        return labels + ["other"] * self.has_other + ["null"] * self.nullable


@dataclass(frozen=True)
class TensorDomain:
    """A column of tensors: `shape` numbers a row, laid out row by row, each from `low` to `high`."""

    name: str
    shape: tuple[int, ...]
    low: float
    high: float

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def middle(self) -> float:
        """What stands for a number that cannot be read."""
        return self.low / 2 + self.high / 2

    @property
    def is_picture(self) -> bool:
        """Whether it can be shown: [H, W], [H, W, 1] or [H, W, 3]."""
        return len(self.shape) == 2 or (len(self.shape) == 3 and self.shape[2] in (1, 3))

    @property
    def is_bytes(self) -> bool:
        """Whether its published numbers are whole and fit a byte each."""
        return float(self.low).is_integer() and float(self.high).is_integer() and self.low >= 0 and self.high <= 255


@dataclass(frozen=True)
class TableDomain:
    """The coded columns and the tensors, each in spec order, and the identifiers that are published as fresh ids.

    Whatever counts sees `columns` alone: tensors have no codes.
    """

    columns: tuple[DomainColumn, ...]
    surrogates: tuple[str, ...] = ()
    tensors: tuple[TensorDomain, ...] = ()

    @classmethod
    def of(cls, spec: ReleaseSpec) -> TableDomain:
        modelled = tuple(
            _domain_column(name, column)
            for name, column in spec.columns.items()
            if not isinstance(column, IdentifierColumn | TensorColumn)
        )
        surrogates = tuple(name for name, column in spec.columns.items() if _is_surrogate(column))
        tensors = tuple(
            TensorDomain(name, column.shape, float(column.min), float(column.max))
            for name, column in spec.columns.items()
            if isinstance(column, TensorColumn)
        )
        return cls(modelled, surrogates, tensors)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def record_names(self) -> tuple[str, ...]:
        """Every column that is read: the coded ones, then the tensors."""
        return self.names + tuple(tensor.name for tensor in self.tensors)

    @property
    def counted_names(self) -> tuple[str, ...]:
        """What is read to count: the coded columns or, lest there be no rows at all, a tensor if nothing is coded."""
        return self.names or self.record_names[:1]

    @property
    def published_names(self) -> tuple[str, ...]:
        """The columns of a published table, in its order: fresh ids, coded columns, tensors."""
        return self.surrogates + self.record_names

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.columns)

    def index(self, name: str) -> int:
        return self.names.index(name)


def _is_surrogate(column: Column) -> bool:
    return isinstance(column, IdentifierColumn) and column.action == "surrogate"


def _domain_column(name: str, column: ModelledColumn) -> DomainColumn:
    match column:
        case CategoryColumn():
            return DomainColumn(name, "category", column.values, (), column.other, column.nullable, column.ordered)
        case BooleanColumn():
            return DomainColumn(name, "boolean", (), (), False, column.nullable, True)
        case IntegerColumn():
            edges = _integer_edges(column.min, column.max + 1, column.bins, column.scale == "log")
            return DomainColumn(
                name, "integer", (), edges, False, column.nullable, True, log_scale=column.scale == "log"
            )
        case NumberColumn():
            return DomainColumn(
                name,
                "number",
                (),
                _number_edges(column),
                False,
                column.nullable,
                True,
                log_scale=column.scale == "log",
                decimals=column.decimals,
            )
        case DateColumn():
            first, last = (column.min - EPOCH).days, (column.max - EPOCH).days + 1
            if isinstance(column.bins, int):
                edges = _integer_edges(first, last, column.bins, False)
            else:
                edges = _clipped(_period_starts(column.min, column.max, column.bins), first, last)
            return DomainColumn(name, "date", (), edges, False, column.nullable, True)
        case DatetimeColumn():
            start, end = _microseconds(column.min), _microseconds(column.max)
            if isinstance(column.bins, int):
                edges = _integer_edges(start, end, column.bins, False)
            elif column.bins == "hour":
                edges = _clipped(list(range(start - start % 3_600_000_000, end, 3_600_000_000)), start, end)
            else:
                days = _period_starts(column.min.date(), column.max.date(), column.bins)
                edges = _clipped([day * MICROSECONDS_A_DAY for day in days], start, end)
            return DomainColumn(name, "datetime", (), edges, False, column.nullable, True)


def _integer_edges(start: int, end: int, bins: int, log_scale: bool) -> tuple[int, ...]:
    """Whole-number bin edges from start to end (exclusive), nearly equal on the scale, none empty."""
    if bins >= end - start:
        return tuple(range(start, end + 1))
    span = end - start
    if log_scale:
        spaced = np.expm1(np.linspace(0.0, np.log1p(span), bins + 1))
        inner = sorted({start + max(1, round(offset)) for offset in spaced[1:-1]})
    else:
        inner = [start + (span * i) // bins for i in range(1, bins)]
    return (start, *(edge for edge in inner if start < edge < end), end)


def _number_edges(column: NumberColumn) -> tuple[float, ...]:
    if column.scale == "linear":
        return tuple(float(edge) for edge in np.linspace(column.min, column.max, column.bins + 1))
    offsets = np.expm1(np.linspace(0.0, np.log1p(column.max - column.min), column.bins + 1))
    return (column.min, *(float(column.min + offset) for offset in offsets[1:-1]), column.max)


def _period_starts(first: dt.date, last: dt.date, period: str) -> list[int]:
    """First days, counted from 1970, of every period that meets [first, last]."""
    if period == "day":
        return list(range((first - EPOCH).days, (last - EPOCH).days + 1))
    if period == "week":
        monday = (first - EPOCH).days - first.weekday()
        return list(range(monday, (last - EPOCH).days + 1, 7))
    months = {"month": 1, "quarter": 3, "year": 12}[period]
    month = (first.year * 12 + first.month - 1) // months * months
    starts = []
    while (start := dt.date(month // 12, month % 12 + 1, 1)) <= last:
        starts.append((start - EPOCH).days)
        month += months
        if month // 12 > 9999:
            break
    return starts


def _clipped(starts: list[int], first: int, end: int) -> tuple[int, ...]:
    """Period starts as bin edges, the first and last cut to the declared bounds."""
    return (first, *(start for start in starts if first < start < end), end)


def _microseconds(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


def _edge_text(kind: Kind, edge: float | int) -> str:
    if kind == "date":
        return str(EPOCH + dt.timedelta(days=int(edge)))
    if kind == "datetime":
        return str(dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(edge)))
    return f"{edge:g}" if kind == "number" else str(int(edge))
