"""The public domain of a table: its tensors, and for each coded column its codes, their order and what one stands for.

Codes of a column are laid out as bins or listed values first, then `other` if declared, then null if declared.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np

from understudy.pipelines.spec.columns import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    DatetimeColumn,
    IdentifierColumn,
    IntegerColumn,
    ModelledColumn,
    NumberColumn,
    TensorColumn,
)
from understudy.pipelines.spec.derived import Column, DerivedColumn, LaterColumn, LookupColumn
from understudy.pipelines.spec.expressions import Expression
from understudy.pipelines.spec.formats import DateForm, Form, NumberForm, TruthForm, WordForm
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.binning import (
    EPOCH,
    MICROSECONDS_A_DAY,
    Binning,
    inner_numbers,
    inner_wholes,
    microseconds,
    number_bins,
    period_starts,
    whole_bins,
)
from understudy.pipelines.table.scales import Scale, ScaleName

__all__ = [
    "CELLS",
    "EPOCH",
    "MICROSECONDS_A_DAY",
    "DomainColumn",
    "Kind",
    "QualityColumn",
    "TableDomain",
    "TensorDomain",
]

AnyForm = TypeVar("AnyForm", NumberForm, DateForm, TruthForm, WordForm)
Kind = Literal["category", "integer", "number", "boolean", "date", "datetime"]
MICROSECONDS_AN_HOUR = 3_600_000_000
RESOLUTIONS = {"second": 1_000_000, "minute": 60_000_000, "hour": MICROSECONDS_AN_HOUR, "day": MICROSECONDS_A_DAY}


@dataclass(frozen=True)
class DomainColumn:
    """A column as codes 0..size-1.

    `values` are the listed values of a category, in code order. `edges` bound the bins of the other kinds: bin i is
    [edges[i], edges[i+1]), the last one closed, in the column's own units: numbers, whole numbers, days or microseconds
    since 1970. A boolean has codes 0 (false) and 1 (true).

    `spikes` are (bin, value): every value of that bin is published as this one. `span` is the declared range where
    spikes lie outside it: no other value is published outside. `step` is of what published values are multiples.
    """

    name: str
    kind: Kind
    values: tuple[str | int, ...]
    edges: tuple[float, ...] | tuple[int, ...]
    has_other: bool
    nullable: bool
    ordered: bool
    scale: ScaleName = "linear"
    decimals: int | None = None
    spikes: tuple[tuple[int, float | int], ...] = ()
    span: tuple[float, float] | tuple[int, int] | None = None
    step: Fraction | None = None
    form: Form | None = None
    """How its values are written, where the spec says more than what is understood without."""

    def form_of(self, kind: type[AnyForm]) -> AnyForm | None:
        return self.form if isinstance(self.form, kind) else None

    @property
    def places(self) -> int | None:
        """How many decimals its published values have, where they are multiples of a step that has as many."""
        if self.step is None:
            return None
        return next((digits for digits in range(13) if (self.step * 10**digits).denominator == 1), None)

    @property
    def log_scale(self) -> bool:
        return self.scale == "log"

    @property
    def declared_span(self) -> tuple[float, float] | tuple[int, int]:
        """The declared range; of whole numbers, days and moments the upper end is exclusive."""
        return self.span or (self.edges[0], self.edges[-1])

    @property
    def ends(self) -> tuple[float | int, float | int]:
        """The least and greatest value that may be published, spikes included."""
        low, high = self.declared_span
        if self.kind in ("integer", "date"):
            high -= 1
        spikes = [value for _, value in self.spikes]
        return min([low, *spikes]), max([high, *spikes])

    @property
    def on_scale(self) -> Scale:
        low, high = self.declared_span
        return Scale(self.scale, float(low), float(high))

    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """From where to where (exclusive) the published values of each bin lie; a spike's both ends are its value."""
        edges = np.array(self.edges, np.float64 if self.kind == "number" else np.int64)
        low, high = self.declared_span
        lows, highs = np.maximum(edges[:-1], low), np.minimum(edges[1:], high)
        for code, value in self.spikes:
            lows[code] = highs[code] = value
        return lows, highs

    @property
    def is_spike(self) -> np.ndarray:
        marked = np.zeros(self.value_codes, bool)
        marked[[code for code, _ in self.spikes]] = True
        return marked

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
            exactly = dict(self.spikes)
            labels = [
                f"= {_edge_text(self.kind, exactly[code])}" if code in exactly else _edge_text(self.kind, low)
                for code, low in enumerate(self.edges[:-1])
            ]
        return labels + ["other"] * self.has_other + ["null"] * self.nullable


CELLS = ("fine", "null", "unreadable", "below", "above", "other")
"""What became of a value: understood, missing, not understood, out of the declared range on either side, not listed."""


@dataclass(frozen=True)
class QualityColumn(DomainColumn):
    """The same column with codes that say how its values were understood, CELLS, and not which they are.

    Each row falls into one cell, decided by its own value alone.
    """

    @classmethod
    def of(cls, column: DomainColumn) -> QualityColumn:
        return cls(**{field.name: getattr(column, field.name) for field in fields(column)})

    @property
    def size(self) -> int:
        return len(CELLS)

    @property
    def fallback_code(self) -> int:
        return CELLS.index("unreadable")

    @property
    def missing_code(self) -> int:
        return CELLS.index("null")

    def code_labels(self) -> list[str]:
        return list(CELLS)


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
class Split:
    """A datetime that is modelled by parts, each a coded column; `whole` is how it is read and what bounds it has."""

    whole: DomainColumn
    parts: tuple[tuple[str, DomainColumn], ...]

    @property
    def name(self) -> str:
        return self.whole.name


@dataclass(frozen=True)
class Lapse:
    """A datetime that is modelled by how many seconds it lies after another one."""

    name: str
    after: DomainColumn
    seconds: DomainColumn

    @property
    def most(self) -> int:
        return int(self.seconds.declared_span[1]) - 1


@dataclass(frozen=True)
class Made:
    """A column that is computed from published ones, by an expression or by a table; `places` are the decimals that
    their numbers have."""

    name: str
    expression: Expression | None = None
    decimals: int | None = None
    places: tuple[tuple[str, int], ...] = ()
    source: str = ""
    table: tuple[tuple[str, str | int], ...] = ()


@dataclass(frozen=True)
class TableDomain:
    """The coded columns and the tensors, each in spec order, and the identifiers that are published as fresh ids.

    Whatever counts sees `columns` alone: tensors have no codes. A published table holds, in the place of the parts of a
    datetime, the datetime; of a lapse, the moment; and the columns that are made of others.
    """

    columns: tuple[DomainColumn, ...]
    surrogates: tuple[str, ...] = ()
    tensors: tuple[TensorDomain, ...] = ()
    splits: tuple[Split, ...] = ()
    lapses: tuple[Lapse, ...] = ()
    made: tuple[Made, ...] = ()
    layout: tuple[str, ...] | None = None

    @classmethod
    def of(cls, spec: ReleaseSpec) -> TableDomain:
        modelled: list[DomainColumn] = []
        splits, lapses, made, layout = [], [], [], []
        for name, column in spec.columns.items():
            match column:
                case DatetimeColumn() if column.parts:
                    splits.append(_split(name, column))
                    modelled += [part for _, part in splits[-1].parts]
                case LaterColumn():
                    lapses.append(_lapse(name, column, spec))
                    modelled.append(lapses[-1].seconds)
                case DerivedColumn() | LookupColumn():
                    made.append(_made(name, column, modelled))
                case TensorColumn() | IdentifierColumn():
                    continue
                case _:
                    modelled.append(_domain_column(name, column))
            layout.append(name)
        surrogates = tuple(name for name, column in spec.columns.items() if _is_surrogate(column))
        tensors = tuple(
            TensorDomain(name, column.shape, float(column.min), float(column.max))
            for name, column in spec.columns.items()
            if isinstance(column, TensorColumn)
        )
        published = (*surrogates, *layout, *(tensor.name for tensor in tensors)) if splits or made else None
        return cls(tuple(modelled), surrogates, tensors, tuple(splits), tuple(lapses), tuple(made), published)

    @property
    def as_modelled(self) -> bool:
        """Whether the columns of the source are the coded ones, value by value."""
        return not (self.splits or self.lapses)

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
    def generated_names(self) -> tuple[str, ...]:
        """The columns of a generated table, before what is modelled by parts is put together."""
        return self.surrogates + self.record_names

    @property
    def published_names(self) -> tuple[str, ...]:
        """The columns of a published table, in its order: fresh ids, columns in spec order, tensors."""
        return self.generated_names if self.layout is None else self.layout

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.columns)

    @cached_property
    def countable(self) -> tuple[DomainColumn, ...]:
        """What the numbers in a clique stand for: the columns, and after them how each of them was understood."""
        return self.columns + tuple(QualityColumn.of(column) for column in self.columns)

    @cached_property
    def countable_sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.countable)

    def quality_of(self, index: int) -> int:
        """The number of a column's quality in a clique."""
        return len(self.columns) + index

    def base_of(self, index: int) -> int:
        """The column that a number in a clique is about."""
        return index % len(self.columns)

    def index(self, name: str) -> int:
        return self.names.index(name)


def _is_surrogate(column: Column) -> bool:
    return isinstance(column, IdentifierColumn) and column.action == "surrogate"


def _split(name: str, column: DatetimeColumn) -> Split:
    """The date in the column's bins, and what else is asked for: weekdays from Monday, hours, minutes."""
    assert column.bins != "hour"  # which the spec refuses
    first, last = column.min.date(), column.max.date()
    date = DateColumn(type="date", min=first, max=last, bins=column.bins, nullable=column.nullable)
    whole = column.model_copy(update={"resolution": column.resolution or finest(column.parts)})
    found: list[tuple[str, DomainColumn]] = []
    for part in column.parts:
        if part == "date":
            found.append((part, _domain_column(f"{name}.date", date)))
            continue
        count = {"weekday": 7, "hour": 24, "minute": 60}[part]
        edges = tuple(range(count + 1))
        found.append((part, DomainColumn(f"{name}.{part}", "integer", (), edges, False, column.nullable, True)))
    return Split(_domain_column(name, whole), tuple(found))


def finest(parts: tuple[str, ...]) -> Literal["second", "hour", "day"]:
    """What is published where no resolution is declared: within an hour, moments lie as they like."""
    return "second" if "minute" in parts or "hour" in parts else "day"


def _lapse(name: str, column: LaterColumn, spec: ReleaseSpec) -> Lapse:
    start = spec.columns[column.after]
    assert isinstance(start, DatetimeColumn)
    bins = whole_bins(0, column.up_to + 1, inner_wholes(0, column.up_to + 1, column.bins, "signed"), ())
    step = Fraction(RESOLUTIONS[column.resolution], RESOLUTIONS["second"])
    seconds = _binned(name, "integer", bins, column.nullable, "signed", step=step)
    return Lapse(name, _domain_column(column.after, start), seconds)


def _made(name: str, column: DerivedColumn | LookupColumn, modelled: list[DomainColumn]) -> Made:
    if isinstance(column, LookupColumn):
        return Made(name, source=column.from_, table=tuple(column.table.items()))
    places = tuple(
        (each.name, digits)
        for each in modelled
        if each.kind == "number" and each.name in column.expression.names and (digits := each.places) is not None
    )
    return Made(name, column.expression, column.decimals, places)


def _domain_column(name: str, column: ModelledColumn) -> DomainColumn:
    return replace(_coded(name, column), form=column.form)


def _coded(name: str, column: ModelledColumn) -> DomainColumn:
    match column:
        case CategoryColumn():
            return DomainColumn(name, "category", column.values, (), column.other, column.nullable, column.ordered)
        case BooleanColumn():
            return DomainColumn(name, "boolean", (), (), False, column.nullable, True)
        case IntegerColumn():
            end = column.max + 1
            bins = whole_bins(column.min, end, inner_wholes(column.min, end, column.bins, column.scale), column.spikes)
            step = None if column.step is None else Fraction(column.step)
            return _binned(name, "integer", bins, column.nullable, column.scale, step=step)
        case NumberColumn():
            step = _step(column)
            inner = inner_numbers(column.min, column.max, column.bins, column.scale)
            bins = number_bins(column.min, column.max, inner, column.spikes, None if step is None else float(step))
            return _binned(name, "number", bins, column.nullable, column.scale, column.decimals, step)
        case DateColumn():
            first, last = (column.min - EPOCH).days, (column.max - EPOCH).days + 1
            if isinstance(column.bins, int):
                days = inner_wholes(first, last, column.bins, "linear")
            else:
                days = period_starts(column.min, column.max, column.bins)
            spikes = [(day - EPOCH).days for day in column.spikes]
            return _binned(name, "date", whole_bins(first, last, days, spikes), column.nullable)
        case DatetimeColumn():
            bins = moment_bins(column)
            return _binned(name, "datetime", bins, column.nullable, step=_resolution(column, bins))


def _binned(
    name: str,
    kind: Kind,
    bins: Binning,
    nullable: bool,
    scale: ScaleName = "linear",
    decimals: int | None = None,
    step: Fraction | None = None,
) -> DomainColumn:
    span = None if bins.span == (bins.edges[0], bins.edges[-1]) else bins.span
    return DomainColumn(name, kind, (), bins.edges, False, nullable, True, scale, decimals, bins.spikes, span, step)


def moment_bins(column: DatetimeColumn) -> Binning:
    start, end = microseconds(column.min), microseconds(column.max)
    if isinstance(column.bins, int):
        inner = inner_wholes(start, end, column.bins, "linear")
    elif column.bins == "hour":
        inner = list(range(start - start % MICROSECONDS_AN_HOUR, end, MICROSECONDS_AN_HOUR))
    else:
        days = period_starts(column.min.date(), column.max.date(), column.bins)
        inner = [day * MICROSECONDS_A_DAY for day in days]
    return whole_bins(start, end, inner, [microseconds(moment) for moment in column.spikes])


def _step(column: NumberColumn) -> Fraction | None:
    """Of what published numbers are multiples, exactly as it is written: 0.1 is a tenth."""
    if column.step is not None:
        return Fraction(str(column.step))
    return None if column.decimals is None else Fraction(1, 10**column.decimals)


def _resolution(column: DatetimeColumn, bins: Binning) -> Fraction:
    """As declared; else whole days where bins are a day or longer, since nothing is known of the time of day, and
    whole seconds where they are shorter."""
    if column.resolution is not None:
        return Fraction(RESOLUTIONS[column.resolution])
    widths = np.diff(np.array(bins.edges, np.int64))
    typical = int(np.median(widths)) if len(widths) else MICROSECONDS_A_DAY
    return Fraction(RESOLUTIONS["day" if typical >= MICROSECONDS_A_DAY else "second"])


def _edge_text(kind: Kind, edge: float | int) -> str:
    if kind == "date":
        return str(EPOCH + dt.timedelta(days=int(edge)))
    if kind == "datetime":
        return str(dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(edge)))
    return f"{edge:g}" if kind == "number" else str(int(edge))
